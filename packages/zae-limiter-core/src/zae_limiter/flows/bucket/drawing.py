"""What a write does for the tokens that this process holds ahead: take more, bring some back, count what was spent.

``hold`` keeps the tokens and says how many; ``commit_run`` sends the write.
"""

from collections.abc import Mapping, Sequence

from ...operations.errors import ConditionFailed, NotApplied, StoreError
from ...operations.values import NOTHING, sums
from ...values.resolution import Config
from ..blocks import Shard, Source
from ..bucket_queue import Renewal
from ..hold import Purpose
from ..process.namespace_state import CachedBucket, NamespaceState
from .batch import Batch
from .write_plans import ConsumeWrite, WritePlan


def headroom_and_held(cached: CachedBucket, plan: WritePlan) -> Mapping[str, int]:
    """Return what the bucket has under the plan, and what this process holds of it, if ``draw_ahead`` can pay with
    that.
    """
    hold = cached.queue.hold
    config = plan.config
    if hold is None or not isinstance(plan, ConsumeWrite) or config is None or not cached.agrees_with(config):
        return plan.headroom
    held = hold.left() if hold.goes_by(config) else NOTHING
    return {name: free + held.get(name, 0) for name, free in plan.headroom.items()} if held else plan.headroom


def draw_ahead(cached: CachedBucket, batch: Batch, plan: ConsumeWrite, config: Config | None) -> Sequence[Renewal]:
    """Add to the batch what its write does for the hold. Return the renewals of a batch that has nothing else and needs
    no write.
    """
    hold = cached.queue.hold
    if hold is None:
        return ()
    renewals = [request for request in batch.carried if isinstance(request, Renewal)]
    alone, now_ms, state = len(renewals) == len(batch.carried), plan.now_ms, plan.state
    purposes = {each.purpose for each in renewals}
    if "count" in purposes:
        hold.reminded = False
    if not renewals and batch.moves_nothing:
        return ()
    draw = None
    if config is not None and cached.agrees_with(config):  # under other limits nothing is held
        left = batch.left(plan.headroom, plan.ceilings)
        for name in left:  # less the corrections: what shadow limits tried is gone already
            left[name] -= batch.unchecked.get(name, 0) - batch.tried.get(name, 0)
        shard = Shard(Source(state.id.shard, state.anchor_ms), state.shard_limits, left)
        used = sums(batch.checked, batch.unchecked)
        purpose: Purpose = "end" if "end" in purposes else "count" if alone and purposes == {"count"} else "renew"
        draw = hold.draw(config, shard, used, batch.events, now_ms, purpose)
    else:
        draw = hold.count(state.shard_limits, now_ms)
    if draw is not None:
        batch.do(draw)
    return () if batch.draw is not None or not alone else renewals


def drawn(cached: CachedBucket, batch: Batch) -> None:
    """Keep what the batch took ahead, and the slots that it renewed: its write was applied."""
    for request in batch.carried:
        if request.slots is not None:
            request.slots.written(cached.state)
    if cached.queue.hold is not None:
        cached.queue.hold.written(batch.draw)


def put_back(namespace_state: NamespaceState, cached: CachedBucket, batch: Batch, error: StoreError) -> None:
    """Leave to the next write what this one was to count, if the error says that it was not applied."""
    if not isinstance(error, ConditionFailed | NotApplied):
        for request in batch.carried:
            if request.slots is not None:
                request.slots.doubt()
        return
    if batch.refused:
        namespace_state.refusals.put_back(cached, batch.refused)
    if batch.draw is not None and cached.queue.hold is not None:
        cached.queue.hold.put_back(batch.draw)
