"""Say, beside what a command or a page shows, which records it had to skip: a line for each, with its key.

Core collects them from every list (``maintenance.Skipped``). A command prints the lines at its end, and a JSON document
has them as ``unreadable``.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, Final

import click

from .errors import one_line

if TYPE_CHECKING:
    from zae_limiter.maintenance import Skipped
    from zae_limiter.stores import Unreadable

MOST: Final = 50  # lines
_HERE: Final = "zae_limiter_cli.skipped"

_current: "ContextVar[Skipped | None]" = ContextVar("skipped", default=None)


@contextmanager
def collecting() -> "Iterator[Skipped]":
    """Collect what lists skip while the block runs, for the ``taken`` of the block."""
    from zae_limiter.maintenance import Skipped

    with Skipped() as skipped:
        before = _current.set(skipped)
        try:
            yield skipped
        finally:
            _current.reset(before)


def listen() -> None:
    """Collect for the command that runs, from its first use of a store on, and report the rest at its end."""
    context = click.get_current_context(silent=True)
    if context is not None and _HERE not in (root := context.find_root()).meta:
        root.meta[_HERE] = root.with_resource(_told_at_the_end())


@contextmanager
def _told_at_the_end() -> "Iterator[None]":
    with collecting() as skipped:
        try:
            yield
        finally:
            for line in [*skipped.take_lines(), *lines_of(skipped.take_errors(), skipped.take_unnamed())]:
                click.echo(f"Warning: {one_line(line)}", err=True)


def lines_of(errors: "Iterable[Unreadable]", unnamed: int = 0) -> list[str]:
    """Return a line for each record, and one for those that are too many, with the ``unnamed`` ones."""
    lines = [one_line(str(each)) for each in errors]
    more = max(0, len(lines) - MOST) + unnamed
    return [*lines[:MOST], *([f"{more:,} more records cannot be read"] if more else [])]


def in_brief(errors: "Sequence[Unreadable]") -> list[str]:
    """Return the first line and the number of the others, for a screen with little room; nothing if there is none."""
    first, *others = [one_line(str(each)) for each in errors] or [""]
    more = f", and {len(others):,} more" if others else ""
    return [f"{first}{more}"] if first else []


def taken() -> "list[Unreadable]":
    """Return the errors of the records that were skipped and not reported yet."""
    skipped = _current.get()
    return [] if skipped is None else [*skipped.take_errors()]


def document() -> dict[str, Any]:
    """Return what a JSON document says of skipped records: nothing, if there are none."""
    found = [dict(zip(("pk", "sk", "problem"), map(str, each.args), strict=True)) for each in taken()]
    skipped = _current.get()
    more = 0 if skipped is None else skipped.take_unnamed()
    return {**({"unreadable": found} if found else {}), **({"unreadable_more": more} if more else {})}


def add(told: object) -> None:
    """Take the records that another process has skipped, as it says it in an answer. Anything else is ignored."""
    from zae_limiter.stores import Unreadable

    skipped = _current.get()
    if skipped is not None and isinstance(told, list):
        found = (
            [str(each.get(name)) for name in ("pk", "sk", "problem")] for each in told if isinstance(each, Mapping)
        )
        skipped.add(Unreadable(*each) for each in found)
