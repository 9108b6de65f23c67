"""Build the requests of a command, and ask."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from zae_limiter_manifest import Answer, LimitsManifest, Request

from ..connection import Connection
from ..errors import CommandError
from ..progress import reporter
from .provisioner import Planner, Provisioner
from .showing import refuse


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


def ask(connection: Connection, action: Any, namespace: str, **fields: Any) -> Answer:
    """Return the answer of the planner, or to ``unlock`` that of the provisioner. Raises ``CommandError``, also for a
    field that no request may have.
    """
    with as_command_errors():
        request = Request(action, namespace, **fields)
    asked = Provisioner if action == "unlock" else Planner
    answer = asked(connection, reporter(quiet=False)).ask(request)
    refuse(namespace, answer)
    return answer
