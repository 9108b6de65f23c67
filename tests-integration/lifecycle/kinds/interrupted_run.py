"""Ctrl-C while many tasks acquire under ``asyncio.run``; or while one thread does."""

import asyncio
import signal

from zae_limiter import RateLimiter, SyncRateLimiter

from ..callers import Callers, SyncCallers
from ..life import Life
from ..place import Place, ready

MODES = ("entered", "bare", "threads")
NETWORKS = ("slow", "healthy", "faulty", "hung", "trickling", "refusing")
TASKS = (1, 5, 50)


def supervise(life: Life) -> None:
    with life.process() as process:
        life.pause()
        life.apply_network()
        life.pause(0, 0.2)
        process.send(signal.SIGINT)
        process.wait()


def program(place: Place) -> None:
    try:
        if place.mode == "threads":
            in_thread(place)
        else:
            asyncio.run(in_tasks(place))
    except KeyboardInterrupt:
        place.open_ledger().mark("interrupted")


async def in_tasks(place: Place) -> None:
    limiter = RateLimiter(await place.open())
    callers = Callers(place, limiter)
    await callers.one(place.entity_id)
    tasks = callers.start(place.chance().choice(TASKS))
    ready()
    if place.mode == "entered":
        async with limiter:
            await asyncio.gather(*tasks)
    await asyncio.gather(*tasks)


def in_thread(place: Place) -> None:
    with SyncRateLimiter(place.open_sync()) as limiter:
        callers = SyncCallers(place, limiter)
        callers.one(place.entity_id)
        ready()
        callers.go_on(0)
