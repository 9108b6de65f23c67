"""The namespace registry and the table, as far as opening a repository needs them.

Lives here: what is asked before there is a scope. Never: anything inside a namespace.
"""

from contextlib import suppress

from ..exceptions import InfrastructureNotFoundError, NamespaceNotFoundError, RateLimiterUnavailable
from ..operations.errors import StoreError, TableExists, TableMissing, TransactionCancelled
from ..operations.values import Conditions, CreateTable, DescribeTable, EnableTtl, Get, Item, Key, Put, Transact
from ..schema import keys
from ..schema.items import namespace_items
from ..schema.keys import REGISTRY
from .load import patiently, read
from .steps import Flow, Sleep

POLL_SECONDS = 0.5
POLLS = 240


def open_namespace(name: str, *, stack: str, new_id: str, created_at: str, register: bool) -> Flow[str]:
    """The id of the namespace, which is registered under ``new_id`` where it is missing and ``register`` says so.

    Raises ``NamespaceNotFoundError``, ``InfrastructureNotFoundError``, ``RateLimiterUnavailable``.
    """
    try:
        return (yield from _open(name, new_id=new_id, created_at=created_at, register=register))
    except TableMissing as error:
        raise InfrastructureNotFoundError(stack) from error
    except StoreError as error:
        raise RateLimiterUnavailable(str(error)) from error


def _open(name: str, *, new_id: str, created_at: str, register: bool) -> Flow[str]:
    key = Key(keys.pk_system(REGISTRY), keys.sk_namespace(name))
    item: Item | None = yield from read(key)
    if item is None and not register:
        raise NamespaceNotFoundError(name)
    if item is None:
        by_name, by_id = namespace_items(name, new_id, created_at)
        absent = Conditions(absent=("PK",))
        try:
            yield from patiently(Transact((Put(by_name, absent), Put(by_id, absent))))
        except TransactionCancelled:  # another process was faster, or our own first answer was lost
            item = yield from read(key)
        else:
            item = by_name
    if item is None:
        raise NamespaceNotFoundError(name)
    return str(item["namespace_id"])


def create_table(stack: str) -> Flow[None]:
    """Create the table of the schema and wait until it is there; one that exists is left as it is."""
    try:
        yield from _create(stack)
    except StoreError as error:
        raise RateLimiterUnavailable(f"table {stack!r} could not be created: {error}") from error


def _create(stack: str) -> Flow[None]:
    with suppress(TableExists):
        yield from patiently(CreateTable())
    for _ in range(POLLS):
        if (yield from _is_active()):
            yield from patiently(EnableTtl())
            return
        yield Sleep(POLL_SECONDS)
    raise RateLimiterUnavailable(f"table {stack!r} did not become active within {POLLS * POLL_SECONDS:.0f} s")


def _is_active() -> Flow[bool]:
    try:
        return bool((yield from patiently(DescribeTable())) == "ACTIVE")
    except TableMissing:  # created, but not everybody knows it yet
        return False


def ping() -> Flow[bool]:
    """Whether the store answers a read."""
    try:
        yield Get(Key(keys.pk_system(REGISTRY), keys.sk_version()))
    except StoreError:
        return False
    return True
