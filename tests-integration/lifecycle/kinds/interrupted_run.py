"""Ctrl-C while many tasks acquire under ``asyncio.run``; or while one thread does."""

import asyncio
import signal

from zae_limiter import RateLimiter, SyncRateLimiter

from ..callers import Callers, SyncCallers
from ..life import Life
from ..place import Place, ready

WAYS = ("entered", "bare", "threads")
WEATHERS = ("slow", "fair", "foul", "hung", "trickling", "refusing")
TASKS = (1, 5, 50)


def attend(life: Life) -> None:
    with life.process() as process:
        life.pause()
        life.break_weather()
        life.pause(0, 0.2)
        process.send(signal.SIGINT)
        process.wait()


def program(place: Place) -> None:
    try:
        if place.way == "threads":
            in_thread(place)
        else:
            asyncio.run(in_tasks(place))
    except KeyboardInterrupt:
        place.book().mark("interrupted")


async def in_tasks(place: Place) -> None:
    limiter = RateLimiter(await place.open())
    callers = Callers(place, limiter)
    await callers.one(place.entity_id)
    tasks = callers.start(place.chance().choice(TASKS))
    ready()
    if place.way == "entered":
        async with limiter:
            await asyncio.gather(*tasks)
    await asyncio.gather(*tasks)


def in_thread(place: Place) -> None:
    with SyncRateLimiter(place.open_sync()) as limiter:
        callers = SyncCallers(place, limiter)
        callers.one(place.entity_id)
        ready()
        callers.go_on(0)
