"""The registry of a table: its version record, and its namespaces: register, get, list, delete softly, recover, purge.

A purge removes all items of a namespace, then its name, and keeps its id for two days. The order of the steps lets an
interrupted purge continue.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress

from ... import flows
from ...exceptions import NamespaceNotFoundError, NamespaceStateError, NoUpgradePathError, ValidationError
from ...operations.errors import AccessLost, ConditionFailed, Denied, TransactionCancelled, Unreadable
from ...operations.values import Conditions, Delete, Item, Key, Put, Query, Transact, Update
from ...runtime.dataclass import replace
from ...runtime.named_tuple import NamedTuple
from ...schema import keys
from ...schema.attributes import COPYING, DELETED, NAMESPACE_ID, PK, PURGED, PURGING, TRACE
from ...schema.partitions import SPREAD_SCHEMA
from ...schema.registry import (
    MARKS,
    RegistryRecord,
    check_not_foreign,
    namespace_items,
    purged_item,
    read_record,
    read_version,
    version_item,
)
from ...values.namespaces import Namespace
from ...values.naming import check_namespace, check_namespace_id
from ...values.versions import VersionRecord
from ..pages import delete_all, query_all
from ..retry import ATTEMPTS, RaceLost, key_of, read, read_all, with_retries
from ..steps import Flow, Sleep

REGISTRY_PK = keys.pk_system(keys.REGISTRY)
PASSING = frozenset((None, "ConditionalCheckFailed", "TransactionConflict"))  # after these, read the records again
ROWS_PER_PAGE = 1000  # behind a row of another namespace, which should not be there
KEYS_PER_PAGE = 1000
SETTLE_SECONDS = 1.0  # the index is behind the table: look again until it shows nothing
MOST_LOOKS = 30  # an index is not behind for so long: what it still shows then was written since
Progress = Callable[[int], None]

VERSION_KEY = Key(keys.pk_system(keys.REGISTRY), keys.sk_version())


def get_version_record(stack: str) -> Flow[VersionRecord | None]:
    """Return the version record, ``None`` if there is none.

    Raises ``NoUpgradePathError``, and ``ForeignRecord`` for the table of another product.
    """
    item = yield from read(VERSION_KEY)
    if item is None:
        yield from check_registry()
        return None
    return recorded(item, stack)


def check_ours() -> Flow[None]:
    """Raise ``ForeignRecord`` for the table of another product, whose registry is read without a version record."""
    if VERSION_KEY not in (yield from read_all([VERSION_KEY])):
        yield from check_registry()


def check_registry() -> Flow[None]:
    """Raise ``ForeignRecord`` if another product registered a namespace in the table, which has no version record.

    A caller that may not query the registry finds out by the record of its own namespace alone.
    """
    with suppress(Denied, AccessLost):
        yield from _names()


def _names() -> Flow[list[Item]]:
    """Return the records of all namespaces by name. Raises ``ForeignRecord`` for the table of another product."""
    items = yield from query_all(Query(REGISTRY_PK, begins_with=keys.NAMESPACE_PREFIX))
    for item in items:
        check_not_foreign(item)
    return items


def recorded(item: Item, stack: str) -> VersionRecord:
    """Return the versions in the record. Raises ``NoUpgradePathError`` for a record that this project did not write."""
    try:
        return read_version(item)
    except Unreadable as error:
        raise NoUpgradePathError(stack, f"its version record cannot be read: {error.problem}") from error


def has_suffixes(item: Item | None) -> bool:
    """Return whether a table with this version record has suffixes in its indexes. Without a readable record it has
    none: older clients, which would not find such rows, may use it.
    """
    try:
        return item is not None and read_version(item).schema_version >= SPREAD_SCHEMA
    except Unreadable:
        return False


def set_version_record(record: VersionRecord) -> Flow[None]:
    """Replace the version record. Raises ``ValidationError``."""
    if not isinstance(record, VersionRecord):
        raise ValidationError("record", record, "must be a VersionRecord")
    yield from with_retries(Put(version_item(record)))


def change_version_record(stack: str, change: Callable[[VersionRecord | None], VersionRecord]) -> Flow[bool]:
    """Replace the record by what ``change`` makes of it, again after a lost race; return whether it differs."""
    for _ in range(ATTEMPTS):
        before = yield from get_version_record(stack)
        after = change(before)
        if after == before:
            return False
        seen = Conditions(absent=(PK,)) if before is None else Conditions(equals=version_item(before))
        try:
            yield from with_retries(Put(version_item(after), seen))
        except ConditionFailed as failure:
            if failure.item == version_item(after):
                return True  # our own write, whose answer was lost
            continue
        return True
    raise RaceLost


def name_key(name: str) -> Key:
    """Return the key of a namespace's record by name."""
    return Key(REGISTRY_PK, keys.sk_namespace(name))


def id_key(namespace_id: str) -> Key:
    """Return the key of a namespace's record by id."""
    return Key(REGISTRY_PK, keys.sk_nsid(namespace_id))


def register(new: Namespace) -> Flow[Namespace]:
    """Return the namespace of this name; ``new`` if there is none, or only a deleted one.

    Raises ``ForeignRecord`` for the table of another product, before anything is written to it.
    """
    key = name_key(new.name)
    for _ in range(ATTEMPTS):
        found = yield from read_all([key, VERSION_KEY])
        before = read_record(found[key]) if key in found else None
        if before is not None and not before.has(DELETED):
            return before.namespace
        if VERSION_KEY not in found:
            yield from check_registry()
        by_name, by_id = namespace_items(new.name, new.namespace_id, new.created_at)
        if (yield from applied(Put(by_name, as_seen(before)), Put(by_id, as_seen(None)))):
            return new
    raise RaceLost


def get(name: str) -> Flow[Namespace | None]:
    """Return the namespace in use under a name, ``None`` if there is none."""
    check_namespace("name", name)
    found = yield from record_at(name_key(name))
    return None if found is None or found.has(DELETED) else found.namespace


def in_use() -> Flow[list[Namespace]]:
    """Return the namespaces in use, sorted by name; drop a record that cannot be read, and log that.

    Raises ``ForeignRecord`` for the table of another product.
    """
    rows = flows.index_rows.IndexRows(keys.REGISTRY)
    records = rows.read((yield from _names()), read_record)
    yield from flows.index_rows.report(rows)
    return [record.namespace for record in records if not record.has(DELETED)]


def orphans() -> Flow[list[Namespace]]:
    """Return the namespaces that no name leads to, because they were deleted or their name has another id; the oldest
    first.

    A namespace that was purged is one of them only if something was written to it since.
    """
    names = yield from _records(keys.NAMESPACE_PREFIX)
    ids = yield from _records(keys.NSID_PREFIX)
    named = {record.name: record for record in names}
    looked_at, empty = [flows.index_rows.IndexRows(record.id) for record in ids if record.has(PURGED)], set[str]()
    for rows in looked_at:
        if (yield from is_empty(rows)):
            empty.add(rows.namespace_id)
    yield from flows.index_rows.report(*looked_at)
    lost = [
        record.namespace for record in ids if not is_live(record, named.get(record.name)) and record.id not in empty
    ]
    return sorted(lost, key=lambda each: (each.created_at, each.namespace_id))


def _records(prefix: str) -> Flow[list[RegistryRecord]]:
    """Return the records of all namespaces, by name or by id. Raises ``Unreadable`` for any other item among them."""
    items = yield from query_all(Query(REGISTRY_PK, begins_with=prefix))
    return [read_record(item) for item in items]


def record_at(key: Key) -> Flow[RegistryRecord | None]:
    """Return the record at ``name_key`` or ``id_key``, ``None`` if there is none."""
    item = yield from read(key)
    return None if item is None else read_record(item)


def is_empty(rows: "flows.index_rows.IndexRows") -> Flow[bool]:
    """Return whether the index shows no item of the namespace; skip rows of others."""
    queries = flows.partitions.everywhere(rows.namespace_id, Query("", "GSI4", limit=1))
    while queries:
        items, left = yield from flows.partitions.next_rows(queries)
        if rows.own(items):
            return False
        queries = [each if each.start is None else replace(each, limit=ROWS_PER_PAGE) for each in left]
    return True


class Known(NamedTuple):
    """What the registry knows of some namespaces, by their ids.

    Nothing may be written to those that are ``purged``: their purge has begun, or ended within the last two days.
    ``traced`` has of how many of a thousand entities each of the others keeps a trace, if it keeps one. ``spread``: the
    table's schema has suffixes in the indexes.
    """

    purged: set[str]
    traced: Mapping[str, int]
    spread: bool = False


def look_up(namespace_ids: Iterable[str]) -> Flow[Known]:
    """Return what is known of namespaces. The registry keeps their ids longer than the stream keeps its records.

    A record that cannot be read is logged, and its namespace is one of which nothing is known: one damaged record must
    not hold up what was counted for the others. Raises ``ForeignRecord`` for the table of another product: if one of
    the ids is not known, it looks for that.
    """
    wanted = [id_key(each) for each in sorted(set(namespace_ids))]
    if not wanted:
        return Known(set(), {})
    found = yield from read_all([*wanted, VERSION_KEY])
    version = found.pop(VERSION_KEY, None)
    rows = flows.index_rows.IndexRows(keys.REGISTRY)
    records = rows.read(found.values(), read_record)
    yield from flows.index_rows.report(rows)
    if len(found) < len(wanted) and version is None:
        yield from check_registry()
    purged = {record.id for record in records if record.has(PURGING)}
    traced = {record.id: record.trace for record in records if record.trace and record.id not in purged}
    return Known(purged, traced, has_suffixes(version))


def trace_of(name: str) -> Flow[int]:
    """Return of how many of a thousand entities a trace is kept. Raises ``NamespaceNotFoundError``."""
    _, by_id = yield from _in_use(name)
    return by_id.trace


def set_trace(name: str, permille: int) -> Flow[Namespace]:
    """Keep a trace of so many of a thousand entities from now on, none for 0. Raises ``NamespaceNotFoundError``,
    ``ValidationError``.
    """
    if not (type(permille) is int and 0 <= permille <= 1000):
        raise ValidationError("permille", permille, "must be a whole number from 0 to 1000")
    for _ in range(ATTEMPTS):
        by_name, by_id = yield from _in_use(name)
        rest = {attribute: value for attribute, value in by_id.item.items() if attribute != TRACE}
        written = Put(rest | ({TRACE: permille} if permille else {}), as_seen(by_id))
        if (yield from applied(written)):
            return by_name.namespace
    raise RaceLost


def _in_use(name: str) -> Flow[tuple[RegistryRecord, RegistryRecord]]:
    """Return both records of a namespace in use, by name and by id. Raises ``NamespaceNotFoundError``."""
    check_namespace("name", name)
    by_name = yield from record_at(name_key(name))
    if by_name is None or by_name.has(DELETED):
        raise NamespaceNotFoundError(name, None if by_name is None else by_name.id)
    by_id = yield from record_at(id_key(by_name.id))
    if by_id is None:
        raise NamespaceNotFoundError(name)
    return by_name, by_id


def delete(name: str, *, at: str) -> Flow[Namespace]:
    """Mark a namespace as deleted ``at`` an ISO time, and return it. Raises ``NamespaceNotFoundError``."""
    check_namespace("name", name)
    for attempt in range(ATTEMPTS):
        by_name = yield from record_at(name_key(name))
        if by_name is not None and attempt and by_name.namespace.deleted_at == at:
            return by_name.namespace  # our own write, whose answer was lost
        if by_name is None or by_name.has(DELETED):
            raise NamespaceNotFoundError(name, None if by_name is None else by_name.id)
        by_id = yield from record_at(id_key(by_name.id))
        if by_id is None:
            continue  # it was deleted and purged in between
        writes = [Put(record.item | {DELETED: at}, as_seen(record)) for record in (by_name, by_id)]
        if (yield from applied(*writes)):
            return replace(by_name.namespace, deleted_at=at)
    raise RaceLost


def recover(namespace_id: str) -> Flow[Namespace]:
    """Bring a deleted namespace back, and return it. Raises ``NamespaceNotFoundError``, ``NamespaceStateError``."""
    check_namespace_id("namespace_id", namespace_id)
    for attempt in range(ATTEMPTS):
        by_id, by_name = yield from both(namespace_id)
        if is_live(by_id, by_name) and attempt:
            return by_id.namespace  # our own write, whose answer was lost
        problem = None
        if is_live(by_id, by_name):
            problem = "it is not deleted"
        elif by_id.has(PURGING):
            problem = "its purge has begun, and only ends"
        elif by_id.has(COPYING):
            problem = "its copy is not complete: repeat `zae-limiter copy`, or purge it"
        elif by_name is not None and not by_name.has(DELETED) and by_name.id != namespace_id:
            problem = f"its name {by_id.name!r} is taken by {by_name.id!r}"
        if problem is not None:
            raise NamespaceStateError(namespace_id, problem)
        kept = {TRACE: by_id.trace} if by_id.trace else {}
        restored_name, restored_id = namespace_items(by_id.name, namespace_id, by_id.namespace.created_at)
        restored = (restored_name, restored_id | kept)
        if (yield from applied(*map(Put, restored, (as_seen(by_name), as_seen(by_id))))):
            return replace(by_id.namespace, deleted_at=None)
    raise RaceLost


def both(namespace_id: str) -> Flow[tuple[RegistryRecord, RegistryRecord | None]]:
    """Return the record of an id, and that of its name, which may be for another id. Raises
    ``NamespaceNotFoundError``.
    """
    by_id = yield from record_at(id_key(namespace_id))
    if by_id is None:
        raise NamespaceNotFoundError(namespace_id)
    by_name = yield from record_at(name_key(by_id.name))
    return by_id, by_name


def is_live(by_id: RegistryRecord, by_name: RegistryRecord | None) -> bool:
    """Return whether the name leads to the namespace of this id, and it is not deleted."""
    return by_name is not None and by_name.id == by_id.id and not (by_id.has(DELETED) or by_name.has(DELETED))


def as_seen(record: RegistryRecord | None) -> Conditions:
    """Return the conditions that a record still has the id and the marks that were read."""
    if record is None:
        return Conditions(absent=(PK,))
    marks: Mapping[str, str] = {mark: record.item[mark] for mark in MARKS if record.has(mark)}
    return Conditions(
        absent=tuple(mark for mark in MARKS if not record.has(mark)), equals={NAMESPACE_ID: record.id, **marks}
    )


def applied(*writes: Put | Update | Delete) -> Flow[bool]:
    """Return ``True`` if the transaction was applied; ``False`` after a lost race, even against a write of our own."""
    try:
        yield from with_retries(Transact(writes))
    except TransactionCancelled as cancelled:
        if {reason.code for reason in cancelled.reasons} - PASSING:
            raise
        return False
    return True


def purge(namespace_id: str, *, at: str, on_progress: Progress | None) -> Flow[int]:
    """Purge a namespace, and return the number of items removed.

    A purged namespace may be purged again while its record stays, because a process that had it open may have written
    since. Raises ``NamespaceNotFoundError``, and ``NamespaceStateError`` for a namespace in use.
    """
    check_namespace_id("namespace_id", namespace_id)
    yield from _mark(namespace_id, at)
    removed = 0

    def more(count: int) -> None:
        nonlocal removed
        removed += count
        if on_progress is not None:
            on_progress(removed)

    for _ in range(MOST_LOOKS):  # until the index shows no item; leave those of other namespaces alone
        rows, before = flows.index_rows.IndexRows(namespace_id), removed
        queries = flows.partitions.everywhere(namespace_id, Query("", "GSI4", limit=KEYS_PER_PAGE))
        while queries:
            items, queries = yield from flows.partitions.next_rows(queries)
            yield from delete_all(map(key_of, rows.own(items)), more)
        if removed == before:
            yield from flows.index_rows.report(rows)
            yield from _unregister(namespace_id, at)
            return removed
        yield Sleep(SETTLE_SECONDS)
    problem = f"something still writes to it, after {removed} items were removed"
    raise NamespaceStateError(namespace_id, f"{problem}: stop what has it open, then purge it again")


def _mark(namespace_id: str, at: str) -> Flow[None]:
    """Mark that the purge has begun. From now on the namespace cannot be recovered: half of it would come back."""
    for _ in range(ATTEMPTS):
        by_id, by_name = yield from both(namespace_id)
        if is_live(by_id, by_name):
            raise NamespaceStateError(namespace_id, "it is in use: delete it first")
        if by_id.has(PURGING):
            return
        try:
            yield from with_retries(Put(by_id.item | {PURGING: at}, as_seen(by_id)))
        except ConditionFailed:  # a lost race, or our own first answer was lost
            continue
        return
    raise RaceLost


def _unregister(namespace_id: str, at: str) -> Flow[None]:
    """Remove the record of the name, unless another namespace has it by now, and mark that of the id as purged."""
    for _ in range(ATTEMPTS):
        by_id, by_name = yield from both(namespace_id)
        writes: list[Put | Delete] = [Put(purged_item(by_id.item, at), as_seen(by_id))]
        if by_name is not None and by_name.id == namespace_id:
            writes.append(Delete(name_key(by_id.name), as_seen(by_name)))
        if (yield from applied(*writes)):
            return
    raise RaceLost
