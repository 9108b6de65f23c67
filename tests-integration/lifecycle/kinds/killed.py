"""One of three processes on a bucket is killed; the others do not notice."""

import asyncio
import signal
import threading
from contextlib import ExitStack

from zae_limiter import RateLimiter, SyncRateLimiter

from ..callers import Callers, SyncCallers, run_until_terminated
from ..life import Life
from ..place import Place, ready
from ..plans import Plan

MODES = ("async", "sync")
NETWORKS = ("slow", "healthy", "faulty")
TASKS = 10


def supervise(life: Life) -> None:
    with ExitStack() as stack:
        processes = [stack.enter_context(life.process(number)) for number in range(3)]
        life.pause()
        processes[0].kill()
        life.pause(0.1, 0.2)
        for process in processes[1:]:
            process.send(signal.SIGTERM)
        for process in processes[1:]:
            process.wait()


def program(place: Place) -> None:
    run_until_terminated(place, in_tasks, in_threads)


async def in_tasks(place: Place, over: threading.Event) -> None:
    async with RateLimiter(await place.open()) as limiter:
        callers = Callers(place, limiter)
        await callers.one(place.entity_id)
        ready()

        async def go_on(number: int) -> None:
            chance = place.chance("task", number)
            while not over.is_set():
                outcome = await callers.take(place.entity_id, Plan.drawn(chance, healthy=place.healthy))
                await asyncio.sleep(0 if outcome == "kept" else 0.01)

        await asyncio.gather(*(go_on(number) for number in range(TASKS)))


def in_threads(place: Place, over: threading.Event) -> None:
    with SyncRateLimiter(place.open_sync()) as limiter:
        SyncCallers(place, limiter).call_until(over, TASKS)
