"""Compare the versions of a stack with the installed ones."""

from dataclasses import dataclass
from importlib.metadata import version
from typing import Any, NamedTuple

from zae_limiter import ZAELimiterError
from zae_limiter.exceptions import VersionError
from zae_limiter.maintenance import VersionRecord
from zae_limiter.values.versions import (
    check_compatible,
    core_version,
    record_of_this_release,
    record_over,
)

from ..artifacts.builder import LambdaName, distribution_name
from ..connection import Connection
from ..errors import CommandError
from . import cloudformation, record
from .code import find_function, function_name
from .deploy import earlier_options, lambdas_of


class Part(NamedTuple):
    """One version, of the stack and of this release."""

    part: str
    stack: str
    here: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """How a stack and this release fit, and what to do if they do not."""

    parts: tuple[Part, ...]
    advice: str
    fits: bool

    def plain(self) -> dict[str, Any]:
        """Return the same as plain values."""
        return {"fits": self.fits, "advice": self.advice, "parts": [each._asdict() for each in self.parts]}


def compare_if_there(connection: Connection) -> Comparison | None:
    """Return the stack beside this release; ``None`` where it cannot be read, which a check of `status` shows."""
    from botocore.exceptions import ClientError

    try:
        return _compare(connection)
    except (ClientError, CommandError, ZAELimiterError):
        return None


def _compare(connection: Connection) -> Comparison | None:
    client = connection.client("cloudformation")
    stack = cloudformation.find(client, connection.name)
    if stack is None:
        return None
    options = earlier_options(cloudformation.template_of(client, connection.name), stack)
    lambdas = lambdas_of(options)
    with connection.open_table() as table:
        found = record.read_record(table)
    parts = (*_recorded(found), *_code(connection, lambdas))
    problem = _problem(connection.name, found)
    if problem is None and any(each.stack != each.here for each in parts):
        problem = _other_release(connection.name, found)
    return Comparison(parts, problem or "Stack and release match.", problem is None)


def _recorded(found: VersionRecord | None) -> list[Part]:
    ours = record_of_this_release()
    oldest = record_over(found).min_client_version if found else ours.min_client_version
    return [
        Part("schema", str(found.schema_version) if found else "-", str(ours.schema_version)),
        Part("core", found.core_version if found else "-", ours.core_version),
        Part("oldest client", found.min_client_version if found else "-", oldest),
    ]


def _code(connection: Connection, lambdas: list[LambdaName]) -> list[Part]:
    client = connection.client("lambda")
    found = {name: find_function(client, function_name(connection.name, name)) for name in lambdas}
    return [
        Part(name, (function and function.version) or "-", version(distribution_name(name)))
        for name, function in found.items()
    ]


def _other_release(stack: str, found: VersionRecord | None) -> str:
    try:
        record.refuse_downgrade(stack, found)
    except CommandError as error:
        return str(error)
    return f"the stack has another release: `zae-limiter upgrade --name {stack}` upgrades it"


def _problem(stack: str, found: VersionRecord | None) -> str | None:
    if found is None:
        return None
    try:
        check_compatible(found, stack=stack, client_version=core_version())
    except VersionError as error:
        return str(error)
    return None
