"""The entry points of both functions: the provisioner, and the planner, which writes nothing.

``actions`` plans and writes limits.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from zae_limiter.maintenance import Skipped, log_as_json
from zae_limiter_manifest import Answer, FormatError, ManifestError, Request, ignored_in, page, unpack
from zae_limiter_manifest.packing import LARGEST_REQUEST

from .actions import namespace_in, perform, read, read_request
from .cloudformation import is_stack_event, on_stack_event
from .delegated import check_namespaces
from .refusals import Refused, failed_answer
from .table import Table, table_of_environment
from .warned import LOGGED, first, warnings_of

LOGGERS: Final = ("zae_limiter", "zae_limiter_provisioner")
logger = logging.getLogger(__name__)

Act = Callable[[Table, Request], Answer]


def on_event(event: Mapping[str, Any], context: object) -> dict[str, Any]:
    """Answer a request in plain values; bad input and a failing table are errors in the answer.

    ``ZAEL_STACK`` names the table. The reply to a CloudFormation event goes to its ResponseURL.
    """
    log_as_json(*LOGGERS)
    if is_stack_event(event):
        return on_stack_event(event, context)
    return _reply(event, partial(perform, context=context), context)


def on_plan_event(event: Mapping[str, Any], context: object) -> dict[str, Any]:
    """Answer as ``on_event`` does, but refuse every request that writes, and every event of CloudFormation."""
    log_as_json(*LOGGERS)
    if is_stack_event(event):
        problem = "the planner takes no events of CloudFormation: ServiceToken must be the ARN of the provisioner"
        return _failed(Refused("read_only", problem), {})
    return _reply(event, partial(read, context=context), context)


def _reply(event: Mapping[str, Any], act: Act, context: object) -> dict[str, Any]:
    plain: object = event
    try:
        plain = unpack([event], largest=LARGEST_REQUEST) if isinstance(event, Mapping) else event
        return _paged(_answer(plain, act, context), plain)
    except FormatError as error:  # also of a page: the answer has changed since
        return _failed(error, plain)


def _answer(plain: object, act: Act, context: object) -> dict[str, Any]:
    """Return the whole answer to a request."""
    try:
        request = read_request(plain)
        check_namespaces(context, request.namespace)
        with Skipped() as skipped:
            answer = act(table_of_environment(), request)
    except (Refused, ManifestError, FormatError) as error:
        return _failed(error, plain)
    except Exception as error:
        logger.exception("the request failed")
        return _failed(error, plain)
    warnings = warnings_of(request.manifest) if request.action == "apply" else []
    _log(request.action, request.namespace, answer, warnings)
    unreadable = [
        dict(zip(("pk", "sk", "problem"), map(str, each.args), strict=True)) for each in skipped.take_errors()
    ]
    return _with_notes(answer, plain) | ({"unreadable": unreadable} if unreadable else {})


def _paged(answer: dict[str, Any], plain: object) -> dict[str, Any]:
    """Return the page of an answer that the request asks for. Raises ``FormatError`` if it has changed since the
    first.
    """
    after = plain.get("next") if isinstance(plain, Mapping) else None
    return page(answer, after if isinstance(after, str) else None)


def _failed(error: Exception, plain: object) -> dict[str, Any]:
    return _with_notes(failed_answer(error, namespace_in(plain)), plain)


def _with_notes(answer: Answer, plain: object) -> dict[str, Any]:
    """Return the answer in plain values, with notes on the parts of the request that were ignored."""
    notes = ignored_in(plain)
    return {**answer.to_dict(), **({"notes": list(notes)} if notes else {})}


def _log(action: str, namespace: str, answer: Answer, warnings: Sequence[str]) -> None:
    counts = {"created": 0, "updated": 0, "deleted": 0}
    if answer.plan:
        counts = {name: getattr(answer.plan, name) for name in counts}
    errors = [f"{failure.code}: {failure.message}" for failure in answer.errors[:10]]
    told = {"warnings": first(warnings, LOGGED)} if warnings else {}
    fields = {"action": action, "namespace": namespace, "status": answer.status, **counts, "errors": errors, **told}
    logger.info("a request", extra={"fields": fields})
