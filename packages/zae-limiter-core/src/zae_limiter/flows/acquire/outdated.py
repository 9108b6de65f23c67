"""Limits that this process read too long ago to refuse by, or that a bucket has outdated: they are read again first."""

from collections.abc import Sequence

from ...schema.items import BucketState
from ..process.namespace_state import NamespaceState
from .claims import Claim


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
