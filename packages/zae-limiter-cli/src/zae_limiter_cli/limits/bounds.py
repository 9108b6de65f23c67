"""The bounds of a delegation, which the provisioner keeps: who may invoke it by its name alone may set them."""

from pathlib import Path

from zae_limiter_manifest import MAX_BYTES, Answer, Bounds, Request

from ..connection import Connection
from ..errors import CommandError
from ..inputs import read_head
from .function import Function
from .provisioner import Planner
from .showing import refuse


def read_bounds(file: Path) -> Bounds:
    """Return the bounds in a file. Raises ``ManifestError`` with its mistakes."""
    return Bounds.from_yaml(read_head(file, MAX_BYTES + 1), str(file))


def find_bounds(connection: Connection, namespace: str) -> Bounds | None:
    """Return the bounds of a namespace; ``None`` if it has none."""
    answer = Planner(connection).ask(Request("bounds", namespace))
    _refuse(connection, namespace, answer)
    return answer.bounds


def set_bounds(connection: Connection, namespace: str, bounds: Bounds) -> Answer:
    """Set the bounds of a namespace. The answer has what of its live limits is beyond them."""
    answer = Function(connection, "provisioner").ask(Request("bind", namespace, bounds=bounds))
    _refuse(connection, namespace, answer)
    return answer


def remove_bounds(connection: Connection, namespace: str) -> None:
    """Remove the bounds of a namespace. A function of a release without bounds has none to remove."""
    answer = Function(connection, "provisioner").ask(Request("unbind", namespace))
    if not _is_of_older_release(answer):
        refuse(namespace, answer)


def _refuse(connection: Connection, namespace: str, answer: Answer) -> None:
    if _is_of_older_release(answer):
        way_out = f"`zae-limiter upgrade --name {connection.name}` brings code that does"
        raise CommandError(f"the functions of {connection.name} know no bounds: {way_out}")
    refuse(namespace, answer)


def _is_of_older_release(answer: Answer) -> bool:
    return any(each.code == "unknown_action" for each in answer.errors)
