"""Build the requests of a command about its manifests."""

from collections.abc import Iterable
from typing import Any

from zae_limiter_manifest import LimitsManifest, Request

from ..errors import CommandError


def requests_of(action: Any, manifests: Iterable[LimitsManifest], **fields: Any) -> list[Request]:
    """Return a request about each manifest. Raises ``CommandError`` for a field that no request may have."""
    try:
        return [Request.of(action, manifest, **fields) for manifest in manifests]
    except (ValueError, TypeError) as error:
        raise CommandError(str(error)) from error
