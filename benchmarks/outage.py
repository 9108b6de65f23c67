"""How long an acquire takes while the store is hung, slow, gone, throttling or flapping.

Lives here: callers of both variants against dynoxide behind the life-cycle tests' proxy. Never: a claim about tokens.

Ten callers share a bucket. Each calls again after a pause of half a second at most, few callers sooner.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

from zae_limiter import (
    Limit,
    OnUnavailable,
    Options,
    RateLimiter,
    RateLimiterUnavailable,
    Repository,
    SyncRateLimiter,
    SyncRepository,
)

from .emulator import dynoxide
from .measure import percentile

if TYPE_CHECKING:
    from lifecycle.proxy_control import ProxyControl

TABLE = "zae-limiter-outage"
STORES = {
    "hung": "hung",
    "slow (1 s)": "late",
    "refuses connections": "refusing",
    "throttles": "throttling",
    "flaps (1 s up, 1 s hung)": "flapping",
}
CALLERS: Sequence[tuple[Literal["async", "sync"], int]] = (
    *(("async", callers) for callers in (1, 1000)),
    *(("sync", callers) for callers in (1, 100)),
)
POLICIES = (OnUnavailable.BLOCK, OnUnavailable.ALLOW)
SECONDS = 4.0
CALLS_PER_SECOND = 500
LONGEST_PAUSE = 0.5
CALLERS_PER_BUCKET = 10
BUDGET = Options().acquire_timeout or 0.0
TOLERANCE = 0.5  # a machine may be busy


@dataclass(frozen=True, slots=True)
class Cell:
    """Who calls what kind of store."""

    store: str
    variant: Literal["async", "sync"]
    callers: int
    policy: OnUnavailable

    @property
    def pause(self) -> float:
        """Seconds between an answer and the next call."""
        return min(LONGEST_PAUSE, self.callers / CALLS_PER_SECOND)

    @property
    def of_each_bucket(self) -> Sequence[int]:
        """One caller of each bucket."""
        return range(self.callers)[::CALLERS_PER_BUCKET]

    def __str__(self) -> str:
        thing = {"async": "task", "sync": "thread"}[self.variant]
        return f"{self.callers:,} {thing}{'s' * (self.callers > 1)}"


@dataclass(frozen=True, slots=True)
class Outage:
    """The waits of one cell, in seconds."""

    PAGE: ClassVar[Path] = Path(__file__).parent / "outage.md"
    HEAD: ClassVar[tuple[str, ...]] = ("store", "callers", "policy", "calls", "p50", "p99", "maximum", "")
    RULE: ClassVar[tuple[str, ...]] = ("---", "---", "---", "---:", "---:", "---:", "---:", "---")
    block: ClassVar[str] = ""

    cell: Cell
    waits: Sequence[float]

    @property
    def missed(self) -> bool:
        """Whether one of them was told nothing in time."""
        return max(self.waits) > BUDGET + TOLERANCE

    def cells(self) -> tuple[str, ...]:
        """What stands in its columns."""
        waits = (percentile(self.waits, 50), percentile(self.waits, 99), max(self.waits))
        shown = (f"{wait * 1000:,.3g} ms" if wait < 0.9995 else f"{wait:.2f} s" for wait in waits)
        who = (self.cell.store, str(self.cell), f"`{self.cell.policy}`")
        return *who, f"{len(self.waits):,}", *shown, "missed" if self.missed else "met"


def measure() -> list[Outage]:
    logger = logging.getLogger("zae_limiter")  # it warns of each call that is not counted
    logger.addHandler(logging.NullHandler())
    logger.propagate = False
    with ExitStack() as stack:
        url = dynoxide(stack)
        _make_ready(url)
        return [_row(url, Cell(store, *who, policy)) for store, who, policy in product(STORES, CALLERS, POLICIES)]


def _make_ready(url: str) -> None:
    with SyncRepository.open(stack=TABLE, endpoint_url=url, region="us-east-1", create_table=True) as repository:
        repository.set_resource_defaults("gpt-4", [Limit.per_second("rps", 1_000_000)])


def _row(url: str, cell: Cell) -> Outage:
    from lifecycle.proxy_control import ProxyControl  # beside the tests, like what it needs

    with ProxyControl(url) as proxy:
        waits = asyncio.run(_tasks(proxy, cell)) if cell.variant == "async" else _threads(proxy, cell)
    row = Outage(cell, waits)
    print("  ".join(row.cells()), flush=True)
    return row


@contextmanager
def _network(proxy: "ProxyControl", store: str) -> Iterator[None]:
    """The store behaves as its row of the table says while the block runs."""
    over = threading.Event()

    def flap() -> None:
        up = True
        while not over.wait(1.0):
            up = not up
            proxy.use("healthy" if up else "hung")

    if STORES[store] != "flapping":
        proxy.use(STORES[store])
        yield
        return
    proxy.use("hung")
    flapping = threading.Thread(target=flap)
    flapping.start()
    try:
        yield
    finally:
        over.set()
        flapping.join()


def _entity(number: int) -> str:
    return f"key-{number // CALLERS_PER_BUCKET}"


async def _tasks(proxy: "ProxyControl", cell: Cell) -> list[float]:
    waits: list[float] = []
    repository = await Repository.open(stack=TABLE, endpoint_url=proxy.url, region="us-east-1")
    async with RateLimiter(repository) as limiter:
        await asyncio.gather(*(_take(limiter, number, OnUnavailable.BLOCK) for number in cell.of_each_bucket))
        with _network(proxy, cell.store):
            until = time.perf_counter() + SECONDS
            await asyncio.gather(*(_call(limiter, cell, number, until, waits) for number in range(cell.callers)))
    return waits


async def _call(limiter: RateLimiter, cell: Cell, number: int, until: float, waits: list[float]) -> None:
    while (begun := time.perf_counter()) < until:
        with suppress(RateLimiterUnavailable):
            await _take(limiter, number, cell.policy)
        waits.append(time.perf_counter() - begun)
        await asyncio.sleep(cell.pause)


async def _take(limiter: RateLimiter, number: int, policy: OnUnavailable) -> None:
    async with limiter.acquire(_entity(number), "gpt-4", {"rps": 1}, on_unavailable=policy):
        pass


def _threads(proxy: "ProxyControl", cell: Cell) -> list[float]:
    waits: list[float] = []
    repository = SyncRepository.open(stack=TABLE, endpoint_url=proxy.url, region="us-east-1")
    with SyncRateLimiter(repository) as limiter, ThreadPoolExecutor(cell.callers) as threads:
        for number in cell.of_each_bucket:
            _sync_take(limiter, number, OnUnavailable.BLOCK)
        with _network(proxy, cell.store):
            until = time.perf_counter() + SECONDS
            calls = [threads.submit(_sync_call, limiter, cell, number, until, waits) for number in range(cell.callers)]
            for each in calls:
                each.result()
    return waits


def _sync_call(limiter: SyncRateLimiter, cell: Cell, number: int, until: float, waits: list[float]) -> None:
    while (begun := time.perf_counter()) < until:
        with suppress(RateLimiterUnavailable):
            _sync_take(limiter, number, cell.policy)
        waits.append(time.perf_counter() - begun)
        time.sleep(cell.pause)


def _sync_take(limiter: SyncRateLimiter, number: int, policy: OnUnavailable) -> None:
    with limiter.acquire(_entity(number), "gpt-4", {"rps": 1}, on_unavailable=policy):
        pass
