"""Copy namespaces from one table to another: the flows of either side. ``maintenance.copy`` runs them in turn.

A copy takes long, may be killed at any write, and half of it must not be used. So the target's namespace gets a new id
and is a deleted one to everybody until all is there; one transaction then opens it. A repeated copy purges what the
killed one left, and begins anew under another id: to continue, it would have to find what was deleted in the source
since. A late write of the killed one reaches the purged id alone.

So does a copy that lost the answer to a write: the request may arrive at any time, and put a bucket back that others
have taken from. No pause is long enough for that, and a batch of DynamoDB knows no conditions.

Buckets begin to count at 0, because the target's aggregator counts all that an inserted bucket has counted, and the
copied snapshots have that already (``schema.moving``).
"""

import logging
from collections.abc import Collection, Mapping, Sequence

from ...exceptions import ClientTooOldError, NamespaceNotFoundError, NamespaceStateError, StackTooOldError
from ...operations.errors import OutcomeUnknown
from ...operations.sizes import index_units, write_units
from ...operations.values import Item, Page, Put, Scan
from ...runtime.dataclass import dataclass, replace
from ...schema.attributes import COPIED, COPYING, DELETED, PURGING
from ...schema.moving import moved, namespace_in
from ...schema.record import check_item
from ...schema.registry import copied_items, copying_items, purged_item
from ...values.namespaces import Namespace
from ...values.versions import OLDEST_SCHEMA_VERSION, SCHEMA_VERSION, core_version
from ..index_rows import IndexRows
from ..pages import write_all
from ..retry import ATTEMPTS, RaceLost, read, with_retries
from ..steps import Flow, Log
from . import registry
from .registry import purge

ITEMS_PER_PAGE = 250
BEGINNINGS = 5  # of one call, after lost answers; then it fails

Ids = Mapping[str, str]  # of the source's namespaces, and of the target's for them


@dataclass(slots=True)
class CopyForecast:
    """What the copy of a namespace would write; ``is_copied`` if a former copy is in use in the target.

    ``items`` counts all; ``write_units`` are those of the target's table, ``index_units`` those of its indexes.
    """

    namespace: Namespace
    items: int = 0
    write_units: int = 0
    index_units: int = 0
    is_copied: bool = False


class InDoubt(OutcomeUnknown):
    """A write of the copy may still arrive."""


def check_schema(stack: str) -> Flow[None]:
    """Raise a ``VersionError`` unless this release reads the table's schema; items are written in the target's."""
    record = yield from registry.get_version_record(stack)
    if record is not None and record.schema_version < OLDEST_SCHEMA_VERSION:
        raise StackTooOldError(stack, record.schema_version, OLDEST_SCHEMA_VERSION)
    if record is not None and record.schema_version > SCHEMA_VERSION:
        raise ClientTooOldError(stack, core_version(), record.core_version)


def has_suffixes() -> Flow[bool]:
    """Return whether the schema of a table has suffixes in its indexes."""
    return registry.has_suffixes((yield from read(registry.VERSION_KEY)))


def survey(names: Collection[str]) -> Flow[list[CopyForecast]]:
    """Return what a copy of these namespaces of the source would write, or of all in use if there are no names.

    Read the whole table. Raises ``NamespaceNotFoundError``.
    """
    found = {each.name: each for each in (yield from registry.in_use())}
    for name in names:
        if name not in found:
            raise NamespaceNotFoundError(name)
    wanted = [found[name] for name in sorted(set(names) or found)]
    forecasts = {each.namespace_id: CopyForecast(each) for each in wanted}
    scan: Scan | None = Scan(ITEMS_PER_PAGE)
    while scan is not None:
        items, scan = yield from page(scan)
        for item in items:
            if (forecast := forecasts.get(namespace_in(item))) is not None:
                check_item(item)
                forecast.items += 1
                forecast.write_units += write_units(None, item)
                forecast.index_units += index_units(None, item)
    return list(forecasts.values())


def page(scan: Scan) -> Flow[tuple[list[Item], Scan | None]]:
    """Return the items of a page of the source, and the scan of the next one, ``None`` at the end."""
    found: Page = yield from with_retries(scan)
    return found.items, None if found.next is None else replace(scan, start=found.next)


def is_copied(source: Namespace) -> Flow[bool]:
    """Return whether the target has a complete copy of the namespace.

    Raises ``NamespaceStateError`` if it has another namespace of the name that is not empty.
    """
    by_name = yield from registry.record_at(registry.name_key(source.name))
    if by_name is None or by_name.has(DELETED):
        return False
    by_id = yield from registry.record_at(registry.id_key(by_name.id))
    if by_id is not None and by_id.item.get(COPIED) == source.namespace_id:
        return True
    if not (yield from registry.is_empty(IndexRows(by_name.id))):
        way_out = f"`zae-limiter namespace delete {source.name}` on the target frees the name, then copy again"
        raise NamespaceStateError(by_name.id, f"the target has {source.name!r}, and it is not empty: {way_out}")
    return False


def begin(source: Namespace, new: Namespace) -> Flow[None]:
    """Register ``new`` in the target as a namespace that cannot be opened yet, and purge what a killed copy left.

    It takes the place of an empty namespace, too. Raises ``NamespaceStateError``.
    """
    for _ in range(ATTEMPTS):
        before = yield from registry.record_at(registry.name_key(new.name))
        if before is not None and before.id == new.namespace_id:
            return  # our own write, whose answer was lost
        if before is not None and before.has(COPYING):
            yield from purge(before.id, at=new.created_at, on_progress=None)
            continue
        if before is not None and (yield from is_copied(source)):
            raise NamespaceStateError(before.id, f"another copy of {new.name!r} ended meanwhile")
        by_name, by_id = copying_items(new, source.namespace_id)
        writes = [Put(by_name, registry.as_seen(before)), Put(by_id, registry.as_seen(None))]
        in_use = before is not None and not before.has(DELETED)
        empty = (yield from registry.record_at(registry.id_key(before.id))) if before is not None and in_use else None
        if empty is not None:  # the empty namespace that was in use stays as one that was purged
            marked = empty.item | {DELETED: new.created_at, PURGING: new.created_at}
            writes.append(Put(purged_item(marked, new.created_at), registry.as_seen(empty)))
        if (yield from registry.applied(*writes)):
            return
    raise RaceLost


def write(items: Sequence[Item], ids: Ids, *, spread: bool) -> Flow[int]:
    """Write those of the source's items that are of the namespaces; return their number.

    ``spread``: the target's schema has suffixes in its indexes.

    Raises ``InDoubt`` if an answer was lost: the ids may not be opened.
    """
    puts = [
        Put(moved(check_item(item), of, ids[of], spread=spread)) for item in items if (of := namespace_in(item)) in ids
    ]
    try:
        yield from write_all(puts)
    except OutcomeUnknown as error:
        raise InDoubt(str(error)) from error
    return len(puts)


def log_beginning(number: int, error: InDoubt) -> Flow[None]:
    """Log that the copy begins anew."""
    yield Log(
        __name__,
        logging.WARNING,
        "%s: a write may arrive late, the copy begins anew (beginning %d of %d)",
        values=(error, number, BEGINNINGS),
    )


def finish(new: Namespace) -> Flow[None]:
    """Open the namespace to everybody. Raises ``NamespaceStateError`` if somebody else has its name by now."""
    for _ in range(ATTEMPTS):
        by_id, by_name = yield from registry.both(new.namespace_id)
        if registry.is_live(by_id, by_name):
            return  # our own write, whose answer was lost
        if by_name is None or by_name.id != by_id.id or by_id.has(PURGING) or not by_id.has(COPYING):
            problem = f"another namespace took the name {new.name!r}, or another copy, while it was copied"
            raise NamespaceStateError(new.namespace_id, f"{problem}: it cannot be opened, copy again")
        puts = map(Put, copied_items(by_id), map(registry.as_seen, (by_name, by_id)))
        if (yield from registry.applied(*puts)):
            return
    raise RaceLost
