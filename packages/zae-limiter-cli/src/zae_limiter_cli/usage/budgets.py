"""Read budgets with the use of their day and hour.

Every bucket is read once, with the daily windows of those that have a budget, and the hourly ones of those used today.
"""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from heapq import nsmallest
from itertools import chain
from typing import TYPE_CHECKING, Final

from ..paging import every_row
from .forecast import (
    BUDGETS,
    DAY,
    HOUR,
    NOTHING,
    Budget,
    Spent,
    budgets_of,
    day_of,
    hour_of,
    soonest,
    spent_by_place,
    with_hours,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from zae_limiter import SyncRepository, UsageSnapshot
    from zae_limiter.values import Bucket
    from zae_limiter.values.usage import Window

ASKED_ONE_BY_ONE: Final = 50  # buckets with a budget, a query for each; of more, all windows of two days are read


def read_budgets(
    repository: "SyncRepository", buckets: "Iterable[Bucket]", percent: float, most: int, *, by_hour: bool = True
) -> tuple[list[Budget], bool]:
    """Return the budgets of buckets of which at least this part is gone, at most so many, the one first that is gone
    first; and whether there are more. ``by_hour``: also by the rate of the last hour.
    """
    now = datetime.fromtimestamp(repository.namespace_state.now() / 1000, UTC)  # the store's time
    found = [each for each in buckets if any(limit.limit.kind in BUDGETS for limit in each.limits)]
    spent = spent_by_place(_windows(repository, found, now), now)
    lately = [each for each in found if by_hour and _used_lately(each, spent, now)]
    spent = with_hours(spent, _windows(repository, lately, now, "hourly"), now)
    budgets = [each for each in budgets_of(found, spent, now) if each.percent >= percent]
    return nsmallest(most, budgets, key=soonest), len(budgets) > most


def _used_lately(bucket: "Bucket", spent: "Mapping[tuple[str, str, str], Spent]", now: datetime) -> bool:
    """Return whether a budget was used on the day, or the days, that the last hour is of."""
    of = (spent.get((bucket.entity_id, bucket.resource, each.limit.name), NOTHING) for each in bucket.limits)
    is_first = hour_of(now) == day_of(now)
    return any(each.today or (is_first and each.yesterday) for each in of)


def _windows(
    repository: "SyncRepository", buckets: "Sequence[Bucket]", now: datetime, window: "Window" = "daily"
) -> "Iterator[UsageSnapshot]":
    """Yield the windows of now and of the day, or the hour, before, of these buckets at least."""
    start = day_of(now) - DAY if window == "daily" else hour_of(now) - HOUR
    if len(buckets) > ASKED_ONE_BY_ONE:
        return _all(repository, None, None, window, start)
    of = (_all(repository, each.entity_id, each.resource, window, start) for each in buckets)
    return chain.from_iterable(of)


def _all(
    repository: "SyncRepository", entity: str | None, resource: str | None, window: "Window", start: datetime
) -> "Iterator[UsageSnapshot]":
    def fetch(size: int, following: str | None) -> "tuple[Sequence[UsageSnapshot], str | None]":
        page = repository.get_usage_snapshots(
            entity_id=entity, resource=resource, window=window, start=start, limit=size, next=following
        )
        return page.snapshots, page.next

    return every_row(fetch)
