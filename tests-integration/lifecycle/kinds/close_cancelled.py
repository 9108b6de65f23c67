"""``close()`` is cancelled while tasks acquire: none of them is, and the next ``close()`` ends them all."""

import asyncio
from contextlib import suppress

from zae_limiter import RateLimiter

from ..callers import Callers
from ..life import Life
from ..place import Place, ready

MODES = ("at once", "soon", "time-out")
NETWORKS = ("slow", "healthy", "faulty", "hung")
TASKS = 20
ENDS_SECONDS = 20.0  # the budget of a call, on a busy machine


def supervise(life: Life) -> None:
    with life.process() as process:
        life.apply_network()
        process.wait()


def program(place: Place) -> None:
    asyncio.run(live(place))


async def live(place: Place) -> None:
    limiter = RateLimiter(await place.open())
    callers = Callers(place, limiter)
    await callers.one(place.entity_id)
    tasks = callers.start(TASKS)
    ready()
    await asyncio.sleep(0.2)
    await close_and_cancel(place, limiter)
    await asyncio.sleep(0.2)
    if cut := [task for task in tasks if task.done() and task.cancelled()]:
        callers.ledger.violation(f"{len(cut)} callers were cancelled that nobody cancelled")
    await asyncio.wait_for(limiter.close(), ENDS_SECONDS)
    _, going_on = await asyncio.wait(tasks, timeout=ENDS_SECONDS)
    if going_on:
        callers.ledger.violation(f"{len(going_on)} callers got no answer, though it is closed after all")


async def close_and_cancel(place: Place, limiter: RateLimiter) -> None:
    if place.mode == "time-out":
        with suppress(TimeoutError):
            await asyncio.wait_for(limiter.close(), 0.01)
        return
    closing = asyncio.create_task(limiter.close())
    await asyncio.sleep(0 if place.mode == "at once" else 0.005)
    closing.cancel()
    await asyncio.wait([closing])
