"""What lives here: processes whose callers are refused by their own limits and by those of parents, and write it down.
What never does: what the table says of it.
"""

import asyncio
import multiprocessing
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from threading import Barrier

from zae_limiter import Limit, Options, RateLimiter, RateLimitExceeded, Repository
from zae_limiter.engines.dynamodb.aio.store import DynamoDBStore

from .harness import REGION

PROCESSES = 3
CALLERS = 4  # of each key, in each process
TIMEOUT = 30.0  # a store that is slow because the machine is busy is not what these tests are about
PAUSE_SECONDS = 0.01  # after a refusal, so that the others get the processor
RESOURCE = "gpt-4"
PARENTS = {"key-1": "acme-corp", "key-2": "acme-corp", "key-3": "globex/eu"}
MOVED = "key-2"  # to the other parent, in the midst of it
OPTIONS = Options(
    create_table=True, connect_timeout=TIMEOUT, read_timeout=TIMEOUT, acquire_timeout=None, config_cache_ttl=0.2
)

Ledger = Counter[tuple[str, ...]]
"""By entity: refused calls. By entity, ancestor and limit: those of them for which this limit was short."""


@dataclass(frozen=True, slots=True)
class Place:
    """A table behind an endpoint; a file of SQLite if there is no endpoint."""

    endpoint_url: str | None
    name: str

    async def limiter(self) -> RateLimiter:
        """A limiter of its own there."""
        if self.endpoint_url is None:
            return RateLimiter(repository=await Repository.sqlite(self.name, config_cache_ttl=0.2))
        store = DynamoDBStore(self.name, region=REGION, endpoint_url=self.endpoint_url, read_timeout=TIMEOUT)
        return RateLimiter(repository=await Repository.over(store, OPTIONS))


async def prepare(limiter: RateLimiter) -> None:
    """Limits and entities: keys are short of tokens at times, and their parents are, of one limit or of both."""
    await limiter.set_resource_defaults(RESOURCE, [_a_second("rpm", 40), _a_second("tpm", 4_000)])
    for parent in sorted({*PARENTS.values()}):
        await limiter.create_entity(parent)
        await limiter.set_limits(parent, [_a_second("rpm", 30), _a_second("tpm", 1_500)])
    for key, parent in PARENTS.items():
        await limiter.create_entity(key, parent_id=parent, cascade=True)


async def move(limiter: RateLimiter) -> None:
    """Give a key another parent."""
    await limiter.repository.update_entity(MOVED, parent_id=PARENTS["key-3"])


def _a_second(name: str, amount: int) -> Limit:
    return Limit.custom(name, amount, refill_amount=amount, refill_period=1)


async def refused(place: Place, seconds: float, halfway: Callable[[], Awaitable[None]]) -> Ledger:
    """What processes that call for so many seconds were told of their refusals, with something done halfway."""
    spawn = multiprocessing.get_context("spawn")
    gate = spawn.Barrier(PROCESSES + 1)
    with ProcessPoolExecutor(PROCESSES, spawn, initializer=_meet_at, initargs=(gate,)) as pool:
        futures = [pool.submit(_work, place, seconds, seed) for seed in range(PROCESSES)]
        await asyncio.to_thread(gate.wait, TIMEOUT)
        await asyncio.sleep(seconds / 2)
        await halfway()
        ledgers = await asyncio.gather(*map(asyncio.wrap_future, futures))
    return sum(ledgers, Counter())


_gate: Barrier | None = None


def _meet_at(gate: Barrier) -> None:
    global _gate
    _gate = gate


def _work(place: Place, seconds: float, seed: int) -> Ledger:
    return asyncio.run(_open_and_work(place, seconds, seed))


async def _open_and_work(place: Place, seconds: float, seed: int) -> Ledger:
    ledger: Ledger = Counter()
    async with await place.limiter() as limiter:
        assert _gate is not None
        await asyncio.to_thread(_gate.wait, TIMEOUT)
        end = time.monotonic() + seconds
        callers = [(key, random.Random(100 * seed + n)) for n in range(CALLERS) for key in PARENTS]
        await asyncio.gather(*(_caller(limiter, key, chance, end, ledger) for key, chance in callers))
    return ledger  # the end of the block has written what was left


async def _caller(limiter: RateLimiter, key: str, chance: random.Random, end: float, ledger: Ledger) -> None:
    while time.monotonic() < end:
        amounts = {"rpm": chance.randint(1, 4), "tpm": chance.choice((1, 100, 900))}
        try:
            async with limiter.acquire(key, RESOURCE, amounts):
                pass
        except RateLimitExceeded as refusal:
            ledger[key,] += 1
            short = {(each.entity_id, each.limit_name) for each in refusal.violations}
            ledger.update((key, *each) for each in short)
            await asyncio.sleep(PAUSE_SECONDS)
