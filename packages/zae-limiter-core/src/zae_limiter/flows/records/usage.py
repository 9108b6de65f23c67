"""Usage snapshots of an entity or of a resource, in pages and in sums.

Lives here: the keys to read, and the ends of pages. Never: how snapshots are made (aggregator).
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from ...exceptions import ValidationError
from ...limits import MILLI
from ...naming import check_identifier, check_resource
from ...operations.values import Item, Key, Page, Query
from ...schema import keys
from ...schema.attributes import GSI2SK, PK, SK, TOTAL_EVENTS, WINDOW_START
from ...schema.usage import read_milli, read_usage
from ...usage import (
    LimitUsage,
    UsagePage,
    UsageSummary,
    Window,
    check_instant,
    check_window,
    parse_window_key,
    window_key,
)
from ..process.namespace_state import NamespaceState
from ..retry import read_all, with_retries
from ..steps import Flow
from ..validation import LARGEST_PAGE, validate_page_size

KEYS_OF_A_DAY: Final = 25  # 24 hourly snapshots and the daily one have adjacent keys

_NEXT: Final = re.compile(r"[^#\s]{1,256}#[^#\s]{1,256}")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for usage: of an entity, of a resource, or of both; windows that begin in [start, end)."""

    entity_id: str | None
    resource: str | None
    window: Window
    start: datetime | None
    end: datetime | None

    @property
    def prefix(self) -> str:
        """The beginning of the snapshots' sort keys, up to the part that ``UsagePage.next`` has."""
        return keys.INDEX_USAGE_PREFIX if self.entity_id is None else keys.USAGE_PREFIX

    @property
    def in_order_of_time(self) -> bool:
        """Whether the keys are sorted by window; without a resource they are sorted by resource first."""
        return self.resource is not None

    def covers(self, window: Window, start: datetime) -> bool:
        """Whether the request includes a snapshot of this window."""
        after_start = self.start is None or start >= self.start
        return window == self.window and after_start and not self.is_past(start)

    def is_past(self, start: datetime) -> bool:
        """Whether the window begins at the end or later."""
        return self.end is not None and start >= self.end


def validate_usage(
    entity_id: str | None, resource: str | None, window: str, start: datetime | None, end: datetime | None
) -> Asked:
    """The checked request. Raises ``ValidationError``."""
    if entity_id is None and resource is None:
        raise ValidationError("entity_id", None, "give an entity_id, a resource, or both")
    asked = Asked(
        None if entity_id is None else check_identifier("entity_id", entity_id),
        None if resource is None else check_resource("resource", resource),
        check_window(window),
        check_instant("start", start),
        check_instant("end", end),
    )
    if asked.start is not None and asked.is_past(asked.start):
        raise ValidationError("end", end, f"must be after the start, {start}")
    return asked


def _validate_page(limit: int, behind: str | None) -> None:
    """Check the size of a page, and the ``next`` of the page before. Raises ``ValidationError``."""
    validate_page_size(limit)
    if behind is not None and not (isinstance(behind, str) and _NEXT.fullmatch(behind)):
        raise ValidationError("next", behind, "must be the next of a page before")


def get_snapshots(namespace_state: NamespaceState, asked: Asked, *, limit: int, behind: str | None) -> Flow[UsagePage]:
    """Up to ``limit`` snapshots after ``behind``, oldest first; of an entity on all resources by resource first."""
    _validate_page(limit, behind)
    page = yield from _page(namespace_state, asked, limit, behind)
    return UsagePage(tuple(map(read_usage, page.items)), page.next)


class _Page(NamedTuple):
    """The records of snapshots, and the start of the next page, ``None`` at the end."""

    items: Sequence[Item]
    next: str | None


def _page(namespace_state: NamespaceState, asked: Asked, limit: int, behind: str | None) -> Flow[_Page]:
    found: list[Item] = []
    query = _query(namespace_state, asked, limit, behind)
    while True:
        page: Page = yield from with_retries(query)
        wanted = [item for item in page.items if asked.covers(*_window(asked, item))]
        taken = wanted[: limit - len(found)]
        found += yield from _read(asked, taken)
        if len(taken) < len(wanted):
            return _Page(found, _place(asked, taken[-1]))
        if page.next is None or _is_past(asked, page):
            return _Page(found, None)
        if len(found) >= limit:
            return _Page(found, _place(asked, page.items[-1]))
        query = replace(query, start=page.next)


def get_summary(namespace_state: NamespaceState, asked: Asked) -> Flow[UsageSummary]:
    """The sums of all requested snapshots, added in millitokens: parts of tokens may add up to whole ones."""
    windows: dict[datetime, dict[str, int]] = {}
    events, behind, more = 0, None, True
    while more:
        page = yield from _page(namespace_state, asked, LARGEST_PAGE, behind)
        for item in page.items:
            _add(windows.setdefault(parse_window_key(item[WINDOW_START])[1], {}), read_milli(item))
            events += item.get(TOTAL_EVENTS, 0)
        behind, more = page.next, page.next is not None
    names = sorted({name for sums in windows.values() for name in sums})
    limits = tuple(_limit_usage(name, [sums.get(name, 0) for sums in windows.values()]) for name in names)
    return UsageSummary(asked.window, len(windows), limits, events)


def _add(sums: dict[str, int], consumed: Mapping[str, int]) -> None:
    for name, milli in consumed.items():
        sums[name] = sums.get(name, 0) + milli


def _limit_usage(name: str, milli: Sequence[int]) -> LimitUsage:
    total, least, most = sum(milli), min(milli), max(milli)
    return LimitUsage(name, total // MILLI, least // MILLI, most // MILLI, total / (MILLI * len(milli)))


def _query(namespace_state: NamespaceState, asked: Asked, limit: int, behind: str | None) -> Query:
    ns, size = namespace_state.namespace_id, limit * KEYS_OF_A_DAY if asked.window == "daily" else 2 * limit
    after = _before_start(asked) if behind is None else asked.prefix + behind
    if asked.entity_id is not None:
        prefix = asked.prefix if asked.resource is None else keys.sk_usage(asked.resource, "")
        return Query(keys.pk_entity(ns, asked.entity_id), begins_with=prefix, after=after, limit=size)
    pk = keys.gsi2_pk_resource(ns, asked.resource or "")
    return Query(pk, index="GSI2", begins_with=asked.prefix, after=after, limit=size)


def _before_start(asked: Asked) -> str | None:
    """A sort key behind all keys of the day before the start, and before all keys of its own day."""
    if asked.start is None or not asked.in_order_of_time:
        return None
    day_before = window_key("daily", asked.start - timedelta(days=1)) + "~"  # "~" sorts last in a key
    if asked.entity_id is None:
        return asked.prefix + day_before
    return keys.sk_usage(asked.resource or "", day_before)


def _read(asked: Asked, items: Sequence[Item]) -> Flow[list[Item]]:
    if asked.entity_id is not None:
        return list(items)
    places = [Key(item[PK], item[SK]) for item in items]
    found = yield from read_all(places)
    return [found[place] for place in places if place in found]


def _window(asked: Asked, item: Item) -> tuple[Window, datetime]:
    first, last = _place(asked, item).split("#")
    return parse_window_key(first if asked.entity_id is None else last)


def _place(asked: Asked, item: Item) -> str:
    sort_key: str = item[GSI2SK if asked.entity_id is None else SK]
    return sort_key.removeprefix(asked.prefix)


def _is_past(asked: Asked, page: Page) -> bool:
    """Whether no page behind this one can have a requested snapshot."""
    return asked.in_order_of_time and bool(page.items) and asked.is_past(_window(asked, page.items[-1])[1])
