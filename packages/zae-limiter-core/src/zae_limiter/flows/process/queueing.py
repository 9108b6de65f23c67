"""Put waiters into their queues, and give back for many requests at once."""

from collections.abc import Iterable, Sequence

from ..bucket_queue import BucketRequest, Waiter, together
from ..steps import Enqueue, Flow, Parallel, Settled


def enqueue_and_wait(waiters: Sequence[Waiter]) -> Flow[None]:
    """Put the waiters into their queues, and wait until all are settled. What this process holds of a bucket comes
    first.
    """
    entering: list[Waiter] = []
    acquires: list[Waiter] = []
    for each in waiters:
        if each.queue.prefetch is None or not each.is_served_by_prefetch():
            entering.append(each)
        elif each.droppable:
            acquires.append(each)
    if acquires:
        yield Settled(acquires)
    if entering:
        first, *others = entering
        yield Parallel(tuple(map(Enqueue, entering))) if others else Enqueue(first)


def give_back_all(requests: Iterable[BucketRequest]) -> Flow[None]:
    """Give back the tokens that the admitted requests took, with one request per shard.

    The give-back also takes their acquires out of ``ev``, the number of admitted ones: these calls did not take place.
    """
    yield from enqueue_and_wait(
        together(request.give_back() for request in requests if request.admitted and request.takes)
    )
