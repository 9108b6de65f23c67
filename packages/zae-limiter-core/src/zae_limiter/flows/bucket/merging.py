"""Merge the shards of a quiet bucket, until it has one again. ``splitting`` has the way there.

The problem: a shard has a part of the tokens, so a bucket of 64 shards whose traffic has ended asks several of them for
one acquire, refuses what it has in small pieces, and never expires. The choice: shards ``k`` and ``k + n`` of ``2n``
become ``k`` of ``n``, in one transaction: an update of the one and a delete of the other. Both are on the condition
that the shard is as it was seen: a quiet one is, so no bound is needed as in a split. Every write counts itself, so the
anchor and that count tell any two versions of an item apart.

Shard 0 goes first, as in a split, so that it always knows the newest count, and processes leave the shards that are
about to go. Then the others follow, two by two. A shard that has not followed yet has its own part of the tokens, and
no two shards have the same: so a bucket is exact while some have merged and others have not, whichever process dies in
between. The next merge finishes that first; meanwhile only an acquire that asks all shards reaches what is on the one
that is about to go. The other order, shard 0 last, would be undone by every acquire: it misses the shard that is gone,
and splits it off again.

docs/design/admission.md ("Shards"), docs/decisions/quiet-buckets-merge.md. The aggregator and people say when.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

from ...operations.errors import TransactionCancelled, Unserved
from ...operations.values import Conditions, Delete, Item, Transact, Update
from ...rules.balances import Begin
from ...rules.registry import keeping_ms, rule_of
from ...rules.rule import FOREVER_MS
from ...rules.sharding import MAX_SHARDS, Merged, merge, next_merge
from ...schema.attributes import (
    ACQUIRES,
    ANCHOR,
    BELOW,
    CONFIG_AS_OF,
    COUNTERS,
    PK,
    SHARD_COUNT,
    TTL,
    WCU,
    WRITE_TOKENS,
    WRITES_THEN,
    parse_bucket_attribute,
    parse_refused_by,
)
from ...schema.items import (
    ONE_WRITE,
    WRITES,
    BucketId,
    BucketState,
    read_bucket,
)
from ...values.limits import MILLI, Limit
from ..process.namespace_state import NamespaceState, bucket_key
from ..retry import ATTEMPTS, PAUSES, RaceLost, read_all
from ..steps import Flow, Log, Sleep, call
from .write_plans import TTL_GRACE_MS
from .writing import Change, after, write

QUIET: Final = 125  # writes a second to all shards: a quarter of what splits one
MEASURED_MS: Final = 600_000


def is_quiet(item: Mapping[str, Any], at_ms: int) -> bool | None:
    """Return whether a bucket of several shards, given by its shard 0, was written seldom from its anchor to an
    instant; ``None`` while that is less than ten minutes.

    Acquires choose their shards at random, so that all shards together are written as often as shard 0, times their
    number. Those of slots are all on shard 0. A bucket without a note of how much was written is not quiet.
    """
    elapsed_ms = at_ms - item[ANCHOR]
    if elapsed_ms < MEASURED_MS:
        return None
    if WRITES_THEN not in item:
        return False
    fields = (each.field for each in map(parse_bucket_attribute, item) if each is not None)
    written = (item.get(WRITES, 0) - item[WRITES_THEN]) * (1 if "epoch" in fields else item[SHARD_COUNT])
    return bool(written <= QUIET * elapsed_ms)


def merge_bucket(namespace_state: NamespaceState, bucket: BucketId) -> Flow[int]:
    """Merge all shards of a bucket into one; return how many have gone. Raises ``RaceLost`` if the bucket is written
    too often, ``StoreError``.
    """
    states, gone, lost = (yield from _read(bucket)), 0, 0
    while 0 in states and (pair := next_merge({shard: state.shard_count for shard, state in states.items()})):
        now_ms = namespace_state.now()
        mine, other = states[pair[0]], states.get(pair[1])
        if mine.is_in_future(now_ms) or (other is not None and other.is_in_future(now_ms)):
            break  # its next write repairs the anchor
        if lost == ATTEMPTS:
            raise RaceLost
        update = merged(mine, other, now_ms, namespace_state.settings.ttl_multiplier)
        seen = Conditions(absent=(PK,)) if other is None else Conditions(equals=_as_seen(other))
        try:
            yield from call(Transact((update, Delete(bucket_key(bucket.other(pair[1])), seen))))
        except (TransactionCancelled, Unserved) as error:
            if isinstance(error, Unserved):  # also by another transaction; what is there now shows if it was applied
                if lost >= len(PAUSES) or not error.may_repeat():
                    raise
                yield Sleep(PAUSES[lost])
            lost += 1
            states = yield from _read(bucket)
            continue
        gone, lost = gone + (other is not None), 0
        item = after(mine.item, update)
        states = {shard: state for shard, state in states.items() if shard != pair[1]} | {pair[0]: read_bucket(item)}
        namespace_state.learn_beside(mine.id, item, now_ms, own_writes=1)
        namespace_state.learn_beside(bucket.other(pair[1]), None, now_ms)
    if gone:
        values = (f"{bucket.entity_id}/{bucket.resource}", gone)
        yield Log(__name__, logging.INFO, "bucket %s is quiet: %d of its shards merged with others", values=values)
    return gone


def _read(bucket: BucketId) -> Flow[dict[int, BucketState]]:
    """Return all shards that there are, whichever shard 0 knows."""
    found = yield from read_all([bucket_key(bucket.other(shard)) for shard in range(MAX_SHARDS)])
    states = [read_bucket(item) for item in found.values()]
    return {state.id.shard: state for state in states}


def merged(mine: BucketState, other: BucketState | None, now_ms: int, multiplier: int) -> Update:
    """Return the update by which shard ``k`` of ``2n`` becomes ``k`` of ``n``, with all that both have."""
    halves, count = [mine] if other is None else [mine, other], mine.shard_count // 2
    anchor_ms = max(now_ms, *(each.anchor_ms + 1 for each in halves))
    newest = max(halves, key=lambda each: (each.item[CONFIG_AS_OF], each.anchor_ms))
    sources, moves, gone = _sources(mine, halves, newest), dict[str, Begin](), list[str]()
    limits = {name: source.shard_limits[name].limit for name, source in sources.items()}
    values = {SHARD_COUNT: count, CONFIG_AS_OF: newest.item[CONFIG_AS_OF]}
    for name, sum_of in _sums(halves, limits, anchor_ms).items():
        limit = limits[name]
        moves[name] = Begin(sum_of.tokens, sum_of.fraction if rule_of(limit).unit(count) else None)
        noted, dropped = _beside(mine, limit, sum_of)
        values |= noted
        gone += dropped
    if count > 1 and not mine.id.shard:  # up to the new anchor, which this write is not behind
        values[WRITES_THEN] = mine.item[WRITES] + ONE_WRITE
    else:
        gone += [WRITES_THEN]
    ttl = _ttl(mine, sources, {limits[name]: each for name, each in moves.items()}, now_ms, multiplier)
    if ttl is None:
        gone += [TTL]
    else:
        values[TTL] = ttl
    change = Change(
        anchor_ms,
        moves,
        rules={name: limits[name] for name in moves},
        schedules={name: sources[name].schedule_id(name) for name in moves},
        counts={} if other is None else _counts(other),
        values=values | _write_tokens(halves),
        remove=tuple(gone),
        expected=_as_seen(mine),
    )
    return write(mine, change, now_ms)


def _sums(halves: Sequence[BucketState], limits: Mapping[str, Limit], anchor_ms: int) -> dict[str, Merged]:
    """Return what the halves have together of each limit. Slots are all on shard 0, whatever its anchor."""
    return {
        name: merge([each.part(limit, anchor_ms) for each in halves if name not in each.slots], limit, anchor_ms)
        for name, limit in limits.items()
        if not limit._has_slots
    }


def _beside(mine: BucketState, limit: Limit, sum_of: Merged) -> tuple[Item, list[str]]:
    """Return the attributes of a limit beside its balance, and those that go: of its excess, and its window's begin."""
    noted, gone = mine.excess_change(limit.name, sum_of.excess, sum_of.excess_until_ms)
    begun, ended = mine.begun_change(limit, sum_of.begun_ms)
    return noted | begun, gone + ended


def _write_tokens(halves: Sequence[BucketState]) -> dict[str, int]:
    """Return the cells of write tokens that are in use: what a lost answer proved on one shard, the merged one must not
    forget.
    """
    used = [cell for cell in WRITE_TOKENS if any(cell in each.item for each in halves)]
    return {cell: max(each.item.get(cell, 0) for each in halves) for cell in used}


def _as_seen(state: BucketState) -> Mapping[str, int]:
    return {ANCHOR: state.anchor_ms, WRITES: state.item[WRITES]}


def _sources(mine: BucketState, halves: Sequence[BucketState], newest: BucketState) -> dict[str, BucketState]:
    """Return the shard whose rule each limit has from now on: the newest one. A limit that begins or ceases to have
    slots on one of them is left to the next write of the shard that stays.

    Two pieces of one schedule are of one config, and nothing on the items tells which is in force. So the lower ceiling
    bounds both halves: what is above it would be gone if both had been used since the boundary.
    """
    sources = {name: each for each in (*halves, newest) for name in each.shard_limits}
    for name in sources:
        both = [each for each in halves if name in each.shard_limits]
        if len({each.schedule_id(name) for each in both}) == 1 and both[0].schedule_id(name):
            lower = min(each.shard_limits[name].limit._ceiling_milli for each in both)
            sources[name] = next(each for each in both if each.shard_limits[name].limit._ceiling_milli == lower)
    for name, source in [*sources.items()]:
        if (name in source.slots) != (name in mine.slots):
            if name in mine.shard_limits:
                sources[name] = mine
            elif name in source.slots:
                del sources[name]
    return sources


def _counts(other: BucketState) -> dict[str, int]:
    """Return what the shard that goes has counted, but for acquires: of these, only changes are ever read."""
    counted = {}
    for name, number in other.item.items():
        at = parse_bucket_attribute(name)
        of_limit = at is not None and at.field == "consumed" and at.limit != WCU
        late = name in COUNTERS and name not in (ACQUIRES, BELOW)
        if of_limit or late or parse_refused_by(name) is not None:
            counted[name] = number
    return counted


def _ttl(
    mine: BucketState,
    sources: Mapping[str, BucketState],
    begins: Mapping[Limit, Begin],
    now_ms: int,
    multiplier: int,
) -> int | None:
    """Return when the bucket expires, in epoch seconds, if one shard is left.

    The next write of a bucket that does not expire, because its entity has limits of its own, takes the ``ttl`` away.
    """
    if mine.shard_count > 2 or not multiplier or any(each.schedule_id(name) for name, each in sources.items()):
        return None
    missing = {limit: limit._ceiling_milli - min(0, begin.tokens) for limit, begin in begins.items()}
    slots = [each.limit for name, each in mine.shard_limits.items() if name in mine.slots]
    fill_ms = max([keeping_ms(*each) for each in missing.items()] + [keeping_ms(each, MILLI) for each in slots])
    unused_ms = max(MILLI * limit._unused_seconds for limit in begins) if begins else 0
    if fill_ms >= FOREVER_MS:
        return None
    return -(-(now_ms + max(TTL_GRACE_MS + multiplier * fill_ms, unused_ms)) // 1000)
