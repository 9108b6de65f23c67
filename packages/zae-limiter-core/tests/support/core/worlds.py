"""One script for both variants: the sync classes under an async face.

Lives here: that face, and processes over one table. Never: a claim.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Literal, NamedTuple, cast

from zae_limiter import (
    DrawLease,
    Lease,
    Limit,
    Options,
    RateLimiter,
    RateLimitExceeded,
    Repository,
    SyncDrawLease,
    SyncLease,
    SyncRateLimiter,
    SyncRepository,
)
from zae_limiter.aio.budgets import ObservedRunLease, RunBudget, RunLease
from zae_limiter.aio.keyed_lease import KeyedLease, ObservedKeyedLease
from zae_limiter.aio.keyed_runs import KeyedRunLease, ObservedKeyedRunLease
from zae_limiter.aio.observed_lease import ObservedLease
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.engines.meter import Meter
from zae_limiter.maintenance import Maintenance, SyncMaintenance
from zae_limiter.observers import Observer
from zae_limiter.operations.values import Get, Item, Key, Put
from zae_limiter.schema import keys
from zae_limiter.schema.registry import version_item
from zae_limiter.streams import Pieces, SyncPieces
from zae_limiter.sync.budgets import SyncObservedRunLease, SyncRunBudget, SyncRunLease
from zae_limiter.sync.keyed_lease import SyncKeyedLease, SyncObservedKeyedLease
from zae_limiter.sync.keyed_runs import SyncKeyedRunLease, SyncObservedKeyedRunLease
from zae_limiter.sync.observed_lease import SyncObservedLease
from zae_limiter.testing import ManualClock
from zae_limiter.values.versions import record_of_this_release

from .wires import SyncWireStore, Wire, WireStore

TWINS: dict[type, type] = {
    SyncRateLimiter: RateLimiter,
    SyncRepository: Repository,
    SyncLease: Lease,
    SyncDrawLease: DrawLease,
    SyncPieces: Pieces,
    SyncMaintenance: Maintenance,
    SyncObservedLease: ObservedLease,
    SyncObservedRunLease: ObservedRunLease,
    SyncRunBudget: RunBudget,
    SyncRunLease: RunLease,
    SyncKeyedLease: KeyedLease,
    SyncKeyedRunLease: KeyedRunLease,
    SyncObservedKeyedRunLease: ObservedKeyedRunLease,
    SyncObservedKeyedLease: ObservedKeyedLease,
}
THREADS = ThreadPoolExecutor(max_workers=128)


class Awaited:
    """A sync object whose methods run in threads, so that a script awaits them where it awaits those of the twin."""

    def __init__(self, target: Any) -> None:
        self._target = target
        self._twin = TWINS[type(target)]

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._target, name)
        if not callable(value):
            return awaited(value)
        if inspect.iscoroutinefunction(getattr(self._twin, name)):
            return partial(in_thread, value)
        return lambda *args, **kwargs: awaited(value(*args, **kwargs))

    async def __aenter__(self) -> Any:
        return await in_thread(self._target.__enter__)

    async def __aexit__(self, *error: object) -> None:
        await in_thread(self._target.__exit__, *error)


def awaited(value: Any) -> Any:
    """The value; under an async face where it has a twin."""
    if type(value) is tuple:
        return tuple(map(awaited, value))
    return Awaited(value) if type(value) in TWINS else value


async def in_thread(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """What the call returns, from a thread of its own."""
    return awaited(await asyncio.get_running_loop().run_in_executor(THREADS, partial(call, *args, **kwargs)))


def again(limiter: RateLimiter, **options: Any) -> RateLimiter:
    """Another limiter of the same variant over the same repository."""
    target: Any = limiter._target if isinstance(limiter, Awaited) else limiter
    return cast("RateLimiter", awaited(type(target)(target.repository, **options)))


def pieces_of(lease: Lease | DrawLease, sizes: dict[str, int], **options: float) -> Pieces:
    """Pieces for a lease of either variant."""
    if isinstance(lease, Awaited):
        return cast("Pieces", awaited(SyncPieces(lease._target, sizes, **options)))
    return Pieces(lease, sizes, **options)


class Process(NamedTuple):
    """A limiter with a repository, caches and a wire of its own: what another process would be."""

    limiter: RateLimiter
    wire: Wire

    @property
    def repository(self) -> Repository:
        return self.limiter.repository


class World:
    """One table, one clock, and processes of one variant over it.

    ``spread``: processes ask for all partitions of the indexes, and the table's record has the schema that fills them.
    """

    def __init__(self, variant: Literal["async", "sync"], *, spread: bool = False) -> None:
        self.variant = variant
        self.clock = ManualClock()
        self.meter = Meter()
        self.table = MemoryTable(self.meter)
        self.spread = spread
        if spread:
            self.table.execute(Put(version_item(record_of_this_release())))

    async def process(
        self,
        namespace: str = "default",
        *,
        default_limits: list[Limit] | None = None,
        observers: Sequence[Observer] = (),
        wire: Wire | None = None,
        **options: Any,
    ) -> Process:
        wire = wire or Wire(self.table)
        wire.plain_indexes = not self.spread
        chosen = Options(namespace=namespace, **{"clock": self.clock, **options})
        if self.variant == "async":
            opened = await Repository.over(WireStore(wire), chosen)
            limiter = RateLimiter(opened, default_limits=default_limits, observers=observers)
        else:
            repository = SyncRepository.over(SyncWireStore(wire), chosen)
            twin = SyncRateLimiter(repository, default_limits=default_limits, observers=observers)
            limiter = cast("RateLimiter", Awaited(twin))
        wire.sent()
        return Process(limiter, wire)

    def rival(self, **options: Any) -> SyncRepository:
        """The repository of another process, for what happens in the middle of an operation."""
        return SyncRepository.over(SyncWireStore(Wire(self.table)), Options(**{"clock": self.clock, **options}))

    def bucket_of(self, limiter: RateLimiter, entity_id: str, resource: str) -> Item | None:
        """The bucket's item as the table has it."""
        pk = keys.pk_bucket(limiter.repository.namespace_id, entity_id, resource, 0)
        item: Item | None = self.table.execute(Get(Key(pk, keys.sk_state())))
        return item

    def expire(self) -> int:
        """Remove what is past its ``ttl``."""
        return self.table.expire(self.clock.now_ms() // 1000)


async def take(limiter: RateLimiter, entity_id: str, resource: str, **consume: int) -> None:
    """Acquire, and leave the block at once."""
    async with limiter.acquire(entity_id, resource, consume):
        pass


async def passes(limiter: RateLimiter, entity_id: str, resource: str, **consume: int) -> bool:
    """Whether such an acquire was admitted."""
    try:
        await take(limiter, entity_id, resource, **consume)
    except RateLimitExceeded:
        return False
    return True


async def drain(limiter: RateLimiter, entity_id: str, resource: str, limit: str, *, step: int = 1) -> int:
    """How many tokens were admitted, in takes of ``step``, until one was refused."""
    admitted = 0
    while await passes(limiter, entity_id, resource, **{limit: step}):
        admitted += step
    return admitted


async def until(holds: Callable[[], bool]) -> None:
    """Wait until something holds; fails after a minute, in which a busy machine does it, too."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110 - threads tell no event of this loop
            await asyncio.sleep(0.001)


def stand_still(world: World) -> None:
    """Let the calls of processes that begin from now on wait until the clock is advanced."""
    world.clock = ManualClock(world.clock.now_ms(), jumps=False)


async def go_on(world: World, waiting: Sequence[asyncio.Task[Any]], seconds: float, step: float = 0.05) -> bool:
    """Let so many seconds pass in steps, or fewer until these are done; return whether they are.

    At each step they all wait, or are done.
    """

    def wait() -> bool:
        asleep = sum(due > world.clock.now_ms() for due in list(world.clock._due))
        return asleep >= sum(not each.done() for each in waiting)

    for _ in range(round(seconds / step)):
        await until(wait)
        if all(each.done() for each in waiting):
            break
        world.clock.advance(seconds=step)
    await until(wait)
    return all(each.done() for each in waiting)


async def outcomes(*awaitables: Awaitable[Any]) -> list[Any]:
    """The results at the same time; exceptions as values."""
    return await asyncio.gather(*awaitables, return_exceptions=True)
