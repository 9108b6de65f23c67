"""Read and write the records of many entities, for the provisioner.

The tree is in the records alone: each names its parents, and counts its children. A write of a child therefore also
writes its parents, and no transaction may write one item twice: the counts of a parent are summed up, and an entity
that is above another one of the same transaction, or below, waits for the next one. So the order of the changes is
kept, and the caller gives it: parents before children, children away before their parent goes.

No write puts an entity above itself, or too many above it: all above are read, and the transaction asks that they are
as they were read. Who is below is not counted: the caller knows the whole tree.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from ...exceptions import (
    EntityHasChildrenError,
    ValidationError,
    ZAELimiterError,
)
from ...operations.errors import StoreError, TransactionCancelled
from ...operations.values import Item, Query, Transact
from ...runtime.named_tuple import NamedTuple
from ...schema import keys
from ...schema.attributes import FINGERPRINT
from ...schema.entities import read_child_count, read_entity, read_tier
from ...schema.record import optional, text
from ...values.audit import Cause
from ...values.entities import Entity
from ...values.naming import DEFAULT_RESOURCE, check_identifier
from ...values.provisioner import StoredEntity
from ..bucket.telling import tell_many
from ..index_rows import IndexRows, query_rows, report
from ..optimistic import Write, lost_race
from ..process.namespace_state import NamespaceState
from ..public_errors import public_error
from ..retry import ATTEMPTS, RACE_PAUSES, RaceLost, with_retries
from ..steps import Flow, Sleep
from ..validation import Parents, validate_keys, validate_metadata, validate_name
from .entities import RecordWrites, check_not_itself, is_same, writes_of
from .lineage import Records, check_above, count_children, meta_key
from .listing import entity_of_row
from .many_levels import read_each, read_many

CHANGES_PER_TRANSACTION = 25
WRITES_PER_TRANSACTION: Final = 100  # DynamoDB takes no more

Failures = dict[str, ZAELimiterError]


def get_records(
    namespace_state: NamespaceState, entity_ids: Sequence[str], *, skip_unreadable: bool
) -> Flow[dict[str, StoredEntity]]:
    """Return what is stored of these entities, by id, without those that have no record."""
    if isinstance(entity_ids, str) or not isinstance(entity_ids, Sequence):
        raise ValidationError("entity_ids", entity_ids, "must be a list of entities")
    ids = dict.fromkeys(check_identifier("entity_id", each) for each in entity_ids)
    wanted = {meta_key(namespace_state, each): each for each in ids}
    found = yield from read_many(list(wanted))
    return (yield from read_each(namespace_state, wanted, found, _stored, skip_unreadable=skip_unreadable))


def list_ids(namespace_state: NamespaceState) -> Flow[list[str]]:
    """Return the ids of all entities that the index shows, sorted."""
    ns = namespace_state.namespace_id
    rows = IndexRows(ns)
    query = Query(keys.gsi4_pk(ns), "GSI4", begins_with=keys.pk_entity(ns, ""))
    found = yield from query_rows(query, rows, lambda item: entity_of_row(rows, item))
    yield from report(rows)
    return sorted(each for each in found if each is not None)


def put_records(
    namespace_state: NamespaceState, records: Mapping[str, StoredEntity | None], cause: Cause
) -> Flow[Failures]:
    """Create, change or remove (``None``) these records in this order, each with its audit event; return the errors.

    A record that is as wanted is left alone. A removal leaves limits and buckets. Raises ``ValidationError`` before any
    request, and ``InfrastructureError`` if nothing was written.
    """
    if not isinstance(records, Mapping):
        raise ValidationError("records", records, "must map entities to StoredEntity, or to None to remove them")
    checked = validate_keys("records", records, lambda each: check_identifier("entity_id", each))
    for entity_id, wanted in checked.items():
        if wanted is not None:
            if not isinstance(wanted, StoredEntity):
                raise ValidationError("records", wanted, "must be a StoredEntity, or None for nothing")
            check_not_itself(entity_id, _parents_of(wanted))
            validate_name(wanted.name)
            validate_metadata(wanted.metadata)
    waiting = [_Change(number, *each) for number, each in enumerate(checked.items())]
    failures: Failures = {}
    retiered: list[str] = []
    part = 0
    while waiting:
        try:
            done = yield from _write_some(namespace_state, waiting, cause, part, failures, retiered)
        except StoreError as error:
            problem = public_error(namespace_state.stack, error)
            if not part:
                raise problem from error
            failures |= {change.entity_id: problem for change in waiting}
            break
        waiting, part = waiting[done:], part + 1
    for entity_id in records:
        namespace_state.configs.mark_changed(meta_key(namespace_state, entity_id))
    try:
        told = yield from tell_many(namespace_state, [(each, DEFAULT_RESOURCE) for each in retiered])
        untold = {bucket.entity_id: why for bucket, why in told.failed.items()}
    except StoreError as error:
        untold = dict.fromkeys(retiered, error)
    return failures | {each: public_error(namespace_state.stack, why) for each, why in untold.items()}


class _Change(NamedTuple):
    """One record to write; ``number`` distinguishes its audit event."""

    number: int
    entity_id: str
    wanted: StoredEntity | None


def _write_some(
    namespace_state: NamespaceState,
    waiting: Sequence[_Change],
    cause: Cause,
    part: int,
    failures: Failures,
    retiered: list[str],
) -> Flow[int]:
    """Write the first changes, as many as one transaction takes, and return how many that were. Raises ``StoreError``.

    A change that cannot be made goes to ``failures``, an entity that got another tier to ``retiered``.
    """
    for attempt in range(ATTEMPTS):
        if attempt > 1:  # let others finish
            yield Sleep(RACE_PAUSES[attempt])
        first = waiting[:CHANGES_PER_TRANSACTION]
        records = Records(namespace_state)  # of the entities, of the parents that they are to get, and of all above
        parents = [each for change in first for each in _parents_of(change.wanted).ids]
        yield from records.read([*dict.fromkeys((*(change.entity_id for change in first), *parents))])
        yield from records.read_levels(parents)
        writes, done, failed = yield from _together(first, records, cause)
        if not writes:
            failures |= failed
            return done
        try:
            yield from with_retries(Transact(writes, cause.request_token(attempt, part)))
        except TransactionCancelled as cancelled:
            if not lost_race(cancelled):
                raise
        else:
            failures |= failed
            retiered += [
                each.entity_id
                for each in first[:done]
                if each.entity_id not in failed
                and read_tier(records.by_id[each.entity_id]) != (each.wanted and each.wanted.tier)
            ]
            return done
    raise RaceLost


def _parents_of(wanted: StoredEntity | None) -> Parents:
    """Return the parents that an entity is to have."""
    ids = () if wanted is None else tuple(wanted.parent_ids)
    return Parents(ids, "parent_id" if len(ids) < 2 else "parent_ids")


def _together(
    changes: Sequence[_Change], records: Records, cause: Cause
) -> Flow[tuple[tuple[Write, ...], int, Failures]]:
    """Return the writes of the first changes that may be in one transaction, with one for each parent that gets or
    loses children; how many changes these are, and their errors.
    """
    own, failures = list[Write](), Failures()
    written, reached = set[str](), set[str]()  # what the transaction writes, and all above that
    children, seen = Counter[str](), dict[str, None]()
    done = len(changes)
    for number, change in enumerate(changes):
        above = yield from records.read_above(_parents_of(change.wanted).ids)
        around = {*records.parents_of(change.entity_id), *above}  # who is above it before or after the change
        if change.entity_id in reached or not written.isdisjoint(around):
            done = number  # one of them is above another: the next transaction reads what this one writes
            break
        try:
            made = _writes(records, change, above, cause)
        except ZAELimiterError as error:
            failures[change.entity_id] = error
            continue
        if made is None:
            continue
        counted = {*children, *seen, *made.children, *made.seen}
        if len(own) + len(made.own) + len(counted) > WRITES_PER_TRANSACTION:
            done = number
            break
        own += made.own
        written.add(change.entity_id)
        reached |= around
        children.update(made.children)
        seen |= dict.fromkeys(made.seen)
    return (*own, *count_children(records, children, seen)), done, failures


def _writes(records: Records, change: _Change, above: Sequence[str], cause: Cause) -> RecordWrites | None:
    """Return the writes that make one record as it is wanted; ``None`` if it is. ``above``: who is above it then.

    Raises ``ZAELimiterError``.
    """
    entity_id, wanted, item = change.entity_id, change.wanted, records.by_id[change.entity_id]
    if wanted is None:
        if item is None:
            return None
        if children := read_child_count(item):
            raise EntityHasChildrenError(entity_id, children)
        return writes_of(records, entity_id, None, (), cause, number=change.number)
    before = None if item is None else read_entity(item)
    now = cause.again(records.namespace_state.now()).at
    created_at, version = (now, 1) if before is None else (before.created_at, before.version + 1)
    metadata = validate_metadata(wanted.metadata)
    after = Entity(entity_id, wanted.name, None, wanted.cascade, metadata, created_at, version, tier=wanted.tier)
    after = after.under(*wanted.parent_ids)
    is_written = item is not None and item.get(FINGERPRINT) == wanted.fingerprint
    if is_written and before is not None and is_same(before, after):
        return None
    parents = _parents_of(wanted)
    if before is None or before.parent_ids != parents.ids:
        check_above(entity_id, parents, above, records)
    fingerprint = wanted.fingerprint
    return writes_of(records, entity_id, after, above, cause, number=change.number, fingerprint=fingerprint)


def _stored(item: Item) -> StoredEntity:
    entity = read_entity(item)
    return StoredEntity(
        entity.parent_id,
        entity.cascade and entity.parent_id is not None,
        entity.name,
        entity.metadata,
        optional(text, item, FINGERPRINT),
        read_child_count(item),
        entity.tier,
        entity.parent_ids,
    )
