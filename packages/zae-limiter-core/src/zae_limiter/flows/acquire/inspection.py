"""Questions that take nothing: which limits hold, what is available, and when.

Lives here: reads. Never: a write.
"""

from collections.abc import Sequence
from typing import NamedTuple

from ...limits import MILLI, ConfigSource, Limit, OnUnavailable
from ...naming import check_identifier, check_resource
from ...schema.items import BucketState
from ...sharding import Part, calculate_balance, calculate_wait, full_part, unseen_parts
from ...token_bucket import ShardLimit, refill_bucket
from ..bucket.reading import read_whole
from ..bucket.serving import cached_bucket, resolve
from ..process.namespace_state import NamespaceState
from ..steps import Flow
from .acquire import find_claims
from .claims import AcquireRequest, Claim

Resolution = tuple[list[Limit], OnUnavailable | None, ConfigSource | None]


def available(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[dict[str, int]]:
    """Whole tokens in all shards of the entity's own bucket, by limit; negative in debt. Always asks the store."""
    [own, *_] = yield from _look(namespace_state, request)
    now = namespace_state.now()
    limits = own.claim.config.limits
    return {limit.name: calculate_balance(_parts(own.states, limit, now), now) // MILLI for limit in limits}


def time_until_available(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[float]:
    """Seconds until an acquire of the amounts can pass, of the parent too where the entity cascades to one."""
    looks = yield from _look(namespace_state, request)
    now = namespace_state.now()
    return max(_wait(look, name, amount, now) for look in looks for name, amount in look.claim.amounts.items())


def resolve_limits(namespace_state: NamespaceState, entity_id: str, resource: str) -> Flow[Resolution]:
    """The limits that hold, what the system config says for a store that is away, and which level won."""
    check_identifier("entity_id", entity_id)
    cached = cached_bucket(namespace_state, entity_id, check_resource("resource", resource))
    resolved = yield from resolve(namespace_state, cached, bucket_too=False)
    return list(resolved.config.limits), resolved.on_unavailable, resolved.source


class _Look(NamedTuple):
    claim: Claim
    states: Sequence[BucketState]


def _look(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[list[_Look]]:
    """The buckets to ask, as the store has them now. What their queues remember is left alone: they may be at work."""
    claims = yield from find_claims(namespace_state, request)
    found = yield from read_whole([claim.cached.id for claim in claims])
    now = namespace_state.now()
    return [
        _Look(claim, [state.repaired(now) for state in states]) for claim, states in zip(claims, found, strict=True)
    ]


def _wait(look: _Look, name: str, amount: int, now_ms: int) -> float:
    """Seconds until the amount is there, by the limits that an acquire would hold the bucket to."""
    return calculate_wait(_parts(look.states, look.claim.config.by_name[name], now_ms), amount, now_ms)


def _parts(states: Sequence[BucketState], limit: Limit, now_ms: int) -> list[Part]:
    """What each shard has, up to the ceiling that the config sets; full where there is no bucket, or not this limit."""
    shards = [_part(state, limit, now_ms) for state in states]
    counts = {state.id.shard: state.shard_count for state in states}
    shards += unseen_parts(limit, now_ms, counts)
    return shards or [full_part(limit, now_ms)]


def _part(state: BucketState, limit: Limit, now_ms: int) -> Part:
    ruled = ShardLimit(limit, now_ms, state.id.shard, state.shard_count)
    return Part(ruled, min(ruled.ceiling_milli, refill_bucket(*state.part(limit, now_ms), now_ms)))
