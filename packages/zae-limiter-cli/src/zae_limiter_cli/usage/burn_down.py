"""How a budget went since its window began, beside its forecast.

What was left earlier is what is left now and what was used since: a query of usage, by the hour for a short window.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final

from zae_limiter.maintenance import window_at

from .forecast import DAY, HOUR, Budget, hour_of

if TYPE_CHECKING:
    from zae_limiter import SyncRepository
    from zae_limiter.values.usage import Window

BY_THE_HOUR: Final = timedelta(days=8)  # windows that are at most as long are drawn by the hour
LONGEST: Final = timedelta(days=366)  # before now, for a total
SNAPSHOTS: Final = 1000  # of one query


@dataclass(frozen=True, slots=True)
class BurnDown:
    """A budget ``at`` an instant; ``left`` has what was left at earlier instants, oldest first, and now.

    ``begins``: of the window under way, ``None`` without one.
    """

    budget: Budget
    at: datetime
    begins: datetime | None
    left: tuple[tuple[datetime, int], ...]

    @property
    def is_short(self) -> bool:
        """Whether it is gone already, or before its window ends."""
        return self.budget.gone_at is not None

    @property
    def at_end(self) -> int | None:
        """What is left when the window ends, at this rate; ``None`` for a window without an end."""
        budget, ends = self.budget, self.budget.window_ends
        if ends is None:
            return None
        per_day = budget.per_hour * (DAY / HOUR) if self.rate == "hour" else budget.per_day
        return max(0, budget.available - round(per_day * ((ends - self.at) / DAY)))

    @property
    def rate(self) -> str:
        """By which time's use the end is forecast: that of the last day, or of the last hour in windows below a day."""
        ends = self.budget.window_ends
        is_short = self.begins is not None and ends is not None and ends - self.begins < DAY
        return "hour" if is_short else "day"


def read_burn_down(repository: "SyncRepository", budget: Budget, at: datetime) -> BurnDown:
    """Return how a budget went, as far back as usage of it is kept; in a window of days, also by its last hour."""
    begins = _begin(budget, at)
    start = max(begins or at - LONGEST, at - LONGEST)
    window: Window = "daily" if at - start > BY_THE_HOUR else "hourly"
    first = hour_of(min(start, at - HOUR) if window == "hourly" else start)
    page = repository.get_usage_snapshots(
        entity_id=budget.entity_id,
        resource=budget.resource,
        window=window,
        start=first if window == "hourly" else first.replace(hour=0),
        limit=SNAPSHOTS,
    )
    used = [(each.window_start, each.consumed.get(budget.limit.name, 0)) for each in page.snapshots]
    if window == "hourly":
        tokens = dict(used)
        budget = budget.with_hours(tokens.get(hour_of(at), 0), tokens.get(hour_of(at) - HOUR, 0), at)
    return BurnDown(budget, at, begins, _left(used, budget, begins, at))


def _begin(budget: Budget, at: datetime) -> datetime | None:
    """Return when the window under way began."""
    limit, ends = budget.limit, budget.window_ends
    if limit.kind == "first_use":
        return None if ends is None else ends - timedelta(seconds=limit.refill_period)
    window = window_at(limit, round(at.timestamp() * 1000), None)
    start_ms = None if window is None else window.start_ms
    return None if start_ms is None else datetime.fromtimestamp(start_ms / 1000, at.tzinfo)


def _left(
    used: Sequence[tuple[datetime, int]], budget: Budget, begins: datetime | None, at: datetime
) -> tuple[tuple[datetime, int], ...]:
    """Return what was left at the begin of each window of usage, and is left now."""
    found, left = [(at, budget.available)], budget.available
    for when, tokens in reversed(used):
        left += tokens
        found.append(
            (when if begins is None else max(when, begins), min(left, max(budget.limit.burst, budget.available)))
        )
        if begins is not None and when <= begins:
            break
    if begins is not None and found[-1][0] > begins and found[-1][1] >= budget.limit.capacity:
        found.append((begins, found[-1][1]))  # nothing was used before; else that is not kept any more
    return tuple(reversed(found))
