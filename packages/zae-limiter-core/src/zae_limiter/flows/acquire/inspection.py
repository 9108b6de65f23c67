"""Read without writing: effective limits, available tokens, time to wait."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from ...operations.values import NOTHING
from ...rules.balances import refill_bucket
from ...rules.schedules import wait_through
from ...rules.sharding import Part, calculate_balance, new_part, unseen_parts
from ...schema.items import BucketState
from ...values.limits import MILLI, ConfigSource, Limit, OnUnavailable
from ..bucket.reading import read_whole
from ..bucket.serving import cached_bucket, resolve
from ..bucket.shifting import all_shifted
from ..process.namespace_state import NamespaceState
from ..steps import Flow
from ..validation import validate_bucket
from .acquire import find_claims
from .claims import Claim
from .disabling import is_disabled
from .requests import AcquireRequest

Resolution = tuple[list[Limit], OnUnavailable | None, ConfigSource | None]


def available(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[dict[str, int]]:
    """Return whole tokens in all shards of the entity's own bucket and held by this process, by limit; negative in
    debt. Always reads the store.
    """
    [own, *_] = yield from _read_claims(namespace_state, request)
    now, hold = namespace_state.now(), own.claim.cached.queue.hold
    held = NOTHING if hold is None else hold.left(now)
    balances = {
        limit.name: calculate_balance(parts_of(own.states, limit, now), now) for limit in own.claim.config.limits
    }
    return {name: (balance + held.get(name, 0)) // MILLI for name, balance in balances.items()}


def time_until_available(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[float]:
    """Return the seconds until an acquire of the amounts can pass, on every bucket of its path; infinite if it is
    disabled.
    """
    claims = yield from _read_claims(namespace_state, request)
    if any(is_disabled(request, stored.claim.resolved) for stored in claims):
        return math.inf
    now = namespace_state.now()
    waits = (_wait(stored, name, n, now) for stored in claims for name, n in stored.claim.checked.items())
    return max(waits, default=0.0)


def resolve_limits(namespace_state: NamespaceState, entity_id: str, resource: str) -> Flow[Resolution]:
    """Return the limits that hold, the policy of the system config, and the level that won."""
    cached = cached_bucket(namespace_state, *validate_bucket(entity_id, resource))
    resolved = yield from resolve(namespace_state, cached, bucket_too=False)
    return list(resolved.config.marked), resolved.on_unavailable, resolved.source


class _StoredClaim(NamedTuple):
    claim: Claim
    states: Sequence[BucketState]


def _read_claims(namespace_state: NamespaceState, request: AcquireRequest) -> Flow[list[_StoredClaim]]:
    """Return the claims with the stored states of their buckets. Leave the cached buckets alone: a run may be at
    work.
    """
    claims = yield from find_claims(namespace_state, request)
    found = yield from read_whole([claim.cached.id for claim in claims])
    now = namespace_state.now()
    return [
        _StoredClaim(claim, all_shifted([state.repaired(now) for state in states], claim.config, now))
        for claim, states in zip(claims, found, strict=True)
    ]


def _wait(stored: _StoredClaim, name: str, amount: int, now_ms: int) -> float:
    """Return the seconds until the amount is there, under the limits of the claim's config."""
    config = stored.claim.config
    return wait_through(
        config.scheduled.get(name), parts_of(stored.states, config.by_name[name], now_ms), amount, now_ms
    )


def parts_of(states: Sequence[BucketState], limit: Limit, now_ms: int) -> list[Part]:
    """Return the limit on each shard, at most the ceiling of the config; as in a new bucket if the bucket is missing,
    or lacks the limit.
    """
    shards = [_part(state, limit, now_ms) for state in states]
    counts = {state.id.shard: state.shard_count for state in states}
    shards += unseen_parts(limit, now_ms, counts)
    return shards or [new_part(limit, now_ms)]


def _part(state: BucketState, limit: Limit, now_ms: int) -> Part:
    part = state.part(limit, now_ms)
    ruled = part.shard_limit.moved(now_ms, limit)
    return Part(ruled, min(ruled.ceiling_milli, refill_bucket(*part, now_ms)))
