"""Open a repository: find the table, check versions, correct the clock, find the namespace."""

import logging
from collections.abc import Callable
from contextlib import suppress

from ...exceptions import NamespaceNotFoundError, RateLimiterUnavailable, ZAELimiterError
from ...operations.errors import ConditionFailed, StoreError, TableExists, TableMissing
from ...operations.values import NEVER, Conditions, CreateTable, DescribeTable, EnableTtl, Get, Key, Put, Update
from ...schema.attributes import COPYING, DELETED, PK
from ...schema.items import ONE_WRITE, WRITES
from ...schema.keys import pk_bucket, sk_state
from ...schema.partitions import SPREAD_SCHEMA
from ...schema.registry import RegistryRecord, read_record, version_item
from ...values.namespaces import Namespace
from ...values.versions import check_compatible, record_of_this_release
from ..process.late_opening import OpenedNamespace, opened
from ..process.namespace_state import NamespaceState
from ..public_errors import with_public_errors
from ..retry import read_all, with_retries
from ..steps import Flow, Log, Sleep, call
from . import registry

POLL_SECONDS = 0.5
POLLS = 240
PROBE = Get(registry.VERSION_KEY)  # the read that only asks whether the store answers
DOUBT_SECONDS = 0.25  # dates have whole seconds: another one comes within four of these
DOUBTS = 10
FIRST_NAMESPACE = "default"
REFUSE = "if this is a typo, delete it, and open with register=False to fail on unknown namespaces"


def open_namespace(
    name: str,
    make: Callable[[], Namespace],
    *,
    stack: str,
    register: bool,
    client_version: Callable[[], str] | None,
    doubted: Callable[[], bool],
) -> Flow[OpenedNamespace]:
    """Return the namespace; with ``register``, register a missing namespace, with a warning.

    Before it is registered, the first answer corrects the clock, and further ones if the clock is still in doubt.

    A deleted namespace is not found, whatever ``register`` says: the next process that opens it would undo the
    deletion. Without ``client_version`` the stack's versions are not checked; it is asked if there are some. Raises
    ``NamespaceNotFoundError``, ``VersionError``, ``StoreError``.
    """
    found, spread = yield from _find(name, stack=stack, client_version=client_version)
    yield from _agree_on_the_time(doubted)
    if found is None and register:
        registered = yield from registry.register(new := make())
        if registered is new and name != FIRST_NAMESPACE:
            yield Log(__name__, logging.WARNING, "registered the new namespace %r: %s", values=(name, REFUSE))
        return OpenedNamespace(registered.namespace_id, spread)
    if found is None:
        raise NamespaceNotFoundError(name)
    if found.has(DELETED):
        raise NamespaceNotFoundError(name, found.id, found.item.get(COPYING))
    return OpenedNamespace(found.id, spread)


def _find(
    name: str, *, stack: str, client_version: Callable[[], str] | None
) -> Flow[tuple[RegistryRecord | None, bool]]:
    """Return the record of the name, and whether the table's schema has suffixes in the indexes: unless a record says
    so, older clients may use the table, which would not find such rows.
    """
    key = registry.name_key(name)
    found = yield from read_all([key] if client_version is None else [key, registry.VERSION_KEY])
    spread = False
    if client_version is not None and registry.VERSION_KEY in found:
        record = registry.recorded(found[registry.VERSION_KEY], stack)
        check_compatible(record, stack=stack, client_version=client_version())
        spread = record.schema_version >= SPREAD_SCHEMA
    return read_record(found[key]) if key in found else None, spread


def _agree_on_the_time(doubted: Callable[[], bool]) -> Flow[None]:
    """Read until the clock is no longer in doubt; after several reads continue with a warning."""
    for _ in range(DOUBTS):
        if not doubted():
            return
        yield Sleep(DOUBT_SECONDS)
        yield from with_retries(PROBE)
    if doubted():
        problem = "the dates of the store's answers agree neither with this machine's clock nor with each other"
        advice = "the clock is used until they agree: check its time, and any proxy before the store"
        yield Log(__name__, logging.WARNING, "%s; %s", values=(problem, advice))


def create_table(stack: str) -> Flow[None]:
    """Create the table of the schema, and wait until it is active; an existing table stays as it is."""
    yield from with_public_errors(stack, _create(stack), failed=f"table {stack!r} could not be created")


def _create(stack: str) -> Flow[None]:
    known = False
    try:
        yield from with_retries(CreateTable())
    except TableExists:
        known = True
    for _ in range(POLLS):
        try:
            is_active = (yield from with_retries(DescribeTable())) == "ACTIVE"
        except TableMissing:  # created, but not known to each host yet
            is_active = False
        if is_active:
            if known:  # it may be another product's: set nothing
                yield from registry.check_ours()
            else:
                with suppress(ConditionFailed):  # our own write, whose answer was lost
                    first = Put(version_item(record_of_this_release()), Conditions(absent=(PK,)))
                    yield from with_retries(first)  # so its items have this release's schema from the first on
            yield from with_retries(EnableTtl())
            return
        yield Sleep(POLL_SECONDS)
    raise RateLimiterUnavailable(f"table {stack!r} did not become active within {POLLS * POLL_SECONDS:.0f} s")


def ping(namespace_state: NamespaceState) -> Flow[bool]:
    """Return whether the namespace is open, and the store answers a read and a write of a bucket, which changes
    nothing; ``False`` at once in an outage.
    """
    try:
        yield from opened(namespace_state)
        yield from call(PROBE)
        # a write as an acquire sends it, that changes nothing, on the key of a bucket that cannot exist
        nobody = Key(pk_bucket(namespace_state.namespace_id, "", "", 0), sk_state())
        yield from call(Update(nobody, add={WRITES: ONE_WRITE}, when=NEVER))
    except ConditionFailed:  # an answer: no item fulfils the condition
        return True
    except (StoreError, ZAELimiterError):
        return False
    return True
