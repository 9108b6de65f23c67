"""Deliberate faults of merges, and of calls that meet a shard that is gone.

Lives here: the faults, and the seeds that have found them. Never: which of them are to be found (mutants).
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from typing import Final
from unittest.mock import patch

from zae_limiter.flows.bucket import commit_run, merging, splitting
from zae_limiter.flows.bucket_queue import BucketRequest
from zae_limiter.flows.process.namespace_state import CachedBucket, NamespaceState
from zae_limiter.flows.steps import Flow, call
from zae_limiter.operations.errors import ConditionFailed
from zae_limiter.operations.values import NOTHING, Conditions, Put
from zae_limiter.rules.balances import limit_share
from zae_limiter.rules.sharding import Merged, Part, born_at, merge
from zae_limiter.schema.items import BucketState
from zae_limiter.values.limits import Limit

_find_or_create = splitting.find_or_create_shard


def _full(halves: Sequence[Part], limit: Limit, at_ms: int) -> Merged:
    """The merged shard has both ceilings, whatever was there."""
    ceilings = sum(half.shard_limit.ceiling_milli for half in halves)
    return merge(halves, limit, at_ms)._replace(tokens=ceilings)


def _without_debts(halves: Sequence[Part], limit: Limit, at_ms: int) -> Merged:
    """What one shard owes is forgotten."""
    return merge([Part(each, max(0, tokens)) for each, tokens in halves], limit, at_ms)


def _whatever_was_taken(state: BucketState) -> Mapping[str, int]:
    """Nobody asks whether something was taken since."""
    return {"rf": state.anchor_ms}


def _made_full(namespace_state: NamespaceState, cached: CachedBucket) -> Flow[BucketState | None]:
    """Whoever misses a shard that has merged creates it full."""
    heir, now_ms = (yield from _find_or_create(namespace_state, cached)), namespace_state.now()
    if heir is None:
        return None
    count = 2 * born_at(cached.id.shard)
    begin = {
        name: splitting._Begin(limit_share(each.limit, each.limit.initial_milli, cached.id.shard, count))
        for name, each in heir.shard_limits.items()
    }
    item = splitting._shard_like(heir, cached.id, begin, count=count, anchor_ms=now_ms)
    with suppress(ConditionFailed):
        yield from call(Put(item, Conditions(absent=("PK",))))
        cached.learn(item, now_ms, own_writes=1)
    return None


def _kept(self: BucketRequest, *_: int) -> None:
    """What comes back to a shard that has merged goes to nobody."""
    self.given = NOTHING


MERGE_FAULTS: Final[Mapping[str, tuple[Callable[[], AbstractContextManager[object]], int]]] = {
    "a merge that adds both ceilings": (lambda: patch.object(merging, "merge", _full), 1),
    "a merge that forgets a debt": (lambda: patch.object(merging, "merge", _without_debts), 1),
    "a merge of shards as they once were": (lambda: patch.object(merging, "_as_seen", _whatever_was_taken), 23),
    "a shard that has merged, created full": (lambda: patch.object(commit_run, "find_or_create_shard", _made_full), 1),
    "a give-back to a shard that has merged, dropped": (lambda: patch.object(BucketRequest, "pass_on", _kept), 17),
    "a merge that counts what was counted": (lambda: patch.object(merging, "_counts", lambda _: {}), 1),
}
