"""The bucket of a run: opened by one conditional write, read, and ended by one.

The problem: several processes share the budget of a run, and any of them may die. The choice: the bucket is the budget.
The first write makes it, with the instant at which it ends, and each later opening gets what the first one wrote. So no
process can widen a budget, lengthen it, or begin it again: the item stays a week longer than its budget.

``end`` takes more than the bucket ever had off each balance. So each later acquire of any process fails its condition,
also after all that was taken before has come back.

docs/decisions/budgets-narrow.md.
"""

from collections.abc import Mapping, Sequence

from ...exceptions import ValidationError
from ...operations.errors import ConditionFailed
from ...operations.values import Conditions, Item, Put, Update
from ...runtime.named_tuple import NamedTuple
from ...schema.attributes import CASCADE, PK, RUN_ENDED, RUN_UNTIL, bucket_attributes
from ...schema.items import ONE_WRITE, WRITES, BucketId, LimitBalance, bucket_item, read_bucket
from ...values.limits import MILLI, Limit
from ...values.naming import RUN_RESOURCE
from ...values.run_budgets import KEPT_SECONDS
from ..bucket.reading import bucket_of, read_whole
from ..bucket.serving import cached_shard
from ..process.namespace_state import NamespaceState, bucket_key
from ..retry import read, with_retries
from ..steps import Flow


class OpenBudget(NamedTuple):
    """A budget as its bucket has it: its limits, the instant at which it ends, and whether it was ended before."""

    limits: tuple[Limit, ...]
    until_ms: int
    ended: bool = False


def open_budget(
    namespace_state: NamespaceState, run: str, entity_id: str, limits: Sequence[Limit], until_ms: int
) -> Flow[OpenBudget]:
    """Return the budget of a run; make its bucket if there is none, and ``limits`` are given.

    Raises ``ValidationError`` for other limits than it has, and if there is none.
    """
    cached = cached_shard(namespace_state, entity_id, RUN_RESOURCE)
    now_ms, item, written = namespace_state.now(), None, 0
    if limits:
        new = _new_item(namespace_state, cached.id, limits, now_ms, until_ms)
        try:
            yield from with_retries(Put(new, Conditions(absent=(PK,))))
            item, written = new, 1
        except ConditionFailed as failure:
            item = failure.item
    else:
        item = yield from read(cached.key)
    if item is None:
        raise ValidationError("budget", run, "is not open: give its amounts to open it, like {'usd': '$2'}")
    state = read_bucket(item)
    if RUN_UNTIL not in item:
        raise ValidationError("budget", run, f"its bucket, {cached.id}, is not one of a run: take another name")
    known = tuple(sorted(state.limits, key=lambda limit: limit.name))
    if limits and known != tuple(limits):
        has, given = (", ".join(map(_shown, each)) for each in (known, limits))
        raise ValidationError("budget", run, f"is open with {has}, not with {given}: give the same amounts, or none")
    namespace_state.learn_beside(cached.id, item, now_ms, own_writes=written)
    return OpenBudget(known, item[RUN_UNTIL], RUN_ENDED in item)


def _new_item(
    namespace_state: NamespaceState, bucket: BucketId, limits: Sequence[Limit], now_ms: int, until_ms: int
) -> Item:
    return bucket_item(
        bucket,
        {CASCADE: False},
        [LimitBalance(limit, limit._initial_milli) for limit in limits],
        shard_count=1,
        anchor_ms=now_ms,
        config_as_of_ms=now_ms,
        spread=namespace_state.spread,
        expires_at=-(-until_ms // 1000) + KEPT_SECONDS,
    ) | {RUN_UNTIL: until_ms}


def _shown(limit: Limit) -> str:
    return f"{limit.name} {limit.show(limit.capacity)}"


def is_ended(namespace_state: NamespaceState, entity_id: str) -> bool:
    """Return whether this process has seen that a budget was ended."""
    cached = namespace_state.cached_shards.get((entity_id, RUN_RESOURCE, 0))
    return cached is not None and cached.state is not None and RUN_ENDED in cached.state.item


def left_of(namespace_state: NamespaceState, entity_ids: Sequence[str]) -> Flow[list[Mapping[str, int]]]:
    """Return the whole tokens in the buckets of these runs, by limit; none of a bucket that is gone, or was ended."""
    found = yield from read_whole([BucketId(namespace_state.namespace_id, each, RUN_RESOURCE) for each in entity_ids])
    now_ms = namespace_state.now()
    return [
        {} if not states or RUN_ENDED in states[0].item else bucket_of(states, now_ms).available for states in found
    ]


def end_budget(namespace_state: NamespaceState, entity_id: str, limits: Sequence[Limit]) -> Flow[None]:
    """End the budget of a run for all processes, by one write: its bucket is never split."""
    bucket = BucketId(namespace_state.namespace_id, entity_id, RUN_RESOURCE)
    now_ms, home = namespace_state.now(), cached_shard(namespace_state, entity_id, RUN_RESOURCE)
    tokens = {bucket_attributes(limit.name).tokens: -limit._ceiling_milli - MILLI for limit in limits}
    when = Conditions(exists=(*tokens,), absent=(RUN_ENDED,))
    item: Item | None
    try:
        item = yield from with_retries(
            Update(bucket_key(bucket), {WRITES: ONE_WRITE, **tokens}, {RUN_ENDED: now_ms}, (), when)
        )
    except ConditionFailed as failure:  # it is gone, or was ended before
        item = failure.item
    if not home.busy:
        home.learn(item, now_ms, own_writes=1)
