"""The fast path: the commonest write, for one acquire that fits a bucket of one shard.

It is the same update as that of ``ConsumeWrite``, which a test checks, but made in one pass, because every acquire of a
bucket that is not hot pays for it.
"""

from collections.abc import Sequence

from ...operations.values import Conditions, Update
from ...schema.attributes import ACQUIRES, ANCHOR, REFUSED, SHARD_COUNT, TTL
from ...schema.items import AHEAD_MS, ONE_WRITE, WRITES, BucketState
from ..process.bucket_queue import BucketRequest
from ..process.namespace_state import CachedBucket, NamespaceState
from .batch import TTL_SLACK_SECONDS
from .write_plans import DEMAND_FOR_ADD, TTL_GRACE_MS


def fast_path_update(  # noqa: C901, PLR0915 - one pass, because every acquire pays for it
    namespace_state: NamespaceState,
    cached: CachedBucket,
    *,
    state: BucketState | None,
    requests: Sequence[BucketRequest],
    now_ms: int,
) -> Update | None:
    """The update, ``None`` in any other case."""
    request, multiplier = requests[0], namespace_state.settings.ttl_multiplier
    config, checked = request.config, request.checked
    if state is None or config is None or not checked or request.trial or request.blocked or len(requests) > 1:
        return None
    item = state.item
    if item[SHARD_COUNT] > 1 or item[ANCHOR] > now_ms + AHEAD_MS or not cached.agrees_with(config):
        return None
    add, values, least, most = {ACQUIRES: request.events, WRITES: ONE_WRITE}, {}, {}, {}
    for name, tokens, consumed, ceiling, amount, period, at_anchor in state.rows:
        minted = amount * now_ms // period - at_anchor
        full = ceiling - minted
        missing, net = full - item[tokens], checked.get(name)
        if missing < 0:
            missing = 0
        if net:
            if missing or not (cached.uncontended or cached.demand(name) < DEMAND_FOR_ADD):
                least[tokens] = net - minted
                most[tokens] = full
                add[tokens] = -net
            else:
                least[tokens] = full
                values[tokens] = full - net
            add[consumed] = net
            missing += net
        if missing > ceiling:
            return None
    if len(least) < len(checked):  # an amount of 0, or of a limit that the bucket lacks
        return None
    if multiplier and not config.own:
        if TTL not in item:
            return None
        values[TTL] = ttl = max(item[TTL], -(-(now_ms + TTL_GRACE_MS + multiplier * state.fill_ms) // 1000))
        most[TTL] = ttl + TTL_SLACK_SECONDS
    elif TTL in item:
        return None
    if cached in namespace_state.refusals.counts and (refused := namespace_state.refusals.take(cached)):
        add[REFUSED] = refused
    return Update(cached.key, add, values, (), Conditions((), (), {ANCHOR: item[ANCHOR]}, least, most))
