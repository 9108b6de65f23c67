"""Create the buckets of a path in one transaction, if none of them exists.

The problem: created one after the other, they cost a round trip each, and a refusal by the last one has to be given
back to all before it. The choice: one transaction for all, which other callers of the same path share. The price is two
write units for each item. If one of them exists, the transaction does nothing, and each bucket is asked as ever.
"""

from collections.abc import Sequence
from functools import partial

from ...operations.errors import StoreError, Throttled, TransactionCancelled
from ...operations.values import NOTHING, Item, Put, Transact
from ...schema.items import read_bucket
from ..bucket.batch import Batch, fit_batch
from ..bucket.write_plans import WritePlan
from ..bucket_queue import BucketQueue, BucketRequest, Outcome, Waiter
from ..process.namespace_state import CachedBucket, NamespaceState
from ..retry import with_retries
from ..steps import Enqueue, Flow, Parallel, call
from .claims import Claim


class PathRequest(Waiter):
    """The requests of one acquire to all buckets of its path, for one transaction."""

    droppable = True

    def __init__(self, queue: BucketQueue, requests: Sequence[BucketRequest]) -> None:
        super().__init__(queue)
        self.requests = requests

    def fail(self, error: StoreError) -> None:
        """Settle all requests as failed, too: the transaction may have been applied."""
        if self.outcome is None:
            for request in self.requests:
                request.fail(error)
        super().fail(error)

    def unwind(self) -> Sequence[BucketRequest]:
        return [back for request in self.requests for back in request.unwind()]


def create_path(namespace_state: NamespaceState, claims: Sequence[Claim]) -> Flow[None]:
    """Create the buckets of all claims, and take from all. If one of them exists, take from each separately."""
    first, buckets = claims[0].cached, [claim.cached for claim in claims]
    above = tuple(each.id.pk for each in buckets[1:])
    queue = first.creating.get(above)
    if queue is None:
        queue = BucketQueue(partial(_create, namespace_state, buckets))
        first.creating = {above: queue}
    request = PathRequest(queue, [claim.enter() for claim in claims])
    yield Enqueue(request)
    if unsettled := [each for each in request.requests if each.outcome is None]:
        for each in unsettled:
            each.queue.undecided.add(each)
        yield Parallel(tuple(map(Enqueue, unsettled)))


def _create(
    namespace_state: NamespaceState, buckets: Sequence[CachedBucket], waiting: Sequence[PathRequest]
) -> Flow[None]:
    """Create the buckets for the first request. The others find them."""
    if all(cached.state is None for cached in buckets):
        yield from _create_for(namespace_state, buckets, waiting[0].requests)
    for each in waiting:
        each.outcome = Outcome("admitted", None, namespace_state.now())


def _create_for(
    namespace_state: NamespaceState, buckets: Sequence[CachedBucket], requests: Sequence[BucketRequest]
) -> Flow[None]:
    now = namespace_state.now()
    puts = [_put(namespace_state, cached, request, now) for cached, request in zip(buckets, requests, strict=True)]
    writes = tuple(put for put, batch in puts if batch.carried)
    if len(writes) < len(puts):
        return
    try:
        yield from _put_all(namespace_state, writes, now)
    except TransactionCancelled as cancelled:
        for cached, reason in zip(buckets, cancelled.reasons, strict=True):
            if reason.item is not None:
                _learn(cached, reason.item, now)
    except StoreError as error:
        if isinstance(error, Throttled) and error.may_repeat():
            return  # not applied; each claim decides for itself
        for request in requests:
            request.outcome = Outcome("failed", None, now, error)
    else:
        for cached, request, (put, batch) in zip(buckets, requests, puts, strict=True):
            short = batch.shadow_short.get(request, NOTHING)
            request.outcome = Outcome("admitted", read_bucket(put.item), now, shadow_short=short)
            _learn(cached, put.item, now)


def _put_all(namespace_state: NamespaceState, puts: Sequence[Put], now_ms: int) -> Flow[None]:
    """Put the items in one transaction, which a request token makes safe to repeat."""
    tokens = namespace_state.write_tokens
    if tokens is None:
        return (yield from call(Transact(tuple(puts))))
    return (yield from with_retries(Transact(tuple(puts), tokens.request_token(now_ms))))


def _learn(cached: CachedBucket, item: Item, now_ms: int) -> None:
    """Store the state that the transaction showed, unless the bucket's queue is at work or has seen a later one."""
    if cached.state is None and not cached.queue.busy:
        cached.learn(item, now_ms, own_writes=0)


def _put(
    namespace_state: NamespaceState, cached: CachedBucket, request: BucketRequest, now_ms: int
) -> tuple[Put, Batch]:
    """Return the put of a new bucket, and its batch. The batch is empty if the request asks for more than the bucket
    holds.
    """
    if request.config is None:
        raise AssertionError("a request that consumes carries its config")
    config = request.config.at(now_ms)  # a schedule may have changed values since the claim was made
    plan = WritePlan(cached, None, now_ms, namespace_state.settings.ttl_multiplier, config)
    batch = fit_batch([request], plan.headroom, plan.ceilings)
    put = plan.write(batch)
    assert isinstance(put, Put), "there is no bucket yet"
    return put, batch
