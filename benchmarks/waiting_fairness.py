"""What each child gets of a parent for whose tokens the crowds of several children wait, in virtual time.

Lives here: Jain's index over the children, in one process and over several; a child that calls alone beside a crowd.
Never: a crowd of one child (waiting_families).
"""

import asyncio
from collections.abc import Mapping
from typing import NamedTuple

from zae_limiter import Limit, Options, RateLimiter, RateLimitExceeded, Repository
from zae_limiter.engines.memory.table import MemoryTable

from . import virtual
from .report import Row

RATE, SECONDS, REQUEST = 20, 30.0, 0.01  # tokens a second of the parent; of the run, and of a request
MAX_WAIT = 3_600.0
CALLS = 50  # of the child that calls alone
CROWD, AMOUNTS = {"a": 40, "b": 20, "c": 10, "d": 5}, {"a": 8, "b": 4, "c": 2, "d": 1}


class Crowd(NamedTuple):
    """The callers of one child in one process, and the tokens that each of their calls asks for."""

    process: int
    child: str
    callers: int
    amount: int = 1


def measure() -> list[Row]:
    """The rows of each case."""
    one = [Crowd(0, child, callers) for child, callers in CROWD.items()]
    amounts = [Crowd(0, child, callers, AMOUNTS[child]) for child, callers in CROWD.items()]
    four = [each._replace(process=process, callers=each.callers // 5) for process in range(4) for each in one]
    apart = [Crowd(process, child, 20) for process, child in enumerate(CROWD)]
    return [
        *virtual.run(_rows("crowds of 40, 20, 10 and 5", one, least=0.98)),
        *virtual.run(_rows("the same, calls of 8, 4, 2 and 1 tokens", amounts, least=0.98)),
        *virtual.run(_rows("crowds of 8, 4, 2 and 1 in each of 4 processes", four, least=0.95)),
        *virtual.run(_rows("4 crowds of 20, each in a process of its own", apart, least=0.95)),
        *virtual.run(_polite()),
    ]


async def _rows(who: str, crowds: list[Crowd], *, least: float) -> list[Row]:
    """How even the children's shares are while all of them want more, and whether anything is left."""
    limiters = await _below_one_parent(1 + max(crowd.process for crowd in crowds))
    got = dict.fromkeys(CROWD, 0)
    end = asyncio.get_running_loop().time() + SECONDS

    async def caller(crowd: Crowd) -> None:
        while True:
            async with limiters[crowd.process].acquire(crowd.child, "r", {"t": crowd.amount}, max_wait=MAX_WAIT):
                if asyncio.get_running_loop().time() < end:
                    got[crowd.child] += crowd.amount

    tasks = [asyncio.ensure_future(caller(crowd)) for crowd in crowds for _ in range(crowd.callers)]
    await asyncio.wait(tasks, timeout=SECONDS)
    await _end(tasks)
    total = sum(got.values())
    return [
        Row(f"{who}: Jain's index of what 4 children got", jain(got), at_least=least),
        Row(f"{who}: granted of what is due", 100 * total / RATE / SECONDS, "%", at_least=95),
    ]


async def _polite() -> list[Row]:
    """What a child gets that calls five times a second, beside one of which 50 callers wait."""
    [limiter] = await _below_one_parent(1)
    rows = []
    for max_wait in (0.0, 0.3, 2.0):
        tasks = [asyncio.ensure_future(_again_and_again(limiter, "a")) for _ in range(50)]
        await asyncio.sleep(1)
        served = 0
        for _ in range(CALLS):
            try:
                async with limiter.acquire("b", "r", {"t": 1}, max_wait=max_wait):
                    served += 1
            except RateLimitExceeded:
                pass
            await asyncio.sleep(0.2)
        await _end(tasks)
        least = None if not max_wait else 100
        rows.append(
            Row(
                f"beside 50 callers of its sibling, max_wait={max_wait:g}: served calls",
                100 * served / CALLS,
                "%",
                at_least=least,
            )
        )
    return rows


async def _again_and_again(limiter: RateLimiter, child: str) -> None:
    while True:
        async with limiter.acquire(child, "r", {"t": 1}, max_wait=MAX_WAIT):
            pass


async def _end(tasks: list["asyncio.Task[None]"]) -> None:
    for task in tasks:
        task.cancel()
    for result in await asyncio.gather(*tasks, return_exceptions=True):
        if not isinstance(result, asyncio.CancelledError):
            raise RuntimeError(f"a caller ended: {result!r}")
    await asyncio.sleep(1)  # what they took goes back


async def _below_one_parent(processes: int) -> list[RateLimiter]:
    """Processes of one table, with children that have more tokens than their parent, whose bucket is empty."""
    table, options = MemoryTable(), Options(clock=virtual.VirtualClock())
    limiters = [RateLimiter(await Repository.over(virtual.Distant(table, REQUEST), options)) for _ in range(processes)]
    repository = limiters[0].repository
    await repository.create_entity("parent")
    await repository.set_limits("parent", [Limit.per_second("t", RATE)], "r")
    await repository.set_resource_defaults("r", [Limit.per_second("t", 100 * RATE)])
    for child in CROWD:
        await repository.create_entity(child, parent_id="parent", cascade=True)
    async with limiters[0].acquire("parent", "r", {"t": RATE}):
        pass
    return limiters


def jain(got: Mapping[str, float]) -> float:
    """Jain's index: 1 if all got the same, one divided by their number if one got everything."""
    shares = got.values()
    return sum(shares) ** 2 / (len(shares) * sum(share**2 for share in shares) or 1)
