"""Open a namespace for reading, and read rows from as many pages as they need."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial, wraps
from itertools import islice
from shlex import quote
from time import sleep
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from .columns import say_sentence
from .options import Function, connected, in_namespace

if TYPE_CHECKING:
    from zae_limiter import Entity, SyncRepository
    from zae_limiter.values import Bucket

    from .connection import Connection

Row = TypeVar("Row")
FetchPage = Callable[[int, str | None], tuple[Sequence[Row], str | None]]

ROWS: Final = 100
PAUSES: Final = (0.5, 1.0, 2.0)  # seconds before a read is tried again
ROWS_OF_A_PAGE: Final = 1000  # the most that core gives at once


def open_namespace(connection: "Connection", namespace: str) -> "SyncRepository":
    """Open a namespace that exists already, with a second try if the store does not answer. Raises the errors of
    ``SyncRepository.open``, and ``CommandError`` for a missing file.
    """
    from zae_limiter.exceptions import NamespaceNotFoundError
    from zae_limiter.maintenance import SyncMaintenance

    connection.check_there()
    try:
        return _open(connection, namespace)
    except NamespaceNotFoundError:
        with connection.open_table() as table:
            SyncMaintenance(table).get_version_record()  # it raises for the table of another product
        raise


def _open(connection: "Connection", namespace: str) -> "SyncRepository":
    from zae_limiter import RateLimiterUnavailable, SyncRepository

    options = connection.store_options()
    try:
        return SyncRepository.open(namespace, register=False, **options)
    except RateLimiterUnavailable:
        return SyncRepository.open(namespace, register=False, **options)


def in_repository(function: Function) -> Function:
    """Add the options of a connection, and ``--namespace``; the command gets ``repository``, open until it ends."""

    @wraps(function)
    def command(*args: Any, connection: "Connection", namespace: str, **kwargs: Any) -> Any:
        with open_namespace(connection, namespace) as repository:
            return function(*args, repository=repository, **kwargs)

    return connected(in_namespace(command))  # type: ignore[return-value]  # click hands it the rest


def rows_option(function: Function, *, default: int = ROWS, most: int | None = None, noun: str = "rows") -> Function:
    """Add ``--rows``; the command gets ``rows``, how many to show at most."""
    option = click.option(
        "--rows",
        type=click.IntRange(min=1, max=most),
        default=default,
        show_default=True,
        help=f"Maximum number of {noun}.",
    )
    return option(function)


following_option = click.option(
    "--next", "following", metavar="TEXT", help="List what follows: the `next` of the list before."
)


def is_asked(asked: str | None, resource: str) -> bool:
    """Whether a resource is the one that is asked for, or one that the pattern matches; ``None`` asks for all."""
    from zae_limiter.values.patterns import is_pattern, matches

    return asked is None or (matches(asked, resource) if is_pattern(asked) else asked == resource)


def bucket_pages(repository: "SyncRepository", resource: str | None) -> "FetchPage[Bucket]":
    """Return what fetches a page of the buckets of a namespace, of a resource, or of those that a pattern matches."""
    from zae_limiter.values.patterns import is_pattern

    asked = None if resource is not None and is_pattern(resource) else resource

    def fetch(size: int, behind: str | None) -> tuple[Sequence["Bucket"], str | None]:
        page = repository.list_buckets(asked, limit=size, next=behind)
        return [each for each in page.buckets if is_asked(resource, each.resource)], page.next

    return fetch


def every_row(fetch: FetchPage[Row], size: int = ROWS_OF_A_PAGE, behind: str | None = None) -> Iterator[Row]:
    """Yield the rows of all pages after ``behind``; ``fetch`` gets the size of a page and the ``next`` of the one
    before, and returns rows and ``next``.
    """
    found, following = fetch(size, behind)
    yield from found
    while following is not None:
        found, following = patiently(partial(fetch, size, following))
        yield from found


def patiently(read: Callable[[], Row]) -> Row:
    """Return what a read gives that comes after others: if the store does not answer, it is asked again some times.

    What was read before is not thrown away for one late answer.
    """
    from zae_limiter import RateLimiterUnavailable

    for pause in PAUSES:
        try:
            return read()
        except RateLimiterUnavailable:
            sleep(pause)
    return read()


def first_rows(fetch: FetchPage[Row], most: int) -> tuple[list[Row], bool]:
    """Return the first rows, and whether there are more."""
    found = list(islice(every_row(fetch, min(most + 1, ROWS_OF_A_PAGE)), most + 1))
    return found[:most], len(found) > most


def some_rows(fetch: FetchPage[Row], most: int, behind: str | None) -> tuple[list[Row], str | None]:
    """Return the first rows after ``behind``, and the ``next`` that gives the rest; ``None`` at the end."""
    page, behind = fetch(min(most, ROWS_OF_A_PAGE), behind)
    found = [*page]
    while behind is not None and len(found) < most:
        page, behind = patiently(partial(fetch, min(most - len(found), ROWS_OF_A_PAGE), behind))
        found += page
    return found, behind


def say_following(behind: str | None) -> None:
    """Print, beside the result, how to list the rest of it, if there is more."""
    if behind is not None:
        say_sentence(f"There are more: pass --next {quote(behind)}, or raise --rows.", err=True)


def say_more(rest: str) -> None:
    """Print, beside the result, that there is more of it."""
    click.echo(f"There are more {rest}: raise --rows.", err=True)


def every_record(repository: "SyncRepository") -> Iterator["Entity"]:
    """Yield the record of every entity of the namespace; a page of them at a time is in memory."""

    def fetch(size: int, behind: str | None) -> tuple[list["Entity"], str | None]:
        page = repository.list_entities(limit=size, next=behind)
        return [each.record for each in page.entities if each.record is not None], page.next

    return every_row(fetch)
