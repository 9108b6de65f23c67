"""Entries into their queues, and what they took back again.

Lives here: who waits for whom, and one give-back for many. Never: what a queue does with them (commit).
"""

from collections.abc import Iterable, Sequence

from ..steps import Enqueue, Flow, Parallel
from .bucket_queue import BucketQueue, BucketRequest, Waiter


def queue(waiters: Sequence[Waiter]) -> Flow[None]:
    """Have the waiters settled, all at once."""
    if len(waiters) == 1:
        yield Enqueue(waiters[0])
    elif waiters:
        yield Parallel(tuple(Enqueue(waiter) for waiter in waiters))


def give_back_all(requests: Iterable[BucketRequest], *, uncounted: bool) -> Flow[None]:
    """Give back what the requests took, in one write a shard; a request of which nothing stands is passed over.

    What is ``uncounted`` was no acquire at all: it leaves the count of those that were admitted.
    """
    given: dict[tuple[BucketQueue, int], BucketRequest] = {}
    for request in requests:
        if request.admitted and any(request.checked.values()):
            back = request.give_back(events=-request.events if uncounted else 0)
            place = back.queue, back.shards
            given[place] = given[place].merged(back) if place in given else back
    yield from queue(list(given.values()))
