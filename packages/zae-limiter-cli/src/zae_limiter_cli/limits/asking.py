"""Build the requests of a command."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from zae_limiter_manifest import LimitsManifest, Request

from ..errors import CommandError


@contextmanager
def as_command_errors() -> Iterator[None]:
    """Raise ``CommandError`` for a field that no request may have."""
    try:
        yield
    except (ValueError, TypeError) as error:
        raise CommandError(str(error)) from error


def requests_of(action: Any, manifests: Iterable[LimitsManifest], **fields: Any) -> list[Request]:
    """Return a request about each manifest. Raises ``CommandError`` for a field that no request may have."""
    with as_command_errors():
        return [Request.of(action, manifest, **fields) for manifest in manifests]
