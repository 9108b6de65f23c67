"""Open a namespace for reading, and read rows from as many pages as they need."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from zae_limiter import SyncRepository

    from .connection import Connection

Function = TypeVar("Function", bound=Callable[..., Any])
Row = TypeVar("Row")
FetchPage = Callable[[int, str | None], tuple[Sequence[Row], str | None]]

ROWS: Final = 100
ROWS_OF_A_PAGE: Final = 1000  # the most that core gives at once


def open_namespace(connection: "Connection", namespace: str) -> "SyncRepository":
    """Open a namespace that exists already. Raises the errors of ``SyncRepository.open``, and ``CommandError`` for a
    missing file.
    """
    from zae_limiter import SyncRepository

    connection.check_there()
    return SyncRepository.open(namespace, register=False, **connection.store_options())


def rows_option(function: Function) -> Function:
    """Add ``--limit``; the command gets ``rows``, how many to show at most."""
    return click.option(
        "--limit", "rows", type=click.IntRange(min=1), default=ROWS, show_default=True, help="Maximum number of rows."
    )(function)


def every_row(fetch: FetchPage[Row], size: int = ROWS_OF_A_PAGE) -> Iterator[Row]:
    """Yield the rows of all pages; ``fetch`` gets the size of a page and the ``next`` of the one before, and returns
    rows and ``next``.
    """
    found, following = fetch(size, None)
    yield from found
    while following is not None:
        found, following = fetch(size, following)
        yield from found


def first_rows(fetch: FetchPage[Row], most: int) -> tuple[list[Row], bool]:
    """Return the first rows, and whether there are more."""
    found = list(islice(every_row(fetch, min(most + 1, ROWS_OF_A_PAGE)), most + 1))
    return found[:most], len(found) > most


def say_more(rest: str) -> None:
    """Print, beside the result, that there is more of it."""
    click.echo(f"There are more {rest}: raise --limit.", err=True)
