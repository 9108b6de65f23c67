"""A loop is closed with a write in flight, and another one is run on the same repository."""

import asyncio
from contextlib import suppress

from zae_limiter import RateLimiter

from ..callers import Callers
from ..life import Life
from ..place import Place, ready

MODES = ("cut short", "time-out")
NETWORKS = ("slow", "healthy", "hung")
ROUNDS = 4
SERVED_SECONDS = 20.0  # on a busy machine
NOISE = r"(?s).*"  # asyncio complains of tasks in a loop that is thrown away, and is right


def supervise(life: Life) -> None:
    with life.process() as process:
        process.wait()


def program(place: Place) -> None:
    first = asyncio.new_event_loop()
    callers = Callers(place, RateLimiter(first.run_until_complete(place.open())))
    first.run_until_complete(callers.one(place.entity_id))
    ready()
    cut_short(first, callers)
    for number in range(ROUNDS):
        loop = asyncio.new_event_loop()
        loop.run_until_complete(callers.still_served(SERVED_SECONDS, why=f"in loop {number + 2}"))
        cut_short(loop, callers)
    asyncio.run(closed(callers))


def cut_short(loop: asyncio.AbstractEventLoop, callers: Callers) -> None:
    """The loop ends while a call of it is under way; its own task is cancelled, what serves it is not."""
    caller = loop.create_task(callers.go_on(0))
    for wait in (0.05, 0):
        loop.run_until_complete(asyncio.sleep(wait))
        caller.cancel()
    if callers.place.mode == "time-out":
        with suppress(asyncio.CancelledError, TimeoutError):
            loop.run_until_complete(asyncio.wait_for(asyncio.shield(caller), 0.5))
    loop.close()


async def closed(callers: Callers) -> None:
    await callers.limiter.close()
