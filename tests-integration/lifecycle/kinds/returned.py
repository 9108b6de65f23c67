"""The main function returns while tasks or threads still acquire."""

import asyncio
import threading

from zae_limiter import RateLimiter, SyncRateLimiter

from ..callers import Callers, SyncCallers
from ..life import Life
from ..place import Place, ready

MODES = ("entered", "bare", "task group", "daemon threads")
NETWORKS = ("slow", "healthy", "faulty", "hung", "trickling")
TASKS = (1, 5, 50)
BEFORE_SECONDS = 0.3


def supervise(life: Life) -> None:
    with life.process() as process:
        life.apply_network()
        process.wait()


def program(place: Place) -> None:
    if place.mode == "daemon threads":
        in_threads(place)
    else:
        asyncio.run(in_tasks(place))


async def in_tasks(place: Place) -> None:
    limiter = RateLimiter(await place.open())
    callers = Callers(place, limiter)
    await callers.one(place.entity_id)
    if place.mode == "task group":
        await in_group(place, callers)
        return
    if place.mode == "entered":
        await limiter.__aenter__()
    tasks = callers.start(place.chance().choice(TASKS))
    ready()
    await asyncio.sleep(BEFORE_SECONDS)
    if place.mode == "entered":
        await limiter.__aexit__(None, None, None)
    assert tasks, "they are held until here"


async def in_group(place: Place, callers: Callers) -> None:
    """A time-out cancels a group of tasks, in whatever they are."""
    ready()
    try:
        async with asyncio.timeout(BEFORE_SECONDS), callers.limiter, asyncio.TaskGroup() as group:
            for number in range(place.chance().choice(TASKS)):
                group.create_task(callers.go_on(number))
    except TimeoutError:
        pass


def in_threads(place: Place) -> None:
    callers = SyncCallers(place, SyncRateLimiter(place.open_sync()))
    callers.one(place.entity_id)
    for number in range(10):
        threading.Thread(target=callers.go_on, args=(number,), daemon=True).start()
    ready()
    threading.Event().wait(BEFORE_SECONDS)
