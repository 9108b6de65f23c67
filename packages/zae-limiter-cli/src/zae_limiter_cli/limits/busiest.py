"""Find who used most of a limit: in the busiest hour of the last day, and of a limit by the minute in the busiest five
minutes.

The problem: a cut binds where calls come together, and the mean of an hour hides that. The choice: two hours are read
first, the one that runs included, then those before as far as a plan may read. Of five minutes only calls are counted,
so their tokens are those of the hour's mean call. The price: a busier minute within them is not seen.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from zae_limiter.values import Refuser

if TYPE_CHECKING:
    from zae_limiter import SyncRepository, UsageSnapshot

SNAPSHOTS: Final = 1000
"""The most windows of usage, of a resource or of all, that are compared."""

HOUR: Final = timedelta(hours=1)
DAY: Final = timedelta(days=1)

Caller = tuple[str, str]  # an entity, and a resource


@dataclass(slots=True)
class Use:
    """What callers used at most, who was ``refused`` by the limit of their own, ``per`` what time the amounts are, and
    ``by`` what they are known; ``is_whole``: of all callers.
    """

    by: str
    per: str
    used: dict[Caller, float] = field(default_factory=dict)
    refused: set[Caller] = field(default_factory=set)
    is_whole: bool = True

    def add(self, snapshots: "Iterable[UsageSnapshot]", name: str, *, as_sum: bool = False) -> None:
        """Take in what hours have used, as the most of one or as the sum."""
        for each in snapshots:
            caller = each.entity_id, each.resource
            amount, before = each.consumed.get(name, 0), self.used.get(caller, 0)
            self.used[caller] = before + amount if as_sum else max(before, amount)
            if each.refused_by.get(Refuser(each.entity_id, name)):
                self.refused.add(caller)


def of_day(repository: "SyncRepository", resource: str | None, name: str, now: datetime) -> Use:
    """Return the use of the last 24 whole hours."""
    found, hour = Use("the use of the last whole 24 hours", "in 24 h"), _hour_of(now)
    page = repository.get_usage_snapshots(resource=resource, start=hour - DAY, end=hour, limit=SNAPSHOTS)
    found.add(page.snapshots, name, as_sum=True)
    found.is_whole = page.next is None
    return found


def of_hour(
    repository: "SyncRepository", resource: str | None, name: str, now: datetime, *, by_minutes: bool = False
) -> Use:
    """Return the use of the busiest hour; ``by_minutes``: or of the busiest five minutes, as that of an hour."""
    found, hour = Use("the busiest hour of the last day", "an hour"), _hour_of(now)
    page = repository.get_usage_snapshots(resource=resource, start=hour - HOUR, end=now, limit=SNAPSHOTS)
    found.add(page.snapshots, name)
    found.is_whole = page.next is None
    if not found.is_whole:
        return found
    if by_minutes:
        _add_minutes(repository, resource, name, page.snapshots, found, hour - HOUR)
    if left := SNAPSHOTS - len(page.snapshots):
        earlier = repository.get_usage_snapshots(resource=resource, start=hour - DAY, end=hour - HOUR, limit=left)
        found.add(earlier.snapshots, name)
        found.is_whole = earlier.next is None
    return found


def _add_minutes(
    repository: "SyncRepository",
    resource: str | None,
    name: str,
    snapshots: "Sequence[UsageSnapshot]",
    found: Use,
    start: datetime,
) -> None:
    from zae_limiter.maintenance import SPAN_MINUTES, usage_spans

    a_call = {
        (each.entity_id, each.resource, each.window_start): each.consumed.get(name, 0) / each.total_events
        for each in snapshots
        if each.total_events
    }
    for span in usage_spans(repository, resource, start):
        tokens = span.admitted * a_call.get((span.entity_id, span.resource, _hour_of(span.at)), 0)
        caller = span.entity_id, span.resource
        found.used[caller] = max(found.used.get(caller, 0), tokens * 60 / SPAN_MINUTES)
        found.by = "the busiest five minutes"


def _hour_of(instant: datetime) -> datetime:
    return instant.replace(minute=0, second=0, microsecond=0)
