"""The provisioner's state of a namespace, in a head and as many parts as it takes.

This module orders the writes so that a state stays whole; ``schema`` has the content of the items.
"""

from collections.abc import Sequence
from dataclasses import replace

from ...exceptions import RateLimiterUnavailable, StaleStateError, ValidationError
from ...operations.errors import ConditionFailed, StoreError
from ...operations.values import Conditions, Item, Key, Put, Query, Update
from ...schema import keys
from ...schema.attributes import LAST_APPLIED, PK, SERIAL, STOP
from ...schema.provisioner import (
    MAX_PARTS,
    parse_part_sk,
    progress_attributes,
    read_parts,
    read_state,
    read_stop,
    read_write_mark,
    serial_of,
    state_items,
    torn,
)
from ...values.applies import ApplyProgress
from ...values.provisioner import ProvisionerState
from ...values.whole import check_whole
from ..index_rows import IndexRows, query_rows, report
from ..pages import delete_all
from ..process.namespace_state import NamespaceState
from ..retry import key_of, read, read_all, with_retries
from ..steps import Flow

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
    yield from _put_head(head, expected_serial)
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
    """Store how far the apply under way is, and return who has asked it to stop, ``None`` if nobody has.

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


def _put_head(head: Item, expected_serial: int) -> Flow[None]:
    unchanged = Conditions(equals={SERIAL: expected_serial}) if expected_serial else Conditions(absent=(PK,))
    try:
        yield from with_retries(Put(head, unchanged))
    except ConditionFailed as failure:
        if failure.item is not None and read_write_mark(failure.item).tag == read_write_mark(head).tag:
            return  # our own write, whose answer was lost
        _refuse_stale(failure.item, expected_serial)
        raise


def _refuse_stale(head: Item | None, expected_serial: int) -> None:
    serial = 0 if head is None else read_write_mark(head).serial
    if serial != expected_serial:
        raise StaleStateError(expected_serial, serial)


def _sweep(namespace_state: NamespaceState, serial: int, numbers: Sequence[int]) -> Flow[None]:
    """Remove the parts that no head can name any more: those of former states, and of writes that failed."""
    ns = namespace_state.namespace_id
    rows = IndexRows(ns)
    query = Query(keys.gsi4_pk(ns), "GSI4", begins_with=keys.pk_system(ns))
    found = yield from query_rows(query, rows, lambda item: _number(namespace_state, item))
    yield from report(rows)
    stale = [number for number in found if number and serial_of(number) <= serial and number not in numbers]
    yield from delete_all(_key(namespace_state, number) for number in stale)


def _number(namespace_state: NamespaceState, item: Item) -> int:
    """Return the number of a part, 0 for another record of the system. Raises ``ValueError`` for a row of another
    kind.
    """
    key = key_of(item)
    if key == Key(keys.pk_system(namespace_state.namespace_id), keys.sk_config()):
        return 0
    number = parse_part_sk(key.sk)
    if key != _key(namespace_state, number):
        raise ValueError("not as a record of the system")
    return number


def _key(namespace_state: NamespaceState, number: int = 0) -> Key:
    return Key(keys.pk_system(namespace_state.namespace_id), keys.sk_provisioner(number))
