"""What lives here: processes whose callers acquire, adjust, release and fail, and write down what they consumed.
What never does: what the table says of it.
"""

import asyncio
import multiprocessing
import random
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import product

from zae_limiter import Lease, Limit, Options, RateLimiter, Repository
from zae_limiter.engines.dynamodb.aio.store import DynamoDBStore

from .harness import REGION

PROCESSES = 3
PARENTS = tuple(f"team-{number}" for number in range(10))
CHILDREN = tuple(f"key-{number}" for number in range(20))
SINGLES = tuple(f"user-{number}" for number in range(20))
ENTITIES = (*PARENTS, *CHILDREN, *SINGLES)
BUSY = (CHILDREN[0], SINGLES[0])  # half of all acquires are theirs, so that many share a write
RESOURCES = ("gpt-4", "openai/o1", "claude")
EACH = tuple(product(ENTITIES, RESOURCES))  # what a process acquires first; nothing of it fails, so all are consumed
LIMITS = (Limit.per_minute("rpm", 10**9), Limit.per_minute("tpm", 10**12))

TIMEOUT = 30.0  # a store that is slow because the machine is busy is not what these tests are about

Ledger = Counter[tuple[str, str, str]]  # by entity, resource and limit; the limit "events" counts acquires


@dataclass(frozen=True, slots=True)
class Shift:
    """What one process is to do."""

    endpoint_url: str
    table_name: str
    acquires: int
    callers: int
    seed: int


class Failed(Exception):
    """Raised in a lease's body."""


def parent_of(entity: str) -> str | None:
    """Whom an acquire of the entity consumes from, too."""
    return PARENTS[CHILDREN.index(entity) % len(PARENTS)] if entity in CHILDREN else None


async def prepare(endpoint_url: str, table_name: str) -> None:
    """The table, the limits, the entities."""
    async with await _limiter(endpoint_url, table_name) as limiter:
        await limiter.repository.set_system_defaults([*LIMITS])
        for parent in PARENTS:
            await limiter.repository.create_entity(parent)
        for child in CHILDREN:
            await limiter.repository.create_entity(child, parent_id=parent_of(child), cascade=True)


def consume(endpoint_url: str, table_name: str, *, acquires: int, callers: int) -> Ledger:
    """What all processes consumed together, in as many acquires."""
    spawn = multiprocessing.get_context("spawn")
    part = -(-acquires // PROCESSES)
    shifts = [Shift(endpoint_url, table_name, part, callers, seed) for seed in range(PROCESSES)]
    together: Ledger = Counter()
    with ProcessPoolExecutor(PROCESSES, spawn) as pool:
        for ledger in pool.map(_work, shifts):
            together.update(ledger)
    return together


def _work(shift: Shift) -> Ledger:
    return asyncio.run(_open_and_work(shift))


async def _open_and_work(shift: Shift) -> Ledger:
    ledger: Ledger = Counter()
    async with await _limiter(shift.endpoint_url, shift.table_name) as limiter:
        left = iter(range(shift.acquires))
        chances = [random.Random(1000 * shift.seed + number) for number in range(shift.callers)]
        await asyncio.gather(*(_caller(limiter, chance, left, ledger) for chance in chances))
    return ledger


async def _caller(limiter: RateLimiter, chance: random.Random, left: Iterator[int], ledger: Ledger) -> None:
    for number in left:  # which all callers of the process share
        entity, resource = chance.choice(chance.choice((ENTITIES, BUSY))), chance.choice(RESOURCES)
        first = number < len(EACH)
        if first:
            entity, resource = EACH[number]
        taken = Counter({"rpm": 1, "tpm": chance.randint(1, 2000)})
        try:
            async with limiter.acquire(entity, resource, dict(taken)) as lease:
                taken["events"] += 1
                await _use(lease, chance, taken, may_fail=not first)
        except Failed:  # a call that did not take place counts nowhere
            taken = Counter()
        for who in (entity, parent_of(entity)):
            if who is not None:
                ledger.update({(who, resource, name): amount for name, amount in taken.items()})


async def _use(lease: Lease, chance: random.Random, taken: Counter[str], *, may_fail: bool) -> None:
    match chance.randrange(5):
        case 0:
            more = chance.randint(-taken["tpm"], 3000)
            await lease.adjust(tpm=more)
            taken["tpm"] += more
        case 1:
            await lease.release(rpm=1)
            taken["rpm"] -= 1
        case 2:
            await lease.consume(tpm=7)
            taken["tpm"] += 7
            taken["events"] += 1
        case 3 if may_fail:
            raise Failed


async def _limiter(endpoint_url: str, table_name: str) -> RateLimiter:
    store = DynamoDBStore(
        table_name, region=REGION, endpoint_url=endpoint_url, connect_timeout=TIMEOUT, read_timeout=TIMEOUT
    )
    options = Options(create_table=True, acquire_timeout=None, connect_timeout=TIMEOUT, read_timeout=TIMEOUT)
    return RateLimiter(repository=await Repository.over(store, options))
