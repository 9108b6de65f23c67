"""Count refusals: each once on the bucket of the entity that asked, with the limits that were short, or the disable in
their place, and on each other bucket that was short of tokens.

This module chooses the buckets, and says when a separate write is due. ``process.refusals`` keeps the counts.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ...operations.errors import BudgetSpent
from ...schema.attributes import REFUSED, REFUSED_BELOW, parse_refused_by, refused_by
from ...values.limit_status import LimitStatus
from ...values.limits import MAX_LIMITS
from ...values.naming import DISABLED
from ...values.refusal import AccessDisabled, LaterStatuses, RateLimitExceeded, short, unread
from ...values.resolution import OWN_LEVELS, RESOURCE_LEVELS, Config
from ...values.usage import Refuser
from ..bucket.serving import cached_shard
from ..bucket_queue import BucketRequest, RefusalCount
from ..process.namespace_state import CachedShard, NamespaceState
from ..process.queueing import enqueue_and_wait
from ..steps import Flow, Post, Remind
from .outage import pay_the_rest
from .path import Place

AT_ONCE: Final = 16


def count_refusal(namespace_state: NamespaceState, refusal: RateLimitExceeded) -> Flow[None]:
    """Count a refusal once on the bucket of the entity that asked, and on each other bucket that was short; the same
    for an overflow that was short.

    The next write of this process to the bucket adds it. If no write comes within five seconds, a separate write does;
    without a waiting caller.
    """
    disabled_id = refusal.disabled_id if refusal.__class__ is AccessDisabled else None
    yield from _count(namespace_state, (refusal.entity_id, refusal.resource), unread(refusal), disabled_id)
    if refusal.overflow:
        yield from _count(namespace_state, (refusal.entity_id, refusal.overflow[0].resource), refusal.overflow)


def count_at_once(namespace_state: NamespaceState, own: CachedShard, statuses: LaterStatuses, now_ms: int) -> bool:
    """Count the refusal of a call that drew on its own bucket alone, and return ``True``; do nothing if it takes more:
    a look at what others give back, or a reminder.
    """
    refusals, last = namespace_state.pending_refusals, own.last_refusal
    if own.undecided or not refusals.is_reminded(own, now_ms):
        return False
    last.statuses, names, resolved = statuses, statuses.short_of, own.resolved
    is_known = names in last.counted and resolved is not None and resolved.ends_ms is None
    refusals.add(own, now_ms, last.counted[names] if is_known else _by_own(own, names))
    return True


def _count(
    namespace_state: NamespaceState, asker: Place, statuses: Sequence[LimitStatus], disabled_id: str | None = None
) -> Flow[None]:
    """Count the refusal of a call that drew on these limits, its own bucket first. ``disabled_id``: whom a switch that
    refused it disables; this process may have forgotten that, or read another one since.
    """
    now, own = namespace_state.now(), cached_shard(namespace_state, *asker)
    counted = dict[CachedShard, Sequence[str]]()
    # a call that draws on one bucket, and has seen which limits were short, needs no statuses
    if isinstance(statuses, LaterStatuses) and statuses.short_of and statuses.buckets == {asker}:
        names, last, resolved = statuses.short_of, own.last_refusal, own.resolved
        is_known = names in last.counted and resolved is not None and resolved.ends_ms is None
        counted[own] = last.counted[names] if is_known else _by_own(own, names)
    else:
        violations = short(statuses)
        if not violations:
            return
        buckets = [cached_shard(namespace_state, each.entity_id, each.resource) for each in violations]
        disables = [
            _refuser(bucket, DISABLED)
            for bucket in buckets
            if _is_disabled(bucket) or (disabled_id is not None and bucket.id.entity_id == disabled_id)
        ]
        limits = (_refuser(bucket, each.limit_name) for bucket, each in zip(buckets, violations, strict=True))
        counted[own] = _with(own, disables or limits)
        for bucket in buckets:
            counted.setdefault(bucket, (REFUSED, REFUSED_BELOW))
        if own.state is None:
            own.last_refusal.config = _limits_to_begin_with(own, counted)
    own.last_refusal.statuses = statuses
    for cached, attributes in counted.items():
        namespace_state.pending_refusals.add(cached, now, attributes)
        config = None if cached.state is not None else cached.last_refusal.config
        if cached.state is None and config is None:
            continue
        if (in_ms := namespace_state.pending_refusals.remind(cached, now)) is not None:
            count = RefusalCount(cached, config, reminds=in_ms > 0)
            yield Remind(count, in_ms / 1000) if in_ms else Post(count)


def _limits_to_begin_with(own: CachedShard, short_ones: Iterable[CachedShard]) -> Config | None:
    """Return the limits of a bucket that refusals may make; ``None`` if they must not: refused calls with
    made-up ids or resources would fill the table.

    The entity has a parent, a tier or limits of its own, and the resource has limits, or a bucket that was short.
    """
    resolved = own.resolved
    if resolved is None or not resolved.config.stored:
        return None
    is_known = bool(resolved.parent_ids or resolved.tier or resolved.source in OWN_LEVELS)
    is_used = resolved.source in RESOURCE_LEVELS or any(each.state is not None for each in short_ones)
    return resolved.config if is_known and is_used else None


def _by_own(own: CachedShard, names: Sequence[str]) -> Sequence[str]:
    """Return what a refusal by these limits of the bucket itself counts, and remember it: most are by the same, unless
    an override begins or ends.
    """
    if _is_disabled(own):
        return _with(own, [_refuser(own, DISABLED)])
    known = own.last_refusal.counted
    if names not in known:
        found = _with(own, [_refuser(own, name) for name in names])
        if len(known) >= MAX_LIMITS:
            return found
        known[names] = found
    return known[names]


def _is_disabled(bucket: CachedShard) -> bool:
    """Return whether a disable refuses, by a switch or for a time; then no limit counts the call as refused."""
    resolved = bucket.resolved
    return resolved is not None and (resolved.disables or resolved.disables_for_a_time)


def _refuser(bucket: CachedShard, limit_name: str) -> Refuser:
    return Refuser.of(bucket.id.entity_id, bucket.id.resource, limit_name)


def _with(own: CachedShard, refusers: Iterable[Refuser]) -> Sequence[str]:
    """Return what a refusal counts in the bucket of its entity: itself, and what refused, no more of it than the bucket
    has room for.
    """
    names = [*dict.fromkeys(map(refused_by, refusers))]
    known = () if own.state is None else [name for name in own.state.item if parse_refused_by(name) is not None]
    return REFUSED, *(names if len({*known, *names}) <= MAX_LIMITS else [name for name in names if name in known])


def owes(namespace_state: NamespaceState) -> bool:
    """Return whether there is something that ``count_the_rest`` could write."""
    return any(each.owes for each in namespace_state.ledgers)


def count_the_rest(namespace_state: NamespaceState) -> Flow[None]:
    """Write what no write has counted, and bring back what is held, as far as the budget of the run allows.

    Not counted yet are refusals, what was spent of prefetches, and the amounts of an outage.
    """
    ends = _ends(namespace_state)
    waiters = [*ends, *_pending(namespace_state)]
    try:
        yield from pay_the_rest(namespace_state)
        for begin in range(0, len(waiters), AT_ONCE):
            yield from enqueue_and_wait(waiters[begin : begin + AT_ONCE])
        yield from enqueue_and_wait([each for each in _ends(namespace_state) if each not in ends])  # of merged shards
    except BudgetSpent:
        return


def _ends(namespace_state: NamespaceState) -> list[BucketRequest]:
    """Return the requests that end each prefetch, and count what was spent of it."""
    return [*namespace_state.prefetches.in_use.values()]


def _pending(namespace_state: NamespaceState) -> list[BucketRequest]:
    """Return the requests that count refusals, of buckets that are known to be there, or that refusals may make."""
    pending = [*namespace_state.pending_refusals.counts]
    there: list[BucketRequest] = [RefusalCount(cached) for cached in pending if cached.state is not None]
    new = [(cached, cached.last_refusal.config) for cached in pending if cached.state is None]
    return there + [RefusalCount(cached, config) for cached, config in new if config is not None]
