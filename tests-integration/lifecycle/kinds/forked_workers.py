"""A master opens, acquires and forks workers, as a preloading server does; it replaces one that is killed."""

import os
import signal
import threading

from zae_limiter import SyncRateLimiter

from ..callers import SyncCallers
from ..life import Life
from ..place import Place, in_child, ready

MODES = ("single", "threads", "master takes, too")
NETWORKS = ("healthy", "slow", "faulty")
WORKERS = 3
CALLS = 15


def supervise(life: Life) -> None:
    with life.process() as process:
        process.wait()


def program(place: Place) -> None:
    callers = SyncCallers(place, SyncRateLimiter(place.open_sync()))
    callers.many(3)
    ready()
    workers = [in_child(lambda: work(callers)) for _ in range(WORKERS)]
    if "master" in place.mode:
        callers.many(CALLS)
    os.kill(workers[0], signal.SIGKILL)
    os.waitpid(workers.pop(0), 0)
    workers.append(in_child(lambda: work(callers)))
    for worker in workers:
        if os.waitpid(worker, 0)[1]:
            callers.ledger.violation("a worker failed")
    callers.many(3)


def work(callers: SyncCallers) -> None:
    if callers.place.mode != "threads":
        callers.many(CALLS, os.getpid())
        return
    threads = [threading.Thread(target=callers.many, args=(CALLS, number)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
