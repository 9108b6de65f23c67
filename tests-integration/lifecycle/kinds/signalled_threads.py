"""A signal handler raises in the main thread's blocking call, while other threads call."""

import threading

from zae_limiter import SyncRateLimiter

from ..callers import SyncCallers
from ..life import Life
from ..place import Place, ready
from ..plans import Plan
from .signalled import NOISE, RAISES, interrupt_again_and_again

__all__ = ["NOISE", "WAYS", "WEATHERS", "attend", "program"]

WAYS = tuple(RAISES)
WEATHERS = ("slow", "fair", "foul")
THREADS = (1, 4, 16)


def attend(life: Life) -> None:
    with life.process() as process:
        process.wait(life.patience + 10)


def program(place: Place) -> None:
    callers = SyncCallers(place, SyncRateLimiter(place.open_sync()))
    callers.one(place.entity_id)
    ready()
    over = threading.Event()
    count = place.chance().choice(THREADS)
    threads = [threading.Thread(target=go_on, args=(callers, number, over)) for number in range(count)]
    for thread in threads:
        thread.start()
    try:
        interrupt_again_and_again(callers)
    finally:
        over.set()
    for thread in threads:
        thread.join()
    callers.limiter.close()


def go_on(callers: SyncCallers, number: int, over: threading.Event) -> None:
    """Nothing of what the main thread is told reaches another."""
    chance = callers.place.chance("thread", number)
    while not over.is_set():
        try:
            callers.take(callers.place.entity_id, Plan.drawn(chance, fair=callers.place.fair))
        except BaseException as error:
            callers.book.wrong(f"a thread that nobody interrupted was told {error!r}")
            raise
        over.wait(0.002)
