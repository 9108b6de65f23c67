"""A signal handler raises in the main thread's blocking call, while other threads call."""

import threading

from zae_limiter import SyncRateLimiter

from ..callers import SyncCallers
from ..life import Life
from ..place import Place, ready
from ..plans import Plan
from .signalled import NOISE, RAISES, interrupt_again_and_again

__all__ = ["MODES", "NETWORKS", "NOISE", "program", "supervise"]

MODES = tuple(RAISES)
NETWORKS = ("slow", "healthy", "faulty")
THREADS = (1, 4, 16)


def supervise(life: Life) -> None:
    with life.process() as process:
        process.wait()


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
    """No interruption of the main thread reaches another thread."""
    chance = callers.place.chance("thread", number)
    while not over.is_set():
        try:
            callers.take(callers.place.entity_id, Plan.drawn(chance, healthy=callers.place.healthy))
        except BaseException as error:
            callers.ledger.violation(f"a thread that nobody interrupted got {error!r}")
            raise
        over.wait(0.002)
