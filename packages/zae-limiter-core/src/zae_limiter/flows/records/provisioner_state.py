"""The provisioner's records of a namespace: its state, in a head and as many parts as it takes, and the history of its
applies: who applied which manifest, when, and what came of it.

This module orders the writes so that a state stays whole; ``schema`` has the content of the items.

An apply writes its record under the lock, before its first change, and again with the outcome. So no change is without
a record, and the record of an apply that was killed says that it has not ended. Its serial is that of the lock's write
and one more, so no other apply writes under it. The manifest is written before the record that counts its parts.
"""

from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from ...exceptions import RateLimiterUnavailable, StaleStateError, ValidationError
from ...operations.errors import ConditionFailed, StoreError
from ...operations.values import Conditions, Item, Key, Put, Query, Update
from ...runtime.dataclass import replace
from ...schema import keys
from ...schema.attributes import LAST_APPLIED, PK, SERIAL, STOP
from ...schema.provisioner import (
    MAX_PARTS,
    ApplyPart,
    outdated,
    parse_part_sk,
    parse_sk,
    part_items,
    progress_attributes,
    read_content,
    read_part_count,
    read_parts,
    read_record,
    read_state,
    read_stop,
    read_write_mark,
    record_item,
    serial_of,
    state_items,
    torn,
)
from ...values.provisioner import ApplyProgress, ApplyRecord, ProvisionerState
from ...values.whole import check_whole
from ..index_rows import IndexRows, query_rows, report
from ..pages import delete_all
from ..process.namespace_state import NamespaceState
from ..retry import key_of, read, read_all, with_retries
from ..steps import Flow

APPLIES_KEPT: Final = 50
READS = 4  # a torn state is a write under way, which the next read finds done


def get_state(namespace_state: NamespaceState) -> Flow[ProvisionerState]:
    """Return the state, an empty one if there is none. Raises ``RateLimiterUnavailable`` if each read found it torn."""
    problem: str | None = None
    for _ in range(READS):
        head = yield from read(_key(namespace_state))
        if head is None:
            return ProvisionerState()
        wanted = [_key(namespace_state, number) for number in read_parts(head)]
        found = yield from read_all(wanted)
        parts = [found[key] for key in wanted if key in found]
        if (problem := torn(head, parts)) is None:
            return read_state(head, parts)
    raise RateLimiterUnavailable(f"the provisioner's state is damaged: {problem}")


def peek_state(namespace_state: NamespaceState) -> Flow[ProvisionerState]:
    """Return the state without its sets if these are in parts: one read, for the lock and the progress of an apply."""
    head = yield from read(_key(namespace_state))
    return ProvisionerState() if head is None else read_state(head, [])


def put_state(
    namespace_state: NamespaceState, state: ProvisionerState, *, expected_serial: int, tag: int
) -> Flow[ProvisionerState]:
    """Store the state, and return it with its new serial. Raises ``StaleStateError`` if the stored serial differs.

    The parts of each write have new numbers, and the head that names them is written last. Until then the former state
    holds, whole; if the write of the head fails, no head names the new parts.
    """
    if not isinstance(state, ProvisionerState):
        raise ValidationError("state", state, "must be a ProvisionerState")
    check_whole("expected_serial", expected_serial, at_least=0)
    stored = replace(state, serial=expected_serial + 1, progress=None, stop=None)
    head, parts = state_items(namespace_state.namespace_id, stored, tag=tag)
    if len(parts) > MAX_PARTS:
        raise ValidationError("state", f"{len(parts)} parts", f"must fit into {MAX_PARTS} parts")
    before = yield from read(_key(namespace_state))
    _refuse_stale(before, expected_serial)
    for part in parts:
        yield from with_retries(Put(part))
    unchanged = Conditions(equals={SERIAL: expected_serial}) if expected_serial else Conditions(absent=(PK,))
    try:
        yield from with_retries(Put(head, unchanged))
    except ConditionFailed as failure:
        if failure.item is None or read_write_mark(failure.item).tag != read_write_mark(head).tag:
            _refuse_stale(failure.item, expected_serial)
            raise  # else it is our own write, whose answer was lost
    if parts or (before is not None and read_parts(before)):
        try:
            yield from _sweep(namespace_state, stored.serial, read_parts(head))
        except StoreError:
            return stored  # the state is stored; the next sweep removes the rest
    return stored


def note_applied(namespace_state: NamespaceState, at: str, *, expected_serial: int) -> Flow[str]:
    """Store ``at`` as ``last_applied``, and return it; everything else stays. Raises ``StaleStateError``."""
    yield from _note(namespace_state, {LAST_APPLIED: at}, expected_serial)
    return at


def note_progress(
    namespace_state: NamespaceState, progress: ApplyProgress, *, expected_serial: int
) -> Flow[str | None]:
    """Store how far the apply under way is, and return who has asked it to stop, ``None`` for no one.

    ``expected_serial`` is that of the write with its lock. Raises ``StaleStateError`` if the lock is another's by now.
    """
    return read_stop((yield from _note(namespace_state, progress_attributes(progress), expected_serial)))


def request_stop(namespace_state: NamespaceState, by: str, *, expected_serial: int) -> Flow[None]:
    """Ask the apply under way, which holds the lock of the state with this serial, to stop at its next checkpoint.

    Raises ``StaleStateError`` if it has ended meanwhile.
    """
    yield from _note(namespace_state, {STOP: by}, expected_serial)


def _note(namespace_state: NamespaceState, attributes: Item, expected_serial: int) -> Flow[Item]:
    """Set attributes beside a state without a new serial; return the head."""
    check_whole("expected_serial", expected_serial, at_least=0)
    unchanged = Conditions(equals={SERIAL: expected_serial})
    try:
        head: Item = yield from with_retries(Update(_key(namespace_state), set=attributes, when=unchanged))
    except ConditionFailed as failure:
        _refuse_stale(failure.item, expected_serial)
        raise
    return head


def _refuse_stale(head: Item | None, expected_serial: int) -> None:
    serial = 0 if head is None else read_write_mark(head).serial
    if serial != expected_serial:
        raise StaleStateError(expected_serial, serial)


def _sweep(namespace_state: NamespaceState, serial: int, numbers: Sequence[int]) -> Flow[None]:
    """Remove the parts that no head can name any more: those of former states, and of writes that failed."""
    ns = namespace_state.namespace_id
    rows = IndexRows(ns)

    def number_of(item: Item) -> int:  # 0 for another record of the system
        key = key_of(item)
        if key == Key(keys.pk_system(ns), keys.sk_config()):
            return 0
        number = parse_part_sk(key.sk)
        if key != _key(namespace_state, number):
            raise ValueError("not as a record of the system")
        return number

    query = Query(keys.gsi4_pk(ns), "GSI4", begins_with=keys.pk_system(ns))
    found = yield from query_rows(query, rows, number_of)
    yield from report(rows)
    stale = [number for number in found if number and serial_of(number) <= serial and number not in numbers]
    yield from delete_all(_key(namespace_state, number) for number in stale)


def _key(namespace_state: NamespaceState, number: int = 0) -> Key:
    return Key(keys.pk_system(namespace_state.namespace_id), keys.sk_provisioner(number))


def begin_apply(namespace_state: NamespaceState, record: ApplyRecord, content: str) -> Flow[int]:
    """Keep an apply and its manifest, as ASCII text; remove what is older than the last ``APPLIES_KEPT``.

    Return the number of the manifest's parts. Raises ``ValidationError`` for a manifest that is too large.
    """
    parts = part_items(namespace_state.namespace_id, record.serial, content)
    if len(parts) > MAX_PARTS:
        raise ValidationError("content", f"{len(parts)} parts", f"must fit into {MAX_PARTS} parts")
    for part in parts:
        yield from with_retries(Put(part))
    with suppress(ConditionFailed):  # our own write, whose answer was lost: no other apply has this serial
        begun = record_item(namespace_state.namespace_id, record, len(parts))
        yield from with_retries(Put(begun, Conditions(absent=(PK,))))  # it may arrive after the end is recorded
    gone = outdated((yield from _shown(namespace_state)), most=APPLIES_KEPT, newest=record.serial)
    yield from delete_all(_part_key(namespace_state, part) for part in gone)
    return len(parts)


def end_apply(namespace_state: NamespaceState, record: ApplyRecord, parts: int) -> Flow[None]:
    """Store the outcome of an apply that ``begin_apply`` has kept with so many parts."""
    yield from with_retries(Put(record_item(namespace_state.namespace_id, record, parts)))


def list_applies(namespace_state: NamespaceState) -> Flow[list[ApplyRecord]]:
    """Return the applies that are kept, the last one first. A very recent one may be missing.

    The index has their keys, because the Lambdas may query indexes alone.
    """
    found = yield from _shown(namespace_state)
    records = sorted((part for part in found if not part.place), reverse=True)
    wanted = [_part_key(namespace_state, part) for part in records]
    items = yield from read_all(wanted)
    rows = IndexRows(namespace_state.namespace_id)
    applies = rows.read((items[key] for key in wanted if key in items), read_record)
    yield from report(rows)
    return applies


def read_apply(namespace_state: NamespaceState, serial: int) -> Flow[tuple[ApplyRecord, str] | None]:
    """Return an apply and its manifest as it was kept; ``None`` if there is no such apply, or no longer.

    Raises ``RateLimiterUnavailable`` if a part of the manifest is missing.
    """
    check_whole("serial", serial, at_least=0)
    record = yield from read(_part_key(namespace_state, ApplyPart(serial, 0)))
    if record is None:
        return None
    wanted = [_part_key(namespace_state, ApplyPart(serial, place)) for place in range(1, read_part_count(record) + 1)]
    found = yield from read_all(wanted)
    if len(found) < len(wanted):
        problem = f"{len(wanted) - len(found)} of {len(wanted)} parts of its manifest are missing"
        raise RateLimiterUnavailable(f"the apply {serial} cannot be read: {problem}")
    return read_record(record), "".join(read_content(found[key]) for key in wanted)


def _shown(namespace_state: NamespaceState) -> Flow[list[ApplyPart]]:
    """Return what the index shows of the history."""
    ns = namespace_state.namespace_id
    rows, query = IndexRows(ns), Query(keys.gsi4_pk(ns), "GSI4", begins_with=keys.pk_applies(ns))
    found = yield from query_rows(query, rows, lambda item: parse_sk(key_of(item).sk))
    yield from report(rows)
    return found


def _part_key(namespace_state: NamespaceState, part: ApplyPart) -> Key:
    return Key(keys.pk_applies(namespace_state.namespace_id), keys.sk_apply(part.serial, part.place))
