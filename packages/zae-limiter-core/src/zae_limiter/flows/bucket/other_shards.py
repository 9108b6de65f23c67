"""The other shards of a bucket, as this process last saw them. ``acquire.shard_selection`` chooses which one to ask."""

from collections.abc import Mapping, Sequence

from ...operations.values import NOTHING
from ...rules.sharding import calculate_balance, unseen_parts
from ...values.limits import Limit
from ..process.namespace_state import CachedBucket, NamespaceState


def headroom_elsewhere(
    namespace_state: NamespaceState, cached: CachedBucket, limits: Sequence[Limit], now_ms: int
) -> Mapping[str, int]:
    """Return what all other shards have of each limit, debts included, in millitokens; an unseen shard counts as
    full.
    """
    home = namespace_state.cached_buckets.get((cached.id.entity_id, cached.id.resource, 0))
    if home is None or home.shard_count == 1:
        return NOTHING
    states = namespace_state.repaired_states(home, now_ms)
    counts = {state.id.shard: state.shard_count for state in states}
    others = [state for state in states if state.id.shard != cached.id.shard]
    return {
        limit.name: calculate_balance(
            [state.part(limit, now_ms) for state in others] + unseen_parts(limit, now_ms, counts), now_ms
        )
        for limit in limits
    }
