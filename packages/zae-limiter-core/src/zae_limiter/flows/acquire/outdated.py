"""Limits that this process read too long ago to refuse by: expired, so that they are read again before it refuses."""

from collections.abc import Sequence

from ...schema.attributes import CONFIG_READ_AT
from ..process.namespace_state import NamespaceState
from .claims import Claim, Seen


def expire_what_nobody_told(namespace_state: NamespaceState, claims: Sequence[Claim]) -> bool:
    """Expire limits that refuse an entity without a bucket, if they are too old to refuse by; return whether there are
    any.

    A change of limits tells the live buckets. Where there is none, nobody is asked about limits that never let the
    amounts pass, such as those of a block.
    """
    now, staleness_ms = namespace_state.now(), namespace_state.settings.staleness_ms
    refused = [claim for claim in claims if claim.refused and claim.cached.state is None and not claim.config.from_call]
    old = [claim for claim in refused if not claim.resolved.is_recent(now, staleness_ms)]
    for claim in old:
        namespace_state.expire(claim.cached)
    return bool(old)


def expire_what_a_shard_outdates(namespace_state: NamespaceState, claims: Sequence[Claim]) -> bool:
    """Expire limits that refuse, if one of several shards has others that are newer; return whether there are any."""
    old = [claim for claim in claims if claim.refused and claim.seen is not None and _is_outdated(claim, claim.seen)]
    for claim in old:
        namespace_state.expire(claim.cached)
    return bool(old)


def _is_outdated(claim: Claim, seen: Seen) -> bool:
    config = claim.config
    newer = [state for state in seen.states if config.is_older_than(state.item[CONFIG_READ_AT])]
    return any(not state.has(config.limits) for state in newer)
