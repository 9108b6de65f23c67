"""``asyncio.run`` again and again on one repository: it works, or says that it belongs to another loop."""

import asyncio

from zae_limiter import RateLimiter

from ..callers import Callers
from ..life import Life
from ..place import Place, ready

WAYS = ("finished", "tasks cut off", "closed in the last")
WEATHERS = ("fair", "slow", "foul", "hung")
LOOPS = 3
CALLERS = 20
SERVED_SECONDS = 25.0  # of calls one after the other, each of several writes


def attend(life: Life) -> None:
    with life.process() as process:
        life.break_weather()
        process.wait(life.patience + 60)


def program(place: Place) -> None:
    callers = Callers(place, RateLimiter(asyncio.run(place.open())))
    asyncio.run(one_loop(callers, 0))
    ready()
    for number in range(1, LOOPS):
        asyncio.run(one_loop(callers, number))
    if place.way == "closed in the last":
        asyncio.run(callers.limiter.close())


async def one_loop(callers: Callers, number: int) -> None:
    going_on = callers.start(5) if callers.place.way == "tasks cut off" else []
    try:
        async with asyncio.timeout(SERVED_SECONDS):
            await asyncio.gather(*(callers.many(2, 100 * number + caller) for caller in range(CALLERS)))
    except TimeoutError:
        callers.book.wrong(f"{CALLERS} callers are not served in loop {number + 1}")
    callers.book.mark(f"loop {number + 1} ends, {len(going_on)} go on")
