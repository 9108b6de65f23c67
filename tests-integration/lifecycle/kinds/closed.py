"""``close()`` while many tasks, or threads, acquire: it returns, and they get ``RepositoryClosedError``."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import wait as wait_for

from zae_limiter import RateLimiter, SyncRateLimiter

from ..callers import Callers, SyncCallers
from ..life import Life
from ..place import Place, ready

MODES = ("async", "sync", "async, twice at once")
NETWORKS = ("slow", "healthy", "faulty", "hung", "trickling", "silent")
TASKS = 50
CLOSE_SECONDS = 10.0  # the deadline of a write, on a busy machine
BEFORE_SECONDS = 0.3
AT_ONCE_SECONDS = 1.9  # on a busy machine; an answer is waited for for two seconds


def supervise(life: Life) -> None:
    with life.process() as process:
        life.apply_network()
        process.wait()


def program(place: Place) -> None:
    if place.mode == "sync":
        in_threads(place)
    else:
        asyncio.run(in_tasks(place))


async def in_tasks(place: Place) -> None:
    limiter = RateLimiter(await place.open())
    callers = Callers(place, limiter)
    await callers.one(place.entity_id)
    tasks = callers.start(TASKS)
    ready()
    await asyncio.sleep(BEFORE_SECONDS)
    begun = time.monotonic()
    closes = [asyncio.create_task(limiter.close()) for _ in range(2 if "twice" in place.mode else 1)]
    _, late = await asyncio.wait(closes, timeout=CLOSE_SECONDS)
    callers.ledger.mark(f"closed after {time.monotonic() - begun:.3f} s")
    if late:
        callers.ledger.violation(f"close() has not returned after {CLOSE_SECONDS} s")
    _, going_on = await asyncio.wait(tasks, timeout=CLOSE_SECONDS)
    if going_on:
        callers.ledger.violation(f"{len(going_on)} callers got no answer after close()")
    await refused_as_closed(callers)


async def refused_as_closed(callers: Callers) -> None:
    begun = time.monotonic()
    outcome = await callers.one(callers.place.entity_id)
    if outcome != "closed" or time.monotonic() - begun > AT_ONCE_SECONDS:
        callers.ledger.violation(f"after close(): {outcome} in {time.monotonic() - begun:.3f} s")


def in_threads(place: Place) -> None:
    limiter = SyncRateLimiter(place.open_sync())
    callers = SyncCallers(place, limiter)
    callers.one(place.entity_id)
    with ThreadPoolExecutor(TASKS) as threads:
        going = [threads.submit(callers.go_on, number) for number in range(TASKS // 2)]
        ready()
        time.sleep(BEFORE_SECONDS)
        begun = time.monotonic()
        limiter.close()
        if (took := time.monotonic() - begun) > CLOSE_SECONDS:
            callers.ledger.violation(f"close() took {took:.3f} s")
        if late := wait_for(going, timeout=CLOSE_SECONDS).not_done:
            callers.ledger.violation(f"{len(late)} threads got no answer after close()")
    outcome = callers.one(place.entity_id)
    if outcome != "closed":
        callers.ledger.violation(f"after close(): {outcome}")
