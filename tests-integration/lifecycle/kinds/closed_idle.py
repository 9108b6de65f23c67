"""``close()`` when nothing is under way returns at once; a second time, too."""

import asyncio
import time

from zae_limiter import RateLimiter, SyncRateLimiter

from ..callers import Callers, SyncCallers
from ..life import Life
from ..place import Place, ready

MODES = ("async", "sync", "async unused", "sync unused")
NETWORKS = ("healthy", "hung")
AT_ONCE_SECONDS = 1.5  # on a busy machine; an answer is waited for for two seconds


def supervise(life: Life) -> None:
    with life.process() as process:
        life.apply_network()
        process.wait()


def program(place: Place) -> None:
    if place.mode.startswith("sync"):
        in_thread(place)
    else:
        asyncio.run(in_task(place))


async def in_task(place: Place) -> None:
    limiter = RateLimiter(await place.open())
    callers = Callers(place, limiter)
    if "unused" not in place.mode:
        await callers.many(5)
    ready()
    await asyncio.sleep(0.1)
    for _ in range(2):
        begun = time.monotonic()
        await limiter.close()
        at_once(callers, begun)


def in_thread(place: Place) -> None:
    limiter = SyncRateLimiter(place.open_sync())
    callers = SyncCallers(place, limiter)
    if "unused" not in place.mode:
        callers.many(5)
    ready()
    time.sleep(0.1)
    for _ in range(2):
        begun = time.monotonic()
        limiter.close()
        at_once(callers, begun)


def at_once(callers: Callers | SyncCallers, begun: float) -> None:
    if (took := time.monotonic() - begun) > AT_ONCE_SECONDS:
        callers.ledger.violation(f"an idle close() took {took:.3f} s")
