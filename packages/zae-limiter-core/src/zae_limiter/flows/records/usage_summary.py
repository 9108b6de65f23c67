"""Sums of usage. Of several entities each adds its own part alone, without what calls of entities below took.

The tree is read only for a window in which an entity was asked itself, and entities below it as well.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from datetime import datetime

from ...schema.attributes import TOTALS
from ...schema.entities import read_parent_link
from ...values.limits import MILLI
from ...values.own_usage import OwnParts, Part, has_any, own_tokens, own_usage
from ...values.usage import LimitUsage, Refuser, UsageSummary
from ..index_rows import IndexRows, report
from ..process.namespace_state import NamespaceState
from ..steps import Flow
from ..validation import LARGEST_PAGE
from .lineage import Records
from .usage import Asked, Snapshot, Sums, every_snapshot, read_page


def get_summary(namespace_state: NamespaceState, asked: Asked) -> Flow[UsageSummary]:
    """Return the sums of all requested snapshots; of several entities, a call that cascaded counts once."""
    windows: dict[datetime, Sums] = {}
    read = every_own_snapshot if asked.entity_id is None else every_snapshot
    yield from read(namespace_state, asked, lambda each: windows.setdefault(each.usage.window_start, Sums()).add(each))
    sums = windows.values()
    names = sorted({name for each in sums for name in each.milli})
    return UsageSummary(
        asked.window,
        len(windows),
        tuple(_limit_usage(name, [each.milli.get(name, 0) for each in sums]) for name in names),
        refused_by=dict(sorted(sum((Counter(each.refused_by) for each in sums), Counter[Refuser]()).items())),
        **{name: sum(each.totals[name] for each in sums) for name in TOTALS.values()},
    )


def _limit_usage(name: str, milli: Sequence[int]) -> LimitUsage:
    total, least, most = sum(milli), min(milli), max(milli)
    return LimitUsage(name, total // MILLI, least // MILLI, most // MILLI, total / (MILLI * len(milli)))


def every_own_snapshot(namespace_state: NamespaceState, asked: Asked, add: Callable[[Snapshot], None]) -> Flow[None]:
    """Call ``add`` with the own part of each requested snapshot; one window of them at a time is in memory."""
    rows, parts = IndexRows(namespace_state.namespace_id), OwnParts()
    records = Records(namespace_state, rows=rows)
    window: list[Snapshot] = []

    def end_window() -> Flow[None]:
        for each in (yield from _own(records, parts, window)):
            add(each)
        window.clear()

    behind, more = None, True
    while more:
        page = yield from read_page(namespace_state, rows, asked, LARGEST_PAGE, behind)
        for snapshot in page.snapshots:
            if window and window[0].usage.window_start != snapshot.usage.window_start:
                yield from end_window()
            window.append(snapshot)
        behind, more = page.next, page.next is not None
    yield from end_window()
    yield from report(rows)


def _own(records: Records, known: OwnParts, window: Sequence[Snapshot]) -> Flow[list[Snapshot]]:
    """Return the own parts of a window's snapshots; those that have none are left out."""
    parts = known.of([each.usage for each in window])
    by_resource: dict[str, list[tuple[Snapshot, Part]]] = {}
    for snapshot, part in zip(window, parts, strict=True):
        by_resource.setdefault(snapshot.usage.resource, []).append((snapshot, part))
    found: list[Snapshot] = []
    for each in by_resource.values():
        if any(part == "some" for _, part in each):
            yield from records.read_levels(snapshot.usage.entity_id for snapshot, _ in each)
        used = {snapshot.usage.entity_id: snapshot.milli for snapshot, _ in each}
        of_entity = {snapshot.usage.entity_id: part for snapshot, part in each}
        own = own_tokens(used, of_entity, lambda entity_id: _above(records, entity_id))
        for snapshot, part in each:
            milli = own[snapshot.usage.entity_id]
            whole = {name: amount // MILLI for name, amount in milli.items()}
            usage = own_usage(snapshot.usage, part, whole)
            if part == "all" or has_any(usage) or any(milli.values()):
                found.append(Snapshot(usage, milli))
    return found


def _above(records: Records, entity_id: str) -> set[str]:
    """Return the entities that calls of an entity cascade to, by the records that were read."""
    above, level = set[str](), [entity_id]
    while level:
        links = [read_parent_link(records.by_id.get(each)) for each in level]
        level = [each for link in links if link.cascade for each in link.parent_ids if each not in above]
        above.update(level)
    return above
