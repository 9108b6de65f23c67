"""The other shards of a bucket, as this process last saw them. ``acquire.shard_selection`` chooses which one to ask."""

from collections.abc import Mapping, Sequence

from ...operations.values import NOTHING
from ...rules.sharding import calculate_balance, unseen_parts
from ...values.resolution import Config
from ..bucket_queue import BucketRequest
from ..process.namespace_state import CachedBucket, NamespaceState


def headroom_elsewhere(
    namespace_state: NamespaceState,
    cached: CachedBucket,
    config: Config | None,
    requests: Sequence[BucketRequest],
    now_ms: int,
) -> Mapping[str, int]:
    """Return what all other shards have of each shadow limit that is asked for, which takes it from any shard without a
    second write: debts included, in millitokens; an unseen shard counts as full.
    """
    names = {name for request in requests for name in request.shadow_amounts}
    if not names or config is None:
        return NOTHING
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
        for limit in config.limits
        if limit.name in names
    }
