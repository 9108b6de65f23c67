"""A process forks after it opened, idle or with threads that acquire; parent and children go on."""

import os
import threading

from zae_limiter import SyncRateLimiter

from ..callers import SyncCallers
from ..life import Life
from ..place import Place, in_child, ready
from ..plans import both

MODES = ("idle", "busy", "multiprocessing", "generations")
NETWORKS = ("healthy", "slow", "faulty")
CHILDREN = 3
CALLS = 10


def supervise(life: Life) -> None:
    with life.process() as process:
        process.wait()


def program(place: Place) -> None:
    callers = SyncCallers(place, SyncRateLimiter(place.open_sync()))
    callers.many(3)
    alone(callers, "before")
    ready()
    if place.mode == "busy":
        threads = [threading.Thread(target=callers.many, args=(60, number)) for number in range(8)]
        for thread in threads:
            thread.start()
        live(callers)
        for thread in threads:
            thread.join()
    else:
        live(callers)
    callers.limiter.close()


def live(callers: SyncCallers) -> None:
    """Children and parent take at once; each has a bucket of its own, too."""
    children = [fork(callers, number) for number in range(CHILDREN)]
    work(callers, "parent")
    for child in children:
        if os.waitpid(child, 0)[1]:
            callers.ledger.violation("a child failed")


def fork(callers: SyncCallers, number: int) -> int:
    if callers.place.mode == "multiprocessing":
        from multiprocessing import get_context

        child = get_context("fork").Process(target=work, args=(callers, f"child-{number}"))
        child.start()
        return int(child.pid or 0)
    if callers.place.mode == "generations" and number == 0:
        return in_child(lambda: generation(callers))
    return in_child(lambda: work(callers, f"child-{number}"))


def generation(callers: SyncCallers) -> None:
    work(callers, "child-0")
    grandchild = in_child(lambda: work(callers, "grandchild"))
    os.waitpid(grandchild, 0)


def work(callers: SyncCallers, name: str) -> None:
    callers.many(CALLS, os.getpid())
    for _ in range(3):
        alone(callers, name)
    callers.many(CALLS, os.getpid())


def alone(callers: SyncCallers, name: str) -> None:
    """Take from a bucket with no other caller: an answer for another caller has another balance."""
    limiter, place = callers.limiter, callers.place
    entity_id = f"{place.entity_id}.{name}.{os.getpid()}"
    for number in range(5):
        if not place.healthy:
            callers.one(entity_id)
            continue
        call = callers.ledger.call(entity_id, 1)
        with limiter.acquire(entity_id, place.resource, both(1)) as lease:
            call.admitted()
            available = {(status.entity_id, status.limit_name): status.available for status in lease.statuses}
        if number == 0 and (entity_id, "all") in available:
            first = available[entity_id, "all"]
        elif available.get((entity_id, "all")) != first - number:
            callers.ledger.violation(f"the answer to {name}'s call {number} has {available}; the first had {first}")
