"""What a write does for the tokens that this process holds ahead: take more, bring some back, count what was spent.

``hold`` keeps the tokens and says how many; ``commit_run`` sends the write.
"""

from collections.abc import Sequence

from ...values.resolution import Config
from ..bucket_queue import Renewal
from ..hold import Shard
from ..process.namespace_state import CachedBucket
from .batch import Batch
from .write_plans import ConsumeWrite


def draw_ahead(cached: CachedBucket, batch: Batch, plan: ConsumeWrite, config: Config | None) -> Sequence[Renewal]:
    """Add to the batch what its write does for the hold. Return the renewals of a batch that has nothing else and needs
    no write.
    """
    hold = cached.queue.hold
    if hold is None:
        return ()
    renewals = [request for request in batch.carried if isinstance(request, Renewal)]
    alone, now_ms, state = len(renewals) == len(batch.carried), plan.now_ms, plan.state
    if any(not each.takes_block for each in renewals):
        hold.reminded = False
    if config is not None and cached.agrees_with(config) and (renewals or not batch.moves_nothing):
        left = batch.left(plan.headroom, plan.ceilings)
        shard = Shard(state.id.shard, state.shard_count, state.shard_limits, left)
        used = {name: batch.checked.get(name, 0) + batch.unchecked.get(name, 0) for name in batch.limits()}
        renews = not alone or any(each.takes_block for each in renewals)
        draw = hold.draw(config, shard, used, batch.events, now_ms, renew=renews)
        if draw is not None:
            batch.do(draw)
    if batch.draw is not None or not alone:
        return ()
    hold.written(None, state, now_ms)
    return renewals


def drawn(cached: CachedBucket, batch: Batch, now_ms: int) -> None:
    """Keep what the batch took ahead: its write was applied."""
    if cached.queue.hold is not None:
        cached.queue.hold.written(batch.draw, cached.state, now_ms)


def put_back(cached: CachedBucket, batch: Batch) -> None:
    """Leave to the next write what this one was to do, which was not applied."""
    if batch.draw is not None and cached.queue.hold is not None:
        cached.queue.hold.put_back(batch.draw)
