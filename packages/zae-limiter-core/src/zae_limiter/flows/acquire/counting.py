"""Counting refusals: each one on the buckets that were short of tokens.

Lives here: which buckets, and when a write of its own is due. Never: the counts (process.refusals).
"""

from typing import Final

from ...exceptions import RateLimitExceeded
from ...operations.errors import BudgetSpent
from ..bucket.serving import cached_bucket
from ..process.bucket_queue import RefusalCount
from ..process.namespace_state import NamespaceState
from ..process.queueing import queue
from ..steps import Flow, Post

AT_ONCE: Final = 16


def count_refusal(namespace_state: NamespaceState, refusal: RateLimitExceeded) -> Flow[None]:
    """Count it once on each bucket that was short; the bucket's next write by this process adds it.

    If no write came for a minute, one of its own is queued, and nobody waits for it.
    """
    short = dict.fromkeys((status.entity_id, status.resource) for status in refusal.violations)
    for entity_id, resource in short:
        cached = cached_bucket(namespace_state, entity_id, resource)
        if namespace_state.refusals.add(cached, namespace_state.now()) and cached.state is not None:
            yield Post(RefusalCount(cached.queue))


def count_the_rest(namespace_state: NamespaceState) -> Flow[None]:
    """Write the refusals that no write has counted, as far as the budget of the run allows."""
    waiters = [RefusalCount(cached.queue) for cached in [*namespace_state.refusals.counts] if cached.state]
    try:
        for begin in range(0, len(waiters), AT_ONCE):
            yield from queue(waiters[begin : begin + AT_ONCE])
    except BudgetSpent:
        return
