"""One repository in several threads, each with a loop of its own: it works, or says that it belongs to another."""

import asyncio
import threading

from zae_limiter import RateLimiter

from ..callers import Callers
from ..life import END_SECONDS, Life
from ..place import Place, ready

MODES = ("opened apart", "opened in the first")
NETWORKS = ("healthy", "slow", "faulty")
THREADS = 4
CALLERS = 5
CALLS = 10
SERVED_SECONDS = 20.0


def supervise(life: Life) -> None:
    with life.process() as process:
        process.wait(END_SECONDS + 40)


def program(place: Place) -> None:
    if place.mode == "opened apart":
        callers = Callers(place, RateLimiter(asyncio.run(place.open())))
        ready()
        run_threads(callers, THREADS)
    else:
        asyncio.run(beside(place))


async def beside(place: Place) -> None:
    """The loop that opened goes on while the others run."""
    async with RateLimiter(await place.open()) as limiter:
        callers = Callers(place, limiter)
        await callers.one(place.entity_id)
        ready()
        await asyncio.gather(asyncio.to_thread(run_threads, callers, THREADS - 1), one_loop(callers, THREADS))
        await callers.still_served(SERVED_SECONDS, why="when the other loops have ended")


def run_threads(callers: Callers, count: int) -> None:
    threads = [threading.Thread(target=asyncio.run, args=(one_loop(callers, number),)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


async def one_loop(callers: Callers, number: int) -> None:
    try:
        async with asyncio.timeout(SERVED_SECONDS):
            await asyncio.gather(*(callers.many(CALLS, 100 * number + caller) for caller in range(CALLERS)))
    except TimeoutError:
        callers.ledger.violation(f"{CALLERS} callers are not served in the loop of thread {number}")
