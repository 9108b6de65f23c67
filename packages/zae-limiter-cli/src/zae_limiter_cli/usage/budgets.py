"""Read budgets with the use of their day: every bucket once, and daily windows of those that have a budget."""

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from heapq import nsmallest
from itertools import chain
from typing import TYPE_CHECKING, Final

from ..paging import every_row
from .forecast import BUDGETS, DAY, Budget, budgets_of, day_of, soonest, spent_by_place

if TYPE_CHECKING:
    from collections.abc import Sequence

    from zae_limiter import SyncRepository, UsageSnapshot
    from zae_limiter.values import Bucket

ASKED_ONE_BY_ONE: Final = 50  # buckets with a budget, a query for each; of more, all windows of two days are read


def read_budgets(
    repository: "SyncRepository", buckets: "Iterable[Bucket]", percent: float, most: int
) -> tuple[list[Budget], bool]:
    """Return the budgets of buckets of which at least this part is gone, at most so many, the one first that is gone
    first; and whether there are more.
    """
    now = datetime.fromtimestamp(repository.namespace_state.now() / 1000, UTC)  # the store's time
    found = [each for each in buckets if any(limit.limit.kind in BUDGETS for limit in each.limits)]
    spent = spent_by_place(_windows(repository, found, now), now)
    budgets = [each for each in budgets_of(found, spent, now) if each.percent >= percent]
    return nsmallest(most, budgets, key=soonest), len(budgets) > most


def _windows(repository: "SyncRepository", buckets: "Sequence[Bucket]", now: datetime) -> "Iterator[UsageSnapshot]":
    """Yield the daily windows of today and yesterday, of these buckets at least."""
    if len(buckets) > ASKED_ONE_BY_ONE:
        return _all(repository, None, None, now)
    return chain.from_iterable(_all(repository, each.entity_id, each.resource, now) for each in buckets)


def _all(
    repository: "SyncRepository", entity: str | None, resource: str | None, now: datetime
) -> "Iterator[UsageSnapshot]":
    start = day_of(now) - DAY

    def fetch(size: int, following: str | None) -> "tuple[Sequence[UsageSnapshot], str | None]":
        page = repository.get_usage_snapshots(
            entity_id=entity, resource=resource, window="daily", start=start, limit=size, next=following
        )
        return page.snapshots, page.next

    return every_row(fetch)
