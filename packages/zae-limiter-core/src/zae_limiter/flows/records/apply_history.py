"""The history of applies: who applied which manifest, when, and what came of it.

An apply writes its record under the lock, before its first change, and again with the outcome. So no change is without
a record, and the record of an apply that was killed says that it has not ended. Its serial is that of the lock's write
and one more, so no other apply writes under it. The manifest is written before the record that counts its parts.
"""

from contextlib import suppress
from typing import Final

from ...exceptions import RateLimiterUnavailable, ValidationError
from ...operations.errors import ConditionFailed
from ...operations.values import Conditions, Key, Put, Query
from ...schema import keys
from ...schema.applies import (
    MAX_PARTS,
    ApplyPart,
    outdated,
    parse_sk,
    part_items,
    read_content,
    read_part_count,
    read_record,
    record_item,
)
from ...schema.attributes import PK
from ...values.applies import ApplyRecord
from ...values.whole import check_whole
from ..index_rows import IndexRows, query_rows, report
from ..pages import delete_all
from ..process.namespace_state import NamespaceState
from ..retry import key_of, read, read_all, with_retries
from ..steps import Flow

APPLIES_KEPT: Final = 50


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
    yield from _remove_outdated(namespace_state, record.serial)
    return len(parts)


def end_apply(namespace_state: NamespaceState, record: ApplyRecord, parts: int) -> Flow[None]:
    """Store the outcome of an apply that ``begin_apply`` has kept with so many parts."""
    yield from with_retries(Put(record_item(namespace_state.namespace_id, record, parts)))


def list_applies(namespace_state: NamespaceState) -> Flow[list[ApplyRecord]]:
    """Return the applies that are kept, the last one first. A very recent one may be missing.

    The index has their keys, because the Lambdas may query indexes alone.
    """
    found = yield from _parts(namespace_state)
    records = sorted((part for part in found if not part.place), reverse=True)
    wanted = [_key(namespace_state, part) for part in records]
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
    record = yield from read(_key(namespace_state, ApplyPart(serial, 0)))
    if record is None:
        return None
    wanted = [_key(namespace_state, ApplyPart(serial, place)) for place in range(1, read_part_count(record) + 1)]
    found = yield from read_all(wanted)
    if len(found) < len(wanted):
        problem = f"{len(wanted) - len(found)} of {len(wanted)} parts of its manifest are missing"
        raise RateLimiterUnavailable(f"the apply {serial} cannot be read: {problem}")
    return read_record(record), "".join(read_content(found[key]) for key in wanted)


def _remove_outdated(namespace_state: NamespaceState, newest: int) -> Flow[None]:
    gone = outdated((yield from _parts(namespace_state)), most=APPLIES_KEPT, newest=newest)
    yield from delete_all(_key(namespace_state, part) for part in gone)


def _parts(namespace_state: NamespaceState) -> Flow[list[ApplyPart]]:
    """Return what the index shows of the history."""
    rows = IndexRows(namespace_state.namespace_id)
    query = Query(keys.gsi4_pk(namespace_state.namespace_id), "GSI4", begins_with=_pk(namespace_state))
    found = yield from query_rows(query, rows, lambda item: parse_sk(key_of(item).sk))
    yield from report(rows)
    return found


def _pk(namespace_state: NamespaceState) -> str:
    return keys.pk_applies(namespace_state.namespace_id)


def _key(namespace_state: NamespaceState, part: ApplyPart) -> Key:
    return Key(_pk(namespace_state), keys.sk_apply(part.serial, part.place))
