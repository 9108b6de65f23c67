"""Count refusals: each once on the bucket of the entity that asked, and on each bucket above that was short of tokens.

This module chooses the buckets, and says when a separate write is due. ``process.refusals`` keeps the counts.
"""

from collections.abc import Sequence
from typing import Final

from ...operations.errors import BudgetSpent
from ...schema.attributes import REFUSED, parse_refused_by, refused_by
from ...values.limit_status import LimitStatus
from ...values.limits import MAX_LIMITS
from ...values.refusal import RateLimitExceeded, short
from ...values.usage import Refuser
from ..bucket.serving import cached_bucket
from ..bucket_queue import BucketRequest, RefusalCount
from ..process.namespace_state import CachedBucket, NamespaceState
from ..process.queueing import queue
from ..steps import Flow, Post
from .outage import pay_the_rest

AT_ONCE: Final = 16


def count_refusal(namespace_state: NamespaceState, refusal: RateLimitExceeded) -> Flow[None]:
    """Count a refusal once on the bucket of the entity that asked, and on each bucket above that was short; the same
    for an overflow that was short.

    The next write of this process to the bucket adds it. If no write came for a minute, queue a separate write; nobody
    waits for it.
    """
    asker, now = refusal.entity_id, namespace_state.now()
    places = ((each, status.resource) for status in _short(refusal) for each in (asker, status.entity_id))
    for entity_id, resource in dict.fromkeys(places):
        cached = cached_bucket(namespace_state, entity_id, resource)
        by_ancestors = _by_ancestors(refusal, cached) if entity_id == asker else ()
        if namespace_state.refusals.add(cached, now, (REFUSED, *by_ancestors)) and cached.state is not None:
            yield Post(RefusalCount(cached.queue))


def _short(refusal: RateLimitExceeded) -> Sequence[LimitStatus]:
    return (*refusal.violations, *short(refusal.overflow))


def _by_ancestors(refusal: RateLimitExceeded, asker: CachedBucket) -> list[str]:
    """Return the counts of the limits above that were short, no more of them than the bucket has room for."""
    there = (each for each in _short(refusal) if each.resource == asker.id.resource)
    above = (each for each in there if each.entity_id != refusal.entity_id)
    names = [refused_by(Refuser(each.entity_id, each.limit_name)) for each in above]
    item = {} if asker.state is None else asker.state.item
    known = [name for name in item if parse_refused_by(name) is not None] if names else []
    return names if len({*known, *names}) <= MAX_LIMITS else [name for name in names if name in known]


def count_the_rest(namespace_state: NamespaceState) -> Flow[None]:
    """Write what no write has counted, and bring back what is held, as far as the budget of the run allows.

    Not counted yet are refusals, what was spent of holds, and the amounts of an outage.
    """
    waiters: list[BucketRequest] = [*namespace_state.holding.values()]
    waiters += [RefusalCount(cached.queue) for cached in [*namespace_state.refusals.counts] if cached.state]
    try:
        yield from pay_the_rest(namespace_state)
        for begin in range(0, len(waiters), AT_ONCE):
            yield from queue(waiters[begin : begin + AT_ONCE])
    except BudgetSpent:
        return
