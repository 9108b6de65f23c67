"""What prefetched tokens save and what they cost, for few and many processes at every load, beside ``prefetch=0``.

Lives here: that load in virtual time, an ideal bucket that nobody may overdraw, and the table. Never: a time of this
machine.
"""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from zae_limiter import Limit, Options, RateLimiter, RateLimitExceeded, Repository
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.engines.meter import Meter
from zae_limiter.exceptions import ContentionError

from .virtual import Distant, VirtualClock, run

PREFETCH = 1.0
LATENCY_SECONDS = 0.004
WARM_UP_SECONDS = 5.0
ACQUIRES = 3_000  # of a run, about
LOADS = (0.1, 0.95, 2.0)
PROCESSES = (1, 5, 20, 50)
DEMANDS = (1, 10, 100, 1_000)  # acquires of a process within ``prefetch``
BURST_SECONDS = 10
MOST_ACQUIRES_PER_SECOND = 1_000  # of all processes: more would take minutes
FAIR, FULL = 0.95, 0.98
# Requests in the time of ``prefetch``, by the acquires in it: what is reached, rounded up. Acquires come by chance, so
# that a reservation of ten is often too small, or over before it is spent.
AT_MOST = {10: 2.3, 100: 1.8, 1_000: 1.7}


@dataclass(slots=True)
class Found:
    """What a run found: admissions by process, the delay of each, requests, and the least of an ideal bucket."""

    requests: int = 0
    offered: int = 0
    admitted: list[int] = field(default_factory=list)
    delays: list[float] = field(default_factory=list)
    least: float = 0.0

    @property
    def per_acquire(self) -> float:
        """Requests for each acquire that was offered."""
        return self.requests / self.offered

    @property
    def fairness(self) -> float:
        """Jain's index of the admissions of the processes."""
        squares = sum(each * each for each in self.admitted)
        return sum(self.admitted) ** 2 / (len(self.admitted) * squares) if squares else 1.0

    def delay_ms(self, part: float) -> float:
        """The delay of that part of the acquires, in milliseconds."""
        return 1000 * sorted(self.delays)[int(part * (len(self.delays) - 1))]


class IdealBucket:
    """A token bucket of the declared burst; whoever overdraws it has admitted too much."""

    def __init__(self, burst: float, rate: float, now: float) -> None:
        self.level = self.least = self._burst = burst
        self._rate = rate
        self._at = now

    def take(self, now: float) -> None:
        """Take one token."""
        self.level = min(self._burst, self.level + (now - self._at) * self._rate) - 1
        self._at = now
        self.least = min(self.least, self.level)


def offer(processes: int, load: float, demand: int, prefetch: float) -> Found:
    """A run of acquires of one token, which arrive by chance, each at a process by chance."""
    return run(_offer(processes, load, demand, prefetch))


async def _offer(processes: int, load: float, demand: int, prefetch: float) -> Found:
    per_second = processes * demand / PREFETCH
    rate = max(1, round(per_second / load))
    limit = Limit.custom(
        "rps", rate, burst=BURST_SECONDS * rate, refill_amount=rate, refill_period=1, prefetch=prefetch
    )
    chance, meter = random.Random(1), Meter()
    options, table = Options(clock=VirtualClock()), MemoryTable(meter)
    repositories = [await Repository.over(Distant(table, LATENCY_SECONDS), options) for _ in range(processes)]
    await repositories[0].set_resource_defaults("gpt-4", [limit])
    limiters = [RateLimiter(repository) for repository in repositories]
    found, loop = Found(admitted=[0] * processes), asyncio.get_running_loop()
    ideal = IdealBucket(limit.burst, rate, loop.time())
    warm = BURST_SECONDS / (load - 1) + WARM_UP_SECONDS if load > 1 else WARM_UP_SECONDS
    seconds = max(4.0, ACQUIRES / per_second)
    tasks: list[asyncio.Task[None]] = []
    measured = False
    until = loop.time() + warm + seconds
    while loop.time() < until:
        if not measured and loop.time() >= until - seconds:
            measured = True
            meter.reset()
            found.admitted = [0] * processes
            found.offered = 0
            found.delays.clear()
        found.offered += 1
        tasks.append(asyncio.create_task(_acquire(limiters, chance.randrange(processes), found, ideal)))
        await asyncio.sleep(chance.expovariate(per_second))
    await asyncio.gather(*tasks)
    for repository in repositories:
        await repository.close()
    found.requests, found.least = meter.requests["UpdateItem"], ideal.least
    return found


async def _acquire(limiters: Sequence[RateLimiter], process: int, found: Found, ideal: IdealBucket) -> None:
    loop = asyncio.get_running_loop()
    begun = loop.time()
    try:
        async with limiters[process].acquire("user", "gpt-4", {"rps": 1}):
            ideal.take(loop.time())
            found.admitted[process] += 1
    except (RateLimitExceeded, ContentionError):
        pass
    found.delays.append(loop.time() - begun)


@dataclass(frozen=True, slots=True)
class Held:
    """What one load costs with prefetched tokens, and without."""

    PAGE: ClassVar[Path] = Path(__file__).parent / "prefetch.md"
    HEAD: ClassVar[tuple[str, ...]] = (
        *("processes", "load", "acquires in that second", "requests per acquire", "without prefetch", "granted"),
        *("p99, ms", "without prefetch, ms", ""),
    )
    RULE: ClassVar[tuple[str, ...]] = (*("---:" for _ in range(8)), "---")
    block: ClassVar[str] = ""

    processes: int
    load: float
    demand: int
    prefetch: Found
    without: Found

    @property
    def missed(self) -> bool:
        """Whether it is short of what it promises: the bound, the rate, fairness, and fewer requests below overload."""
        short = self.granted(self.prefetch) < FULL * min(1.0, self.granted(self.without))
        if self.prefetch.least < 0 or self.prefetch.fairness < FAIR or short:
            return True
        return (
            self.load < 1 and self.demand in AT_MOST and self.prefetch.per_acquire > AT_MOST[self.demand] / self.demand
        )

    def granted(self, found: Found) -> float:
        """The part that was admitted of what the rate and the load allow."""
        return sum(found.admitted) / (found.offered * min(1.0, 1 / self.load))

    def cells(self) -> tuple[str, ...]:
        """What stands in its columns."""
        prefetch, without = self.prefetch, self.without
        return (
            *(str(self.processes), f"{self.load:.0%}", str(self.demand)),
            *(f"{each.per_acquire:.4f}" for each in (prefetch, without)),
            f"{self.granted(prefetch):.1%}",
            *(f"{each.delay_ms(0.99):.1f}" for each in (prefetch, without)),
            "**missed**" if self.missed else "",
        )


def measure() -> list[Held]:
    return [
        Held(
            processes,
            load,
            demand,
            offer(processes, load, demand, PREFETCH),
            offer(processes, load, demand, 0.0),
        )
        for processes in PROCESSES
        for load in LOADS
        for demand in DEMANDS
        if processes * demand <= MOST_ACQUIRES_PER_SECOND
    ]
