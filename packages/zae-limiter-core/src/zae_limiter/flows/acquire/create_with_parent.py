"""Create the buckets of a child and its parent in one transaction, if neither exists."""

from collections.abc import Sequence
from functools import partial

from ...operations.errors import StoreError, Throttled, TransactionCancelled
from ...operations.values import NOTHING, Item, Put, Transact
from ...schema.items import read_bucket
from ..bucket.batch import Batch, fit_batch
from ..bucket.write_plans import CreateWrite
from ..bucket_queue import BucketQueue, BucketRequest, Outcome, Waiter
from ..process.namespace_state import CachedBucket, NamespaceState
from ..steps import Enqueue, Flow, Parallel, call
from .claims import Claim


class PairedRequest(Waiter):
    """The requests of a child and of its parent, for one transaction."""

    droppable = True

    def __init__(self, queue: BucketQueue, child: BucketRequest, parent: BucketRequest) -> None:
        super().__init__(queue)
        self.child = child
        self.parent = parent

    def fail(self, error: StoreError) -> None:
        """Settle both requests as failed, too: the transaction may have been applied."""
        if self.outcome is None:
            self.child.fail(error)
            self.parent.fail(error)
        super().fail(error)

    def unwind(self) -> Sequence[BucketRequest]:
        return [*self.child.unwind(), *self.parent.unwind()]


def create_with_parent(namespace_state: NamespaceState, child: Claim, parent: Claim) -> Flow[None]:
    """Create both buckets, and take from both. If one of them exists, take from each separately."""
    queue = child.cached.pairing.get(parent.cached.id.pk)
    if queue is None:
        queue = BucketQueue(partial(_create, namespace_state, child.cached, parent.cached))
        child.cached.pairing = {parent.cached.id.pk: queue}
    pair = PairedRequest(queue, child.enter(), parent.enter())
    yield Enqueue(pair)
    if pair.child.outcome is None:
        yield Parallel((Enqueue(pair.child), Enqueue(pair.parent)))


def _create(
    namespace_state: NamespaceState, child: CachedBucket, parent: CachedBucket, pairs: Sequence[PairedRequest]
) -> Flow[None]:
    """Create the buckets for the first pair of requests. The other pairs find them."""
    if child.state is None and parent.state is None:
        yield from _create_for(namespace_state, child, parent, pairs[0])
    for pair in pairs:
        pair.outcome = Outcome("admitted", None, namespace_state.now())


def _create_for(
    namespace_state: NamespaceState, child: CachedBucket, parent: CachedBucket, pair: PairedRequest
) -> Flow[None]:
    now = namespace_state.now()
    puts = [_put(namespace_state, child, pair.child, now), _put(namespace_state, parent, pair.parent, now)]
    writes = tuple(put for put, batch in puts if batch.carried)
    if len(writes) < len(puts):
        return
    try:
        yield from call(Transact(writes))
    except TransactionCancelled as cancelled:
        for cached, reason in zip((child, parent), cancelled.reasons, strict=True):
            if reason.item is not None:
                _learn(cached, reason.item, now)
    except Throttled:
        return  # not applied; each claim decides for itself
    except StoreError as error:
        pair.child.outcome = pair.parent.outcome = Outcome("failed", None, now, error)
    else:
        for cached, request, (put, batch) in zip((child, parent), (pair.child, pair.parent), puts, strict=True):
            short = batch.shadow_short.get(request, NOTHING)
            request.outcome = Outcome("admitted", read_bucket(put.item), now, shadow_short=short)
            _learn(cached, put.item, now)


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
    plan = CreateWrite(cached, now_ms, namespace_state.settings.ttl_multiplier, request.config)
    batch = fit_batch([request], plan.headroom, plan.ceilings)
    return plan.write(batch), batch
