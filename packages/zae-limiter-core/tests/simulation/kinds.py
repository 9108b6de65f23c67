"""Limits of every kind, for histories that have them together.

Lives here: what a kind of limit may be like, and which values a schedule has at which time. Never: what else a history
has (plan), what a schedule mints (bucket_items).
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Final, NamedTuple

from zae_limiter.values.limits import Limit
from zae_limiter.values.schedules import ScheduleEntry

from .bucket_items import SLOTS

MINUTE_MS: Final = 60_000
WEIGHTS: Final[tuple[Mapping[str, float], ...]] = (
    {"input": 1, "output": 4},
    {"input": 1, "cached": 0.1, "output": 4},
    {"input": 0.333333, "cached": 0.000001, "cache_write": 1.25, "output": 2.5, "reasoning": 7},
)


class Scheduled(NamedTuple):
    """A limit with a schedule, and what it is from each instant on: a limit without one."""

    limit: Limit
    pieces: tuple[tuple[int, Limit], ...]


def token_bucket(rng: Random, name: str) -> Limit:
    """A limit that refills evenly; it may be prefetched."""
    capacity, (refill, period) = rng.choice((0, 1, 3, 10, 40)), rng.choice(((1, 1), (3, 1), (10, 1), (1, 2), (7, 60)))
    prefetch = rng.choice((0.0, 0.0, 0.3, 1.0)) if capacity >= 10 else 0.0
    more = 2 * round(refill * prefetch / period)
    burst = capacity * rng.choice((1, 1, 2)) + more
    return Limit.custom(name, capacity, burst=burst, refill_amount=refill, refill_period=period, prefetch=prefetch)


def calendar(rng: Random, name: str) -> Limit:
    """A quota of a minute, of which some may be carried over."""
    capacity = rng.choice((0, 1, 3, 10, 10, 40))
    burst = capacity * rng.choice((1, 1, 2)) + (capacity > 0) * rng.choice((0, 0, 1))
    return Limit.custom(name, capacity, burst=burst, kind="calendar", window="minute")


def total(rng: Random, name: str) -> Limit:
    """An amount that does not come back."""
    return Limit.custom(name, rng.choice((1, 10, 40, 100)), kind="total")


def first_use(rng: Random, name: str) -> Limit:
    """A window that begins with the first use."""
    return Limit.quota(name, rng.choice((1, 3, 10, 10, 40)), window=rng.choice((1, 1, 2, 5)))


def weighted(rng: Random, name: str) -> Limit:
    """A limit of tokens that count by their kind."""
    capacity, refill = rng.choice((3, 10, 40)), rng.choice((1, 10, 40))
    weights = rng.choice(WEIGHTS)
    return Limit.custom(name, capacity, refill_amount=refill, refill_period=1, weights=weights)


def slots(rng: Random) -> Limit:
    """Slots that are held at the same time."""
    return Limit.concurrent(SLOTS, rng.choice((1, 2, 3, 3, 6)), expires=rng.choice((5, 10)))


def scheduled(rng: Random, name: str, boundary_ms: int) -> Scheduled:
    """A limit that has other values for a minute or two, which begin or end at a boundary."""
    return rescheduled(rng, _evenly(rng, name, rng.choice((0.0, 0.0, 0.3, 1.0))), boundary_ms)


def rescheduled(rng: Random, limit: Limit, boundary_ms: int) -> Scheduled:
    """The limit with a schedule, which may be another one than it has."""
    limit = replace(limit, schedule=())
    begin_ms = boundary_ms - rng.choice((0, 0, MINUTE_MS))
    entries, pieces = [], [(0, limit)]
    for number in range(rng.choice((1, 1, 2))):
        since_ms = begin_ms + number * MINUTE_MS
        piece = _evenly(rng, limit.name, limit.prefetch)
        rate = f"{piece.refill_amount}/{'sec' if piece.refill_period == 1 else 'min'}"
        when = f"{_clock(since_ms)}-{_clock(since_ms + MINUTE_MS)}"
        entries.append(f"part-{number}: {when} {rate} burst {piece.burst}")
        pieces.append((since_ms, piece))
    pieces.append((pieces[-1][0] + MINUTE_MS, limit))
    schedule = tuple(map(ScheduleEntry.parse, entries))
    return Scheduled(replace(limit, schedule=schedule), tuple(pieces))


def _evenly(rng: Random, name: str, prefetch: float) -> Limit:
    """A limit whose capacity is what comes back in its period."""
    burst, refill, period = rng.choice((1, 3, 10, 40)), rng.choice((1, 3, 10)), rng.choice((1, 60))
    burst = max(burst, refill) + 2 * math.ceil(refill * prefetch / period)
    return Limit.custom(name, refill, burst=burst, refill_amount=refill, refill_period=period, prefetch=prefetch)


def _clock(at_ms: int) -> str:
    minutes = at_ms // MINUTE_MS % 1440
    return f"{minutes // 60:02}:{minutes % 60:02}"


SECOND_KINDS: Final[tuple[Callable[[Random, str], Limit], ...]] = (calendar, calendar, total, first_use, weighted)
QUOTAS: Final[tuple[Callable[[Random, str], Limit], ...]] = (calendar, total, first_use, token_bucket)
"""Kinds that the quotas of one history may change to, and back."""
