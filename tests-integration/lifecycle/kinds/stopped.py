"""A process is stopped for a while, as on a machine that sleeps, and continued; another process takes meanwhile."""

import asyncio
import signal
import threading
import time
from dataclasses import replace

from zae_limiter import RateLimiter, SyncRateLimiter

from ..callers import Callers, SyncCallers, run_until_terminated
from ..life import Life
from ..place import Place, ready

MODES = ("async", "sync")
NETWORKS = ("slow", "healthy", "faulty")
TASKS = 10
SERVED_SECONDS = 20.0  # on a busy machine


def supervise(life: Life) -> None:
    with life.process() as stopped, life.process(1) as other:
        life.pause()
        stopped.send(signal.SIGSTOP)
        time.sleep(life.stop_seconds)
        stopped.send(signal.SIGCONT)
        life.pause(0.5, 0.6)
        for process in (stopped, other):
            process.send(signal.SIGTERM)
        for process in (stopped, other):
            process.wait()


def program(place: Place) -> None:
    run_until_terminated(place, in_tasks, in_threads)


async def in_tasks(place: Place, over: threading.Event) -> None:
    async with RateLimiter(await place.open()) as limiter:
        callers = Callers(with_timeouts(place), limiter)
        await callers.one(place.entity_id)
        tasks = callers.start(TASKS)
        ready()
        await asyncio.to_thread(over.wait)
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await Callers(place, limiter).still_served(SERVED_SECONDS, why="after it was stopped")


def in_threads(place: Place, over: threading.Event) -> None:
    with SyncRateLimiter(place.open_sync()) as limiter:
        SyncCallers(with_timeouts(place), limiter).call_until(over, TASKS)
        SyncCallers(place, limiter).still_served(SERVED_SECONDS, why="after it was stopped")


def with_timeouts(place: Place) -> Place:
    """The place of callers that may time out, as a call does when its process is stopped; pauses spare the machine."""
    return replace(place, healthy=False, more={**place.more, "stopped": True, "pause": 0.5})
