"""Make all checks, in the order in which one explains the next."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from .caller import Caller, ask_sts, check_clock, check_region, credentials_of, without_credentials
from .findings import Checks, Finding

if TYPE_CHECKING:
    from ..connection import Connection


def diagnose(connection: "Connection") -> Iterator[Finding]:
    """Yield each finding as soon as it is made. Nothing is written."""
    checks = Checks()
    if connection.file is not None:
        from .file import check_file

        yield from check_file(connection, checks)
        return
    region = checks.make("region", lambda: check_region(connection))
    yield region
    if region.state == "fail":
        return
    callers: list[Caller] = []
    yield checks.make("credentials", lambda: _credentials(connection, callers))
    if callers:
        caller = callers[0]
        yield checks.make("clock", lambda: check_clock(caller))
    from .stack import check_stack

    yield from check_stack(connection, checks)
    yield from _rights(connection, checks, callers)


def _credentials(connection: "Connection", callers: list[Caller]) -> Finding:
    try:
        callers.append(ask_sts(connection))
    except Exception as error:
        if (found := without_credentials(error)) is None:
            raise
        return found
    return credentials_of(callers[0])


def _rights(connection: "Connection", checks: Checks, callers: list[Caller]) -> Iterator[Finding]:
    from .rights import check_rights

    if not callers:
        yield Finding("rights", "unknown", "STS did not say who the caller is", "see the check of the credentials")
        return
    found: list[Finding] = []

    def look() -> Finding:
        found.extend(check_rights(connection, callers[0]))
        return found[0]

    first = checks.make("rights", look)
    yield from found or [first]
