"""What lives here: the Lambda's entry: it reads a request, opens the table of its environment, and answers.
What never does: comparing or writing limits (changes, applying).
"""

import logging
from collections.abc import Callable, Mapping
from typing import Any, Final

from zae_limiter import SyncRepository, ZAELimiterError
from zae_limiter_manifest import LimitsManifest, ManifestError

from .answers import Answer, answer, failure, manifest_failures
from .applying import apply_manifest

logger = logging.getLogger(__name__)


def on_event(event: Mapping[str, Any], context: object) -> Answer:  # noqa: ARG001  Lambda passes both
    """What became of ``{"action": "apply", "manifest": {…}}``; bad input and a failing table are errors in it.

    The table is that of ``ZAEL_STACK``; region, endpoint and credentials are found as the SDK finds them.
    """
    action = event.get("action") if isinstance(event, Mapping) else None
    if not isinstance(action, str) or action not in ACTIONS:
        known = ", ".join(sorted(ACTIONS))
        return answer(errors=[failure("unknown_action", f"there is no action {action!r}; there are: {known}")])
    done = ACTIONS[action](event)
    logger.info("%s of %s: %s, %d errors", action, done["namespace"], done["status"], len(done["errors"]))
    return done


def _apply(event: Mapping[str, Any]) -> Answer:
    try:
        manifest = LimitsManifest.from_dict(event.get("manifest"), "manifest")  # type: ignore[arg-type]  # it checks
    except ManifestError as error:
        return answer(errors=manifest_failures(error))
    try:
        with SyncRepository.open(manifest.namespace) as repository:
            return apply_manifest(repository, manifest)
    except ZAELimiterError as error:
        told = [failure("table_failed", error)]
        return answer(errors=told, namespace=manifest.namespace, manifest_hash=manifest.canonical_hash())


ACTIONS: Final[Mapping[str, Callable[[Mapping[str, Any]], Answer]]] = {"apply": _apply}
