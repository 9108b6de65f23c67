"""Go round the usage of this hour and the one before, a part of it at a time.

The problem: usage names who was refused, but a read has a hundred snapshots at most, and 50,000 entities have as many
in each hour. The choice: a round is read page by page, so that its caller may stop between two pages and go on with the
next look, and what it finds replaces what the round before had found of the same hour. An hour that is over and was
read is not read again. The price: what a round found of an entity is shown until the next one.
"""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from heapq import nlargest
from typing import TYPE_CHECKING, Final

from zae_limiter.maintenance import usage_pages

from .rows import NOBODY, Place, Used

if TYPE_CHECKING:
    from zae_limiter import SyncRepository, UsageSnapshot
    from zae_limiter.values import Refuser

HOUR: Final = timedelta(hours=1)
SETTLES: Final = timedelta(minutes=2)  # after its end, the aggregator has counted an hour


class Sweep:
    """What is known of the usage since ``since``, which is the begin of the hour before this one."""

    def __init__(self, repository: "SyncRepository", resource: str | None) -> None:
        self._repository = repository
        self._resource = resource
        self.since = datetime.min.replace(tzinfo=UTC)
        self._hours: dict[datetime, dict[Place, Used]] = {}
        self._sums: dict[Place, Used] = {}
        self._pages: Iterator[Sequence[UsageSnapshot]] | None = None  # that are left of the round
        self._begun = self.since
        self.read = 0  # snapshots, in this round
        self._settled = False  # the hour before this one need not be read again

    def __len__(self) -> int:
        """Return the number of places whose usage is known."""
        return len(self._sums)

    def is_past(self, now: datetime) -> bool:
        """Return whether it is another hour than that of the last page."""
        return now >= self.since + 2 * HOUR

    def read_on(self, now: datetime) -> bool:
        """Read the next page of the round; return whether there was none, so that the round has ended."""
        self._turn(now.replace(minute=0, second=0, microsecond=0))
        if self._pages is None:
            start = self.since + HOUR if self._settled else self.since
            self._pages = usage_pages(self._repository, self._resource, start, self.since + 2 * HOUR)
            self._begun, self.read = now, 0
        try:
            page = next(self._pages, None)
        except Exception:
            self._pages = None  # which are lost: the next look begins the round again
            raise
        if page is None:
            self._pages = None
            self._settled |= self._begun >= self.since + HOUR + SETTLES
            return True
        for each in page:
            self._take(each)
        self.read += len(page)
        return False

    def most(self, number: int) -> dict[Place, Used]:
        """Return the places with the most refusals, then those with the most admitted acquires; so many of each."""
        refused = nlargest(number, self._sums.items(), key=lambda each: each[1].refused)
        admitted = nlargest(number, self._sums.items(), key=lambda each: each[1].admitted)
        return {**{place: used for place, used in refused if used.refused}, **dict(admitted)}

    def _turn(self, hour: datetime) -> None:
        """Forget what is older than the hour before this one, and begin a round if it is another hour by now."""
        if self.since == hour - HOUR:
            return
        self.since, self._pages, self._settled = hour - HOUR, None, False
        self._hours = {at: found for at, found in self._hours.items() if at >= self.since}
        self._sums = {}
        for place in {place for found in self._hours.values() for place in found}:
            self._add_up(place)

    def _take(self, snapshot: "UsageSnapshot") -> None:
        place = Place(snapshot.entity_id, snapshot.resource)
        used = Used(snapshot.total_events, snapshot.total_refused, snapshot.refused_by or NOBODY)
        self._hours.setdefault(snapshot.window_start, {})[place] = used
        self._add_up(place)

    def _add_up(self, place: Place) -> None:
        found = [hour[place] for hour in self._hours.values() if place in hour]
        self._sums[place] = found[0] if len(found) == 1 else _sum(found)


def _sum(found: list[Used]) -> Used:
    by: dict[Refuser, int] = {}
    for each in found:
        for refuser, number in each.refused_by.items():
            by[refuser] = by.get(refuser, 0) + number
    return Used(sum(each.admitted for each in found), sum(each.refused for each in found), by or NOBODY)
