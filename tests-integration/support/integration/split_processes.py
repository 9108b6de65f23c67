"""What lives here: processes that take from one bucket on command, and one that splits it; each may die on the way.
What never does: what they may get.
"""

import asyncio
import inspect
import multiprocessing
import os
import random
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any, cast

from zae_limiter import Options, RateLimiter, RateLimitExceeded, Repository, SyncRateLimiter, SyncRepository
from zae_limiter.engines.dynamodb.aio.store import DynamoDBStore
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.flows.bucket.splitting import split_shard
from zae_limiter.operations.values import Operation, Put, Transact, Update
from zae_limiter.schema.items import BucketId

from .awaited import Awaited, Variant

TIMEOUT = 30.0  # a store that is slow because the machine is busy is not what these tests are about
PAUSE_SECONDS = 0.005  # after a refusal, so that those who are refused leave the processor to the others
WORKERS = 4
DEAD = 9
ADMITTED, PENDING = 0, 1
Ledger = Any  # two numbers that processes share

# A process for each death: a server that has imported everything forks them.
_processes = multiprocessing.get_context("forkserver")
_processes.set_forkserver_preload(["splits", "aioboto3", "boto3"])


@dataclass(frozen=True, slots=True)
class Place:
    """Where a process takes what, and in which variant.

    It dies right before it begins one more of the ``mortal`` operations than it has ``lives``. Errors of the kind
    ``refusals`` tell that nothing was taken.
    """

    endpoint_url: str
    table_name: str
    variant: Variant = "async"
    resource: str = "gpt-4"
    limit: str = "rpm"
    most: int = 5
    split_above: int = 500
    lives: int | None = None
    mortal: tuple[type, ...] = (Put, Update, Transact)
    refusals: tuple[type[Exception], ...] = (RateLimitExceeded,)


class MortalStore:
    """A store of a process that dies, from ``armed`` on."""

    def __init__(self, inner: Any, place: Place) -> None:
        self.close, self.caller = inner.close, inner.caller
        self.capabilities, self.connect = inner.capabilities, inner.connect
        self.armed = False
        self._inner = inner
        self._mortal = place.mortal
        self._lives = place.lives

    def start(self, _operation: Operation[Any], _done: object) -> bool:
        """Start nothing: `perform` is where it dies."""
        return False

    def perform(self, operation: Operation[Any]) -> Any:
        """Return what the store answers, which the async variant awaits."""
        if self.armed and self._lives is not None and isinstance(operation, self._mortal):
            if self._lives == 0:
                os._exit(DEAD)
            self._lives -= 1
        return self._inner.perform(operation)


@asynccontextmanager
async def _opened(place: Place) -> AsyncIterator[tuple[RateLimiter, MortalStore]]:
    """A limiter of the place's variant, awaited in either; and its store."""
    options = Options(split_above=place.split_above, read_timeout=TIMEOUT, acquire_timeout=None)
    reach: dict[str, Any] = {"region": "us-east-1", "endpoint_url": place.endpoint_url, "read_timeout": TIMEOUT}
    if place.variant == "async":
        store = MortalStore(DynamoDBStore(place.table_name, **reach), place)
        async with RateLimiter(repository=await Repository.over(store, options)) as limiter:
            yield limiter, store
        return
    store = MortalStore(SyncDynamoDBStore(place.table_name, **reach), place)
    repository = SyncRepository.over(store, options)
    with ThreadPoolExecutor(32) as threads, SyncRateLimiter(repository=repository) as sync_limiter:
        yield cast("RateLimiter", Awaited(sync_limiter, threads)), store


@dataclass(frozen=True, slots=True)
class Fate:
    """What a process was told that it has, what it was waiting for at its end, and whether it died."""

    admitted: int
    pending: int
    died: bool


class Worker:
    """A process over one place. It keeps its ledger where its death does not take it along."""

    def __init__(self, work: Callable[..., None], place: Place, *args: Any) -> None:
        self._pipe, theirs = _processes.Pipe()
        self._ledger: Ledger = _processes.RawArray("q", 2)
        self._process = _processes.Process(target=work, args=(place, theirs, self._ledger, *args), daemon=True)
        self._process.start()
        theirs.close()

    def wait_until_ready(self) -> None:
        """Wait for its client to be open."""
        assert self._hear() == "ready"

    def order(self, word: str) -> None:
        """Say what to do next; the dead do not hear it."""
        with suppress(BrokenPipeError):
            self._pipe.send(word)

    @property
    def lives(self) -> bool:
        """Whether it has not died yet."""
        return self._process.is_alive()

    def fate(self) -> Fate:
        """How it fared, when it is done with its task or died."""
        try:
            assert self._hear() == "done"
        except (EOFError, ConnectionResetError):
            self._process.join()
            assert self._process.exitcode == DEAD, f"a process ended with {self._process.exitcode}"
        fate = Fate(self._ledger[ADMITTED], self._ledger[PENDING], died=self._process.exitcode == DEAD)
        self._ledger[:] = (0, 0)
        return fate

    def close(self) -> None:
        """End it."""
        self._process.kill()
        self._process.join()
        self._process.close()
        self._pipe.close()

    def _hear(self) -> str:
        if not self._pipe.poll(60):
            raise TimeoutError("a process says nothing")
        word: str = self._pipe.recv()
        return word


@contextmanager
def ready(*workers: Worker) -> Iterator[list[Worker]]:
    """The processes, as soon as their clients are open, until the end of the block."""
    for worker in workers:
        worker.wait_until_ready()
    try:
        yield list(workers)
    finally:
        for worker in workers:
            worker.close()


class Hand:
    """What a process takes with: what it asks for and gets is in its ledger before and behind each take."""

    def __init__(self, place: Place, pipe: Connection, ledger: Ledger, limiter: RateLimiter) -> None:
        self._place = place
        self._pipe = pipe
        self._ledger = ledger
        self._limiter = limiter

    def say(self, word: str) -> None:
        """Tell how far it is."""
        self._pipe.send(word)

    async def hear(self) -> str:
        """Wait for an order."""
        word: str = await asyncio.to_thread(self._pipe.recv)
        return word

    async def take(self, entity_id: str, amount: int) -> bool:
        """Whether the amount was admitted."""
        self._ledger[PENDING] += amount
        try:
            async with self._limiter.acquire(entity_id, self._place.resource, {self._place.limit: amount}):
                self._ledger[ADMITTED] += amount
        except self._place.refusals:
            return False
        finally:
            self._ledger[PENDING] -= amount
        return True


def taker(place: Place, pipe: Connection, ledger: Ledger, seed: int) -> None:
    """Take from the bucket that an order names, with several workers, until the next order; over and over."""
    asyncio.run(_take_on_command(place, pipe, ledger, random.Random(seed)))


async def _take_on_command(place: Place, pipe: Connection, ledger: Ledger, chance: random.Random) -> None:
    async with _opened(place) as (limiter, store):
        hand = Hand(place, pipe, ledger, limiter)
        store.armed = True
        hand.say("ready")
        while True:
            entity_id = await hand.hear()
            over = asyncio.create_task(hand.hear())
            await asyncio.gather(*(_take_until(over, hand, place.most, entity_id, chance) for _ in range(WORKERS)))
            hand.say("done")


async def _take_until(over: asyncio.Task[str], hand: Hand, most: int, entity_id: str, chance: random.Random) -> None:
    while not over.done():
        if not await hand.take(entity_id, chance.randint(1, most)):
            await asyncio.sleep(PAUSE_SECONDS)


def splitter(place: Place, pipe: Connection, ledger: Ledger, entity_id: str, large: int) -> None:
    """When told to, split the bucket into 2, 4 and 8 shards, and take from it in between: little, and much."""
    asyncio.run(_split_and_take(place, pipe, ledger, entity_id, large))


async def _split_and_take(place: Place, pipe: Connection, ledger: Ledger, entity_id: str, large: int) -> None:
    async with _opened(place) as (limiter, store):
        hand = Hand(place, pipe, ledger, limiter)
        hand.say("ready")
        await hand.hear()
        store.armed = True
        for count in (1, 2, 4):
            await hand.take(entity_id, 1)
            for shard in range(count):
                await _split(
                    limiter, BucketId(limiter.repository.namespace_id, entity_id, place.resource, shard), count
                )
            await hand.take(entity_id, large)
        hand.say("done")
        await hand.hear()


async def _split(limiter: RateLimiter, bucket: BucketId, count: int) -> None:
    """Split a shard, unless somebody has just done so, as a process does that finds it written too often."""
    repository = limiter.repository
    done: Any = repository.driver.run(split_shard(repository.namespace_state, bucket, among=count))
    if inspect.isawaitable(done):
        await done
