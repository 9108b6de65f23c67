"""``asyncio.run`` again and again on one repository: it works, or says that it belongs to another loop."""

import asyncio

from zae_limiter import RateLimiter

from ..callers import Callers
from ..life import END_SECONDS, Life
from ..place import Place, ready

MODES = ("finished", "tasks cut off", "closed in the last")
NETWORKS = ("healthy", "slow", "faulty", "hung")
LOOPS = 3
CALLERS = 20
SERVED_SECONDS = 25.0  # of calls one after the other, each of several writes


def supervise(life: Life) -> None:
    with life.process() as process:
        life.apply_network()
        process.wait(END_SECONDS + 60)


def program(place: Place) -> None:
    callers = Callers(place, RateLimiter(asyncio.run(place.open())))
    asyncio.run(one_loop(callers, 0))
    ready()
    for number in range(1, LOOPS):
        asyncio.run(one_loop(callers, number))
    if place.mode == "closed in the last":
        asyncio.run(callers.limiter.close())


async def one_loop(callers: Callers, number: int) -> None:
    going_on = callers.start(5) if callers.place.mode == "tasks cut off" else []
    try:
        async with asyncio.timeout(SERVED_SECONDS):
            await asyncio.gather(*(callers.many(2, 100 * number + caller) for caller in range(CALLERS)))
    except TimeoutError:
        callers.ledger.violation(f"{CALLERS} callers are not served in loop {number + 1}")
    callers.ledger.mark(f"loop {number + 1} ends, {len(going_on)} go on")
