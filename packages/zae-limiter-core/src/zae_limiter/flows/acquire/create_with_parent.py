"""A child and a parent that both have no bucket yet: made in one transaction.

Lives here: that transaction, once for all who wait for it. Never: buckets that exist (commit).
"""

from collections.abc import Sequence
from functools import partial

from ...operations.errors import StoreError, Throttled, TransactionCancelled
from ...operations.values import Item, Put, Transact
from ...schema.items import read_bucket
from ..bucket.batch import weigh
from ..bucket.write_plans import New
from ..process.bucket_queue import Entry, Lane, Outcome, Ticket
from ..process.namespace_state import Scope, Shadow
from ..steps import Flow, Parallel, Queued
from .claims import Side


class Pair(Ticket):
    """The entries of a child and of its parent that belong together."""

    droppable = True

    def __init__(self, lane: Lane, child: Entry, parent: Entry) -> None:
        super().__init__(lane)
        self.child = child
        self.parent = parent

    def fail(self, error: StoreError) -> None:
        """Also both sides: what cut the transaction off does not tell whether it was applied."""
        if self.outcome is None:
            self.child.fail(error)
            self.parent.fail(error)
        super().fail(error)

    def unwind(self) -> Sequence[Entry]:
        return [*self.child.unwind(), *self.parent.unwind()]


def create_pair(scope: Scope, child: Side, parent: Side) -> Flow[None]:
    """Make both buckets, and take from both; where one of them turns out to be there, take from each by itself."""
    lane = child.shadow.pairing.get(parent.shadow.id.pk)
    if lane is None:
        lane = Lane(partial(_create, scope, child.shadow, parent.shadow))
        child.shadow.pairing = {parent.shadow.id.pk: lane}
    pair = Pair(lane, child.enter(), parent.enter())
    yield Queued(pair)
    if pair.child.outcome is None:
        yield Parallel((Queued(pair.child), Queued(pair.parent)))


def _create(scope: Scope, child: Shadow, parent: Shadow, pairs: Sequence[Pair]) -> Flow[None]:
    """The first pair makes the buckets; those that waited with it find them made."""
    if child.view is None and parent.view is None:
        yield from _create_for(scope, child, parent, pairs[0])
    for pair in pairs:
        pair.outcome = Outcome("admitted", None, scope.now())


def _create_for(scope: Scope, child: Shadow, parent: Shadow, pair: Pair) -> Flow[None]:
    now = scope.now()
    puts = [_put(scope, child, pair.child, now), _put(scope, parent, pair.parent, now)]
    writes = tuple(put for put in puts if put is not None)
    if len(writes) < len(puts):
        return
    try:
        yield Transact(writes)
    except TransactionCancelled as cancelled:
        for shadow, reason in zip((child, parent), cancelled.reasons, strict=True):
            if reason.item is not None:
                _learn(shadow, reason.item, now)
    except Throttled:
        return  # not applied; each side decides for itself
    except StoreError as error:
        pair.child.outcome = pair.parent.outcome = Outcome("failed", None, now, error)
    else:
        for shadow, entry, put in zip((child, parent), (pair.child, pair.parent), writes, strict=True):
            entry.outcome = Outcome("admitted", read_bucket(put.item), now)
            _learn(shadow, put.item, now)


def _learn(shadow: Shadow, item: Item, now_ms: int) -> None:
    """What the transaction showed, unless the bucket's own lane has seen a later state, or is about to."""
    if shadow.view is None and not shadow.lane.busy:
        shadow.learn(item, now_ms, own_writes=0)


def _put(scope: Scope, shadow: Shadow, entry: Entry, now_ms: int) -> Put | None:
    """The new bucket; ``None`` where the entry asks for more than it holds."""
    if entry.config is None:
        raise AssertionError("an entry that consumes carries its config")
    frame = New(shadow, now_ms, scope.settings.ttl_multiplier, entry.config)
    load = weigh([entry], frame.room, frame.ceilings)
    return frame.write(load) if load.carried else None
