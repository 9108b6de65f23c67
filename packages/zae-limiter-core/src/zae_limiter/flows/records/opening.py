"""The table, and the way into a namespace, as far as opening a repository needs them.

Lives here: what is asked before there is a namespace state. Never: anything inside a namespace.
"""

import logging
from collections.abc import Callable
from contextlib import suppress

from ...exceptions import NamespaceNotFoundError, RateLimiterUnavailable
from ...namespaces import Namespace
from ...operations.errors import StoreError, TableExists, TableMissing
from ...operations.values import CreateTable, DescribeTable, EnableTtl, Get, Item
from ...schema.attributes import DELETED, NAMESPACE_ID
from ...schema.registry import read_version
from ...versions import check_compatible
from ..public_errors import public_error
from ..retry import read_all, with_retries
from ..steps import Flow, Log, Sleep, call
from . import registry, versions

POLL_SECONDS = 0.5
POLLS = 240
PROBE = Get(versions.KEY)  # what a store is asked that is only asked whether it answers
DOUBT_SECONDS = 0.25  # dates tell the second, so that the next one takes four of these at most
DOUBTS = 10


def open_namespace(
    name: str,
    make: Callable[[], Namespace],
    *,
    stack: str,
    register: bool,
    client_version: str | None,
    doubted: Callable[[], bool],
) -> Flow[str]:
    """The id of the namespace, which is made and registered where it is missing and ``register`` says so.

    It is made after the first answer, which corrected the clock, and after others where the clock is still ``doubted``.

    One that was deleted is not found, whatever ``register`` says: the next process that opens it would undo the
    deletion. Without ``client_version`` the stack's versions are not checked. Raises ``NamespaceNotFoundError``,
    ``InfrastructureNotFoundError``, ``RateLimiterUnavailable``, ``StoreRefusedError``, ``VersionError``.
    """
    try:
        item = yield from _find(name, stack=stack, client_version=client_version)
        yield from _agree_on_the_time(doubted)
        if item is None and register:
            return (yield from registry.register(make())).namespace_id
    except StoreError as error:
        raise public_error(stack, error) from error
    if item is None or DELETED in item:
        raise NamespaceNotFoundError(name, None if item is None else item[NAMESPACE_ID])
    return str(item[NAMESPACE_ID])


def _find(name: str, *, stack: str, client_version: str | None) -> Flow[Item | None]:
    key = registry.name_key(name)
    found = yield from read_all([key] if client_version is None else [key, versions.KEY])
    if client_version is not None and versions.KEY in found:
        check_compatible(read_version(found[versions.KEY]), stack=stack, client_version=client_version)
    return found.get(key)


def _agree_on_the_time(doubted: Callable[[], bool]) -> Flow[None]:
    """Ask until two answers agree on the time, or one agrees with the machine."""
    for _ in range(DOUBTS):
        if not doubted():
            return
        yield Sleep(DOUBT_SECONDS)
        yield from with_retries(PROBE)
    if doubted():
        told = "the dates of the store's answers do not agree with this machine's clock, nor with each other: it is"
        yield Log(__name__, logging.WARNING, f"{told} believed until they do; look at what stands between")


def create_table(stack: str) -> Flow[None]:
    """Create the table of the schema and wait until it is there; one that exists is left as it is."""
    try:
        yield from _create(stack)
    except StoreError as error:
        raise public_error(stack, error, failed=f"table {stack!r} could not be created") from error


def _create(stack: str) -> Flow[None]:
    with suppress(TableExists):
        yield from with_retries(CreateTable())
    for _ in range(POLLS):
        if (yield from _is_active()):
            yield from with_retries(EnableTtl())
            return
        yield Sleep(POLL_SECONDS)
    raise RateLimiterUnavailable(f"table {stack!r} did not become active within {POLLS * POLL_SECONDS:.0f} s")


def _is_active() -> Flow[bool]:
    try:
        return bool((yield from with_retries(DescribeTable())) == "ACTIVE")
    except TableMissing:  # created, but not everybody knows it yet
        return False


def ping() -> Flow[bool]:
    """Whether the store answers a read, and serves it; ``False`` at once while it is known not to answer."""
    try:
        yield from call(PROBE)
    except StoreError:
        return False
    return True
