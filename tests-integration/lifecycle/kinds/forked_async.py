"""A process opens in one loop, forks outside of it or in it, and each process runs a loop of its own."""

import asyncio
import os

from zae_limiter import RateLimiter

from ..callers import Callers
from ..life import Life
from ..place import Place, in_child, ready

MODES = ("between loops", "in the loop", "in the loop, busy")
NETWORKS = ("healthy", "slow", "faulty")
CHILDREN = 3
CALLS = 10
TASKS = 5
SERVED_SECONDS = 20.0


def supervise(life: Life) -> None:
    with life.process() as process:
        process.wait()


def program(place: Place) -> None:
    if place.mode == "between loops":
        between_loops(place)
    else:
        asyncio.run(in_loop(place))


def between_loops(place: Place) -> None:
    """As a server that loads the application, opens, and forks its workers."""
    callers = asyncio.run(opened(place))
    ready()
    children = [fork(callers) for _ in range(CHILDREN)]
    asyncio.run(work(callers))
    reap(callers, children)


async def opened(place: Place) -> Callers:
    callers = Callers(place, RateLimiter(await place.open()))
    await callers.many(3)
    return callers


async def in_loop(place: Place) -> None:
    callers = await opened(place)
    ready()
    busy = [asyncio.create_task(callers.many(30, number)) for number in range(TASKS)] if "busy" in place.mode else []
    await asyncio.sleep(0.02)
    children = [fork(callers) for _ in range(CHILDREN)]
    await asyncio.gather(*busy, *(callers.many(CALLS, number) for number in range(TASKS)))
    await callers.limiter.close()
    await asyncio.to_thread(reap, callers, children)


def fork(callers: Callers) -> int:
    """The child leaves the loop that it was forked in, and runs one of its own."""

    def child() -> None:
        asyncio.events._set_running_loop(None)
        asyncio.set_event_loop(None)
        asyncio.run(work(callers))

    return in_child(child)


async def work(callers: Callers) -> None:
    try:
        async with asyncio.timeout(SERVED_SECONDS):
            await asyncio.gather(*(callers.many(CALLS, os.getpid() + number) for number in range(TASKS)))
            await callers.limiter.close()
    except TimeoutError:
        callers.ledger.violation("a process that forked or was forked is not served")


def reap(callers: Callers, children: list[int]) -> None:
    for child in children:
        if os.waitpid(child, 0)[1]:
            callers.ledger.violation("a child failed")
