"""Every task of the loop is cancelled, ours or not, as frameworks do when they shut down; the process goes on."""

import asyncio
from collections.abc import Sequence

from zae_limiter import RateLimiter

from ..callers import Callers
from ..life import Life
from ..place import Place, ready

MODES = ("all", "some", "twice")
NETWORKS = ("slow", "healthy", "faulty")
GIVES_BACK = ("some",)  # what the library itself runs goes on
ROUNDS = 4
SERVED_SECONDS = 20.0  # the budget of a call, on a busy machine


def supervise(life: Life) -> None:
    with life.process() as process:
        process.wait()


def program(place: Place) -> None:
    asyncio.run(live(place))


async def live(place: Place) -> None:
    async with RateLimiter(await place.open()) as limiter:
        callers = Callers(place, limiter)
        ready()
        for _ in range(ROUNDS):
            await cancel(place, callers)
            if place.healthy:
                await callers.still_served(SERVED_SECONDS, why="after all were cancelled")


async def cancel(place: Place, callers: Callers) -> None:
    mine = callers.start(place.chance().choice((1, 5, 50)))
    await asyncio.sleep(place.chance(len(mine)).uniform(0.02, 0.2))
    for _ in range(2 if place.mode == "twice" else 1):
        chosen = mine[::2] if place.mode == "some" else others()
        for task in chosen:
            task.cancel()
        await asyncio.sleep(0)
    await ended(callers, [task for task in mine if task in chosen])
    for task in mine:
        task.cancel()
    await ended(callers, mine)


def others() -> list[asyncio.Task[object]]:
    return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


async def ended(callers: Callers, tasks: Sequence[asyncio.Task[str]]) -> None:
    """Callers that were cancelled end."""
    if tasks:
        _, pending = await asyncio.wait(tasks, timeout=SERVED_SECONDS)
        if pending:
            callers.ledger.violation(f"{len(pending)} of {len(tasks)} cancelled callers did not end")
