"""Limits that this process read too long ago to refuse by: expired, so that they are read again before it refuses."""

from collections.abc import Iterable, Sequence

from ..process.namespace_state import NamespaceState
from .claims import Claim


def expire_what_nobody_told(namespace_state: NamespaceState, claims: Sequence[Claim]) -> bool:
    """Expire limits that refuse an entity without a bucket, if they are too old to refuse by; return whether there are
    any.

    A change of limits tells the live buckets. Where there is none, nobody is asked about limits that never let the
    amounts pass, such as those of a block.
    """
    refused = [claim for claim in claims if claim.refused and claim.cached.state is None and not claim.config.follows]
    return expire_old(namespace_state, refused)


def expire_old(namespace_state: NamespaceState, claims: Iterable[Claim]) -> bool:
    """Expire the limits of these claims that are too old to refuse by; return whether there are any."""
    now, staleness_ms = namespace_state.now(), namespace_state.settings.staleness_ms
    old = [claim for claim in claims if not claim.resolved.is_recent(now, staleness_ms)]
    for claim in old:
        namespace_state.expire(claim.cached)
    return bool(old)


def is_refused_by_old_limits(namespace_state: NamespaceState, claim: Claim, now_ms: int) -> bool:
    """Return whether a new bucket would refuse the claim, by limits that are too old to refuse by."""
    if claim.config.follows or claim.resolved.is_recent(now_ms, namespace_state.settings.staleness_ms):
        return False
    limits = claim.config.by_name
    return any(name in limits and limits[name].initial_milli < amount for name, amount in claim.checked.items())


def expire_what_a_bucket_outdates(namespace_state: NamespaceState, claims: Sequence[Claim]) -> bool:
    """Expire limits that refuse by others, which a bucket or one of its shards has and which are no older; return
    whether there are any.

    A call with limits of its own may have left them there, or a change that not all shards have yet.
    """
    old = [claim for claim in claims if claim.refused and _is_outdated(claim)]
    for claim in old:
        namespace_state.expire(claim.cached)
    return bool(old)


def _is_outdated(claim: Claim) -> bool:
    if claim.seen is not None:
        states = list(claim.seen.states)
    else:
        outcomes = [request.outcome for request in claim.last if request.outcome is not None]
        states = [outcome.state for outcome in outcomes if outcome.state is not None]
    return any(state.compare(claim.config) == "outdated" for state in states)
