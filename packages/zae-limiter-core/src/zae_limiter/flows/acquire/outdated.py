"""Limits that this process read too long ago to refuse by, or that a bucket has outdated: they are read again first."""

from collections.abc import Iterable, Sequence
from typing import Final

from ...schema.items import BucketState
from ..process.namespace_state import NamespaceState
from .claims import Claim

OBEYS_MS: Final = 1000  # the time in which a caller that is refused obeys raised limits: by copies, then by these
LEAST_MS: Final = 130  # between two reads of limits that refuse; copies that refuse add to it


def doubt_short(namespace_state: NamespaceState, claim: Claim) -> None:
    """Let the request of a call that a copy shows to be short go with a read of its limits, in case that they were
    raised: a change of a resource, a tier or the system need not have invalidated the bucket.
    """
    state, now_ms = claim.target.state, namespace_state.now()
    since_ms = now_ms - max(LEAST_MS, OBEYS_MS - namespace_state.settings.staleness_ms)
    if claim.stale or state is None or not claim.config.stored or claim.resolved.seen_ms >= since_ms:
        return
    if claim.target.short_ms and state.short_of(claim.checked, now_ms):
        namespace_state.doubt(claim.home, since_ms)
        claim.stale = True


def doubt_later(namespace_state: NamespaceState, refused: Iterable[Claim], now_ms: int) -> None:
    """Do the same of refused calls whose copies show no shortage after a second, because they refill."""
    later_ms = now_ms + (namespace_state.settings.staleness_ms or OBEYS_MS)
    for claim in refused:
        state = claim.target.state
        if state is not None and claim.config.stored and not state.short_of(claim.checked, later_ms):
            namespace_state.doubt(claim.home, later_ms)


def may_refuse(namespace_state: NamespaceState, claim: Claim, states: Sequence[BucketState], now_ms: int) -> bool:
    """Return whether the limits of a claim may refuse it without another look, beside these states of its bucket.

    A change of limits invalidates the live buckets. Where there is none, no process learns of limits that never let the
    amounts pass, such as those of a block, so they have to be young. A bucket, or one of its shards, may have others
    that are no older: a call with limits of its own has left them there, or a change that not all shards have yet.
    """
    if states:
        return all(state.compare(claim.config) != "outdated" for state in states)
    return claim.config.follows or claim.resolved.is_recent(now_ms, namespace_state.settings.staleness_ms)


def decided_by(claim: Claim) -> list[BucketState]:
    """Return the states of the bucket that decided a claim."""
    if claim.decided_by_view is not None:
        return list(claim.decided_by_view.states)
    outcomes = [request.outcome for request in claim.last if request.outcome is not None]
    return [outcome.state for outcome in outcomes if outcome.state is not None]
