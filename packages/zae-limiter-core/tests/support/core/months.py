"""A month of simulated time in many zones, in which many processes use one quota each.

Lives here: what happens, and an oracle that watches what the clocks of a zone show. Never: a claim.
"""

from calendar import monthrange
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from itertools import pairwise
from random import Random
from typing import NamedTuple
from zoneinfo import ZoneInfo

from zae_limiter import Limit, RateLimiter, RateLimitExceeded
from zae_limiter.flows.bucket.anchors import reanchor

from .shards import played, shard_items, split
from .worlds import Process, World

QUARTER = timedelta(minutes=15)
DAY = timedelta(days=1)
YEAR = 2026
CAPACITY = 3


class WrongQuota(AssertionError):
    """More or less was admitted than the quotas of the windows that the clocks have shown."""


class Visit(NamedTuple):
    """An instant at which some processes take all that is there of one zone's quota, or nothing but a look."""

    at: datetime
    zone: str
    drains: bool


@cache
def change_of(zone: str) -> datetime:
    """A change of a zone's clocks in the year, to the quarter of an hour: its first one, or its last one.

    The middle of the year for a zone without one.
    """
    tz, days = ZoneInfo(zone), [datetime(YEAR, 1, 1, tzinfo=UTC) + DAY * day for day in range(366)]
    changed = [before for before, after in pairwise(days) if _offset(before, tz) != _offset(after, tz)]
    if not changed:
        return datetime(YEAR, 6, 15, tzinfo=UTC)
    at = changed[-1 if len(zone) % 2 == 0 else 0]
    old = _offset(at, tz)
    while _offset(at, tz) == old:
        at += QUARTER
    return at


def _offset(instant: datetime, tz: ZoneInfo) -> timedelta | None:
    return instant.astimezone(tz).utcoffset()


def _day_of(zone: str) -> date:
    """The day of the change by the clocks of the zone, whose midnight may be left out, or shown twice."""
    return change_of(zone).astimezone(ZoneInfo(zone)).date()


def first_shown(zone: str, day: date) -> datetime:
    """The first quarter of an hour at which the clocks of a zone show a day, or a later one."""
    at = datetime.combine(day, time(), UTC) - timedelta(hours=16)
    while at.astimezone(ZoneInfo(zone)).date() < day:
        at += QUARTER
    return at


def limit_of(zone: str, carry_over: int) -> Limit:
    """A quota whose months begin on the day of the change."""
    starts_on = _day_of(zone).day
    return Limit.per_month("usd", CAPACITY, timezone=zone, starts_on=starts_on, carry_over=carry_over)


def begins_of(zone: str) -> Sequence[datetime]:
    """The begins of the month of the change, and of those before and after it."""
    day = _day_of(zone)
    months = [divmod(12 * day.year + day.month - 1 + more, 12) for more in (-1, 0, 1)]
    days = (date(year, month + 1, min(day.day, monthrange(year, month + 1)[1])) for year, month in months)
    return [first_shown(zone, each) for each in days]


def visits_of(zone: str, dice: Random) -> Sequence[Visit]:
    """The instants about the begins of months and the change of the clocks, and one anywhere."""
    begins, change, moment = begins_of(zone), change_of(zone), timedelta(milliseconds=1)
    about = [begin + more for begin in begins for more in (-moment, timedelta(0), QUARTER)]
    about += [change + QUARTER * more for more in (-2, 1, 3, 5)]
    about += [begins[1] + timedelta(hours=dice.randrange(24, 27 * 24))]
    first, last = begins[0] - timedelta(hours=2), begins[2] + timedelta(hours=2)
    busy = [dice.random() < 0.6 for _ in range(len(begins) + 1)]  # whole months go by unused
    return [Visit(first, zone, drains=True)] + [
        Visit(at, zone, drains=busy[sum(begin <= at for begin in begins)] and dice.random() < 0.8)
        for at in sorted(about)
        if first < at < last
    ]


class Quota:
    """What a zone's quota has left, by the months that its clocks have shown."""

    def __init__(self, zone: str, carry_over: int) -> None:
        self.limit = limit_of(zone, carry_over)
        self.left = CAPACITY
        self._begins = begins_of(zone)
        self._begun = 0

    def at(self, instant: datetime) -> int:
        """What is left at an instant."""
        begun = sum(begin <= instant for begin in self._begins)
        for _ in range(begun - self._begun):
            self.left = min(self.limit.burst, self.left + CAPACITY)
        self._begun = begun
        return self.left


async def months(
    world: World, zones: Sequence[str], processes: Sequence[Process], *, carry_over: int = 0, seed: int = 0
) -> int:
    """Let processes use up the quotas of all zones; return how many tokens they got. Raises ``WrongQuota``."""
    dice, admitted = Random(seed), 0
    quotas = {zone: Quota(zone, carry_over) for zone in zones}
    for visit in sorted(visit for zone in zones for visit in visits_of(zone, dice)):
        world.clock.advance(ms=round(visit.at.timestamp() * 1000) - world.clock.now_ms())
        world.expire()
        quota, entity = quotas[visit.zone], visit.zone.replace("/", ".")
        left = quota.at(visit.at)
        if dice.random() < 0.2:
            _move(world, dice.choice(processes).limiter, entity, dice)
        if not visit.drains:
            continue
        got = 0
        for process in dice.sample(processes, 2):
            got += await _drained(process.limiter, entity, quota.limit)
        if got != left:
            told = visit.at.astimezone(ZoneInfo(visit.zone))
            raise WrongQuota(f"{got} of {left} were admitted at {told} ({visit.zone}): {quota.limit}")
        quota.left, admitted = 0, admitted + got
    return admitted


async def _drained(limiter: RateLimiter, entity: str, limit: Limit) -> int:
    admitted = 0
    try:
        while admitted < 100:
            async with limiter.acquire(entity, "r", {"usd": 1}, [limit]):
                admitted += 1
    except RateLimitExceeded:
        pass
    return admitted


def _move(world: World, limiter: RateLimiter, entity: str, dice: Random) -> None:
    """Move the anchor of a bucket, or split it."""
    items = shard_items(world, limiter, entity)
    if items and len(items) < 4 and dice.random() < 0.3:
        split(world, limiter, entity, "r")
    for item in items.values():
        if dice.random() < 0.5:
            played(world.table, reanchor(item, world.clock.now_ms()))
