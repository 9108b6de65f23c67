"""Forecast when a budget is gone, at the rate of the last 24 hours or of the last hour, whichever is nearer.

The problem: two looks at a bucket give the rate of seconds, and a budget of a month is spent by days and nights. The
choice: usage of today (UTC), and of yesterday the part that the last 24 hours still hold, as if it had been spent
evenly. So two daily windows answer at any time of day, and just after midnight the rate is not that of a few calls. The
price: a burst of yesterday counts until it is 24 hours old, and less with each hour.

A run that began a quarter of an hour ago is little of a day, so the use of the last hour, from its hourly windows in
the same way, is a rate of its own.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from zae_limiter.maintenance import lasts_seconds

if TYPE_CHECKING:
    from zae_limiter import Limit, UsageSnapshot
    from zae_limiter.values import Bucket

DAY: Final = timedelta(days=1)
HOUR: Final = timedelta(hours=1)
BUDGETS: Final = frozenset(
    {"calendar", "first_use", "total"}
)  # kinds of limits that tokens come back to late, or never


class Spent(NamedTuple):
    """What was used of a limit, in its tokens: today and yesterday (UTC), in this hour and the one before."""

    today: int = 0
    yesterday: int = 0
    this_hour: int = 0
    hour_before: int = 0

    def per_day(self, now: datetime) -> float:
        """Return the use of the last 24 hours."""
        return self.today + self.yesterday * (1 - (now - day_of(now)) / DAY)

    def per_hour(self, now: datetime) -> float:
        """Return the use of the last hour."""
        return self.this_hour + self.hour_before * (1 - (now - hour_of(now)) / HOUR)


NOTHING: Final = Spent()


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget of a bucket: what is left, the use of 24 hours and of the last one, and when the rest is gone at the
    rate by which it is gone first.

    ``gone_at`` is ``None`` for one that lasts until its window ends, or that is not used. ``window_ends``: ``None``
    without a window under way. ``by_hour``: whether the rate is that of the last hour.
    """

    entity_id: str
    resource: str
    limit: "Limit"
    available: int
    per_day: float
    gone_at: datetime | None
    window_ends: datetime | None
    per_hour: float = 0.0
    by_hour: bool = False

    def with_hours(self, this_hour: int, hour_before: int, now: datetime) -> "Budget":
        """Return it with the rate of the last hour, by which it is gone if that is before."""
        per_hour = Spent(this_hour=this_hour, hour_before=hour_before).per_hour(now)
        soon = _gone_before(self.window_ends, self.limit, self.available, per_hour * (DAY / HOUR), now)
        by_hour = soon is not None and (self.gone_at is None or soon < self.gone_at)
        return replace(self, per_hour=per_hour, by_hour=by_hour, gone_at=soon if by_hour else self.gone_at)

    @property
    def percent(self) -> float:
        """The part of the budget that is gone; more than 100 in debt."""
        return 100 * (self.limit.capacity - self.available) / self.limit.capacity if self.limit.capacity else 100.0


def day_of(now: datetime) -> datetime:
    """Return the begin of the day (UTC) that holds an instant."""
    return now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)


def hour_of(now: datetime) -> datetime:
    """Return the begin of the hour (UTC) that holds an instant."""
    return now.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def gone_at(limit: "Limit", available: int, per_day: float, now: datetime) -> datetime | None:
    """Return when so many tokens of a limit are gone at this rate: ``now`` if none are left; ``None`` if more come
    before, or nothing is used.
    """
    if available <= 0:
        return now
    if per_day <= 0:
        return None
    seconds = lasts_seconds(limit, available, per_day / DAY.total_seconds(), int(now.timestamp() * 1000))
    try:
        return None if seconds is None else now + timedelta(seconds=seconds)
    except OverflowError:  # in thousands of years
        return None


def spent_by_place(snapshots: Iterable["UsageSnapshot"], now: datetime) -> dict[tuple[str, str, str], Spent]:
    """Return what was used today and yesterday by entity, resource and limit, from daily windows."""
    found: dict[tuple[str, str, str], Spent] = {}
    today = day_of(now)
    for each in snapshots:
        for name, amount in each.consumed.items():
            place = each.entity_id, each.resource, name
            before = found.get(place, Spent())
            if each.window_start >= today:
                found[place] = before._replace(today=before.today + amount)
            elif each.window_start >= today - DAY:
                found[place] = before._replace(yesterday=before.yesterday + amount)
    return found


def with_hours(
    spent: Mapping[tuple[str, str, str], Spent], snapshots: Iterable["UsageSnapshot"], now: datetime
) -> dict[tuple[str, str, str], Spent]:
    """Return the same with what was used in this hour and the one before, from hourly windows."""
    found, this_hour = dict(spent), hour_of(now)
    for each in snapshots:
        for name, amount in each.consumed.items():
            place = each.entity_id, each.resource, name
            before = found.get(place, NOTHING)
            if each.window_start >= this_hour:
                found[place] = before._replace(this_hour=before.this_hour + amount)
            elif each.window_start >= this_hour - HOUR:
                found[place] = before._replace(hour_before=before.hour_before + amount)
    return found


def budgets_of(
    buckets: Iterable["Bucket"], spent: Mapping[tuple[str, str, str], Spent], now: datetime
) -> Iterator[Budget]:
    """Yield the budgets of buckets. A capacity of 0 blocks, and is not a budget."""
    for bucket in buckets:
        for each in bucket.limits:
            limit = each.limit
            if limit.kind not in BUDGETS or not limit.capacity:
                continue
            used = spent.get((bucket.entity_id, bucket.resource, limit.name), NOTHING)
            ends = None if each.window_ends_ms is None else datetime.fromtimestamp(each.window_ends_ms / 1000, UTC)
            rates = used.per_day(now), used.per_hour(now) * (DAY / HOUR)
            gone, soon = (_gone_before(ends, limit, each.available, rate, now) for rate in rates)
            by_hour = soon is not None and (gone is None or soon < gone)
            yield Budget(
                bucket.entity_id,
                bucket.resource,
                limit,
                each.available,
                rates[0],
                soon if by_hour else gone,
                ends,
                used.per_hour(now),
                by_hour,
            )


def _gone_before(
    ends: datetime | None, limit: "Limit", available: int, per_day: float, now: datetime
) -> datetime | None:
    """Return when a budget is gone at this rate; ``None`` if its window ends before."""
    gone = gone_at(limit, available, per_day, now)
    lasts = gone is not None and ends is not None and gone >= ends and available > 0
    return None if lasts else gone


def soonest(budget: Budget) -> tuple[float, float]:
    """Return the rank of a budget: the one that is gone first, then the one of which most is gone."""
    return (float("inf") if budget.gone_at is None else budget.gone_at.timestamp(), -budget.percent)
