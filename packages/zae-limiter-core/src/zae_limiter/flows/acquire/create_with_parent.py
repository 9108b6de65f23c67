"""A child and a parent that both have no bucket yet: made in one transaction.

Lives here: that transaction, once for all who wait for it. Never: buckets that exist (commit).
"""

from collections.abc import Sequence
from functools import partial

from ...operations.errors import StoreError, Throttled, TransactionCancelled
from ...operations.values import Item, Put, Transact
from ...schema.items import read_bucket
from ..bucket.batch import fit_batch
from ..bucket.write_plans import CreateWrite
from ..process.bucket_queue import BucketQueue, BucketRequest, Outcome, Waiter
from ..process.namespace_state import CachedBucket, NamespaceState
from ..steps import Enqueue, Flow, Parallel, call
from .claims import Claim


class PairedRequest(Waiter):
    """The requests of a child and of its parent that belong together."""

    droppable = True

    def __init__(self, queue: BucketQueue, child: BucketRequest, parent: BucketRequest) -> None:
        super().__init__(queue)
        self.child = child
        self.parent = parent

    def fail(self, error: StoreError) -> None:
        """Also both claims: what cut the transaction off does not tell whether it was applied."""
        if self.outcome is None:
            self.child.fail(error)
            self.parent.fail(error)
        super().fail(error)

    def unwind(self) -> Sequence[BucketRequest]:
        return [*self.child.unwind(), *self.parent.unwind()]


def create_with_parent(namespace_state: NamespaceState, child: Claim, parent: Claim) -> Flow[None]:
    """Make both buckets, and take from both; where one of them turns out to be there, take from each by itself."""
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
    """The first pair makes the buckets; those that waited with it find them made."""
    if child.state is None and parent.state is None:
        yield from _create_for(namespace_state, child, parent, pairs[0])
    for pair in pairs:
        pair.outcome = Outcome("admitted", None, namespace_state.now())


def _create_for(
    namespace_state: NamespaceState, child: CachedBucket, parent: CachedBucket, pair: PairedRequest
) -> Flow[None]:
    now = namespace_state.now()
    puts = [_put(namespace_state, child, pair.child, now), _put(namespace_state, parent, pair.parent, now)]
    writes = tuple(put for put in puts if put is not None)
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
        for cached, request, put in zip((child, parent), (pair.child, pair.parent), writes, strict=True):
            request.outcome = Outcome("admitted", read_bucket(put.item), now)
            _learn(cached, put.item, now)


def _learn(cached: CachedBucket, item: Item, now_ms: int) -> None:
    """What the transaction showed, unless the bucket's own queue has seen a later state, or is about to."""
    if cached.state is None and not cached.queue.busy:
        cached.learn(item, now_ms, own_writes=0)


def _put(namespace_state: NamespaceState, cached: CachedBucket, request: BucketRequest, now_ms: int) -> Put | None:
    """The new bucket; ``None`` where the request asks for more than it holds."""
    if request.config is None:
        raise AssertionError("a request that consumes carries its config")
    plan = CreateWrite(cached, now_ms, namespace_state.settings.ttl_multiplier, request.config)
    load = fit_batch([request], plan.headroom, plan.ceilings)
    return plan.write(load) if load.carried else None
