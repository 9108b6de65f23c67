"""Split a shard in two, and create a missing shard.

An item of DynamoDB takes at most 1,000 writes a second, so a hot bucket needs several, and together they must never
have or mint more tokens than one would. Shard ``k`` of ``n`` becomes ``k`` and ``k + n`` of ``2n``, in one transaction:
it divides what the shard has at one instant, the new anchor of both, under the condition that its anchor is the one
seen. No shard but these two changes. The shares of a ceiling add up at each step, so a bucket is exact while some of
its shards are split and others are not, whichever process dies in between; the first process that misses a shard
creates it. The numbers are those of linear hashing (Litwin, 1980), with tokens in place of keys.

The price: tokens are spread, so an acquire may find its shard short while others have some, and has to ask them. A
bucket of several shards does not expire. Shard 0 is split first, so that it always knows the newest count. Shards
merge again when the bucket is quiet (``merging``), but that takes ten minutes, so a client begins no split while its
clock is in doubt.

docs/design/admission.md ("Shards"). This module has the transaction and the order of splits; ``write_rate`` says when
to split, ``acquire.taking`` which shard an acquire asks.
"""

import logging
from collections.abc import Collection

from ...operations.errors import OutcomeUnknown, StoreError, Throttled, TransactionCancelled
from ...operations.values import Conditions, Item, Put, Transact
from ...rules.balances import Begin, Move, limit_share
from ...rules.sharding import MAX_SHARDS, born_at, halve, parent_of
from ...schema.attributes import (
    ANCHOR,
    PK,
    RUN_UNTIL,
    SHARD_COUNT,
    TTL,
    WRITES_THEN,
    bucket_attributes,
)
from ...schema.items import WRITES, BucketId, BucketState, excess_attributes, read_bucket, sibling_item
from ..process.namespace_state import CachedShard, NamespaceState, bucket_key
from ..retry import ATTEMPTS, PAUSES, RaceLost, read_all, with_retries
from ..steps import Flow, Log, Sleep, call
from .anchors import repair
from .writing import Change, write


def split_shard(namespace_state: NamespaceState, bucket: BucketId, *, among: int | None = None) -> Flow[int]:
    """Split a shard once, shard 0 of the bucket before any other; return the number of shards split.

    Split nothing if the shard is missing, if it is one of 64, if it is no longer one of ``among``, or if shard 0 cannot
    be split first. Raises ``StoreError``.
    """
    return (yield from _split_in_order(namespace_state, CachedShard(bucket), among))


def split_hot_shard(namespace_state: NamespaceState, cached: CachedShard) -> Flow[None]:
    """Split a shard that is written too often. After a failure, the next window that shows it tries again."""
    if cached.state is None or cached.state.shard_count >= MAX_SHARDS or _stays_whole(cached.state):
        return
    try:
        yield from _split_in_order(namespace_state, cached, cached.state.shard_count)
    except StoreError as error:
        name = f"{cached.id.entity_id}/{cached.id.resource}"
        yield Log(
            __name__,
            logging.WARNING,
            "bucket %s is written too often, but could not be split: %s",
            values=(name, error),
        )


def find_or_create_shard(namespace_state: NamespaceState, cached: CachedShard) -> Flow[BucketState | None]:
    """Find a shard, or create a missing one: by a split of its parent, or full if the parent was split already.

    If the bucket has no such shard, the cached shard has no state afterwards; then return the shard that has what it
    had, if it merged with another one. Raises ``RaceLost``, ``StoreError``.
    """
    written: Collection[int] = ()
    for _ in range(ATTEMPTS):
        states = yield from _read_ancestry(namespace_state, cached, written)
        home, shard = states.get(0), cached.id.shard
        if shard in states or home is None:
            return None
        if home.shard_count <= shard:
            return next(states[each] for each in _ancestry(shard) if each in states)
        missing = _first_missing(shard, states)
        parent = states[parent_of(missing)]
        if parent.shard_count <= born_at(missing):
            written = yield from _split(namespace_state, parent)
        else:
            written = yield from _make(home, parent, missing, namespace_state.now())
    raise RaceLost


def _read_ancestry(
    namespace_state: NamespaceState, cached: CachedShard, written: Collection[int] = ()
) -> Flow[dict[int, BucketState]]:
    """Return the stored states of a shard and of those that it descends from, by shard; the cached shards learn them.

    ``written``: the shards that this process has just written, once each.
    """
    begun = namespace_state.now()
    keys = {shard: bucket_key(cached.id.other(shard)) for shard in _ancestry(cached.id.shard)}
    found = yield from read_all([*keys.values()])
    cached.learn(found.get(cached.key), begun, own_writes=cached.id.shard in written)
    for shard, key in keys.items():
        namespace_state.learn_beside(cached.id.other(shard), found.get(key), begun, own_writes=shard in written)
    return {shard: read_bucket(found[key]) for shard, key in keys.items() if key in found}


def _ancestry(shard: int) -> list[int]:
    """Return the shard, and those that it descends from, up to shard 0."""
    line = [shard]
    while line[-1]:
        line.append(parent_of(line[-1]))
    return line


def _first_missing(shard: int, states: dict[int, BucketState]) -> int:
    """Return the first missing shard in the ancestry of ``shard``: its parent exists."""
    while parent_of(shard) not in states:
        shard = parent_of(shard)
    return shard


def _split_in_order(namespace_state: NamespaceState, cached: CachedShard, among: int | None) -> Flow[int]:
    """Split shard 0 first, so that it knows the newest count, then the shard; return the number of shards split."""
    states = yield from _read_ancestry(namespace_state, cached)
    home, state = states.get(0), states.get(cached.id.shard)
    if home is None or state is None or state.shard_count >= MAX_SHARDS or among not in {None, state.shard_count}:
        return 0
    if _stays_whole(home):
        return 0
    written: set[int] = set()
    if state.id.shard and home.shard_count <= state.shard_count:
        written.update((yield from _split(namespace_state, home)))
        if not written:
            return 0
    if 2 * home.shard_count > state.shard_count:  # else it has not merged yet as shard 0 has
        written.update((yield from _split(namespace_state, state)))
    yield from _read_ancestry(namespace_state, cached, written)
    return len(written)


def _stays_whole(state: BucketState) -> bool:
    """Return whether a limit of the bucket forbids more shards.

    Each acquire of a slot writes to shard 0, so that more shards would not relieve it. Of a first use, each shard would
    begin windows of its own, so that two of them overlap. A run ends by one write.
    """
    has_windows = any(limit.kind == "first_use" for limit in state.limits)
    return bool(state.slots) or has_windows or RUN_UNTIL in state.item


def _split(namespace_state: NamespaceState, state: BucketState) -> Flow[Collection[int]]:
    """Split a shard as it was seen; after a lost race, as it is now, until this or another process has split it.

    Return the shard in a tuple if this call split it, else nothing.
    """
    count, leftover, pauses = state.shard_count, None, iter(PAUSES)
    for _ in range(ATTEMPTS):
        if state.shard_count != count:  # another process has split it, or merged it
            break
        try:
            if state.is_in_future(namespace_state.now()):
                item, _ = yield from repair(state, namespace_state.now())
                if item is None:
                    break
                state = read_bucket(item)
                continue
            yield from call(halving(state, namespace_state.now(), leftover))
        except TransactionCancelled as cancelled:
            mine, other = (reason.item for reason in cancelled.reasons)
            if mine is None and other is None:  # the bucket is gone
                break
            state, leftover = (state, other) if mine is None else (read_bucket(mine), None)
        except (Throttled, OutcomeUnknown) as error:  # applied once: the anchor moves
            pause = next(pauses, None)
            if pause is None or not error.may_repeat():
                raise
            yield Sleep(pause)
        else:
            values = (state.id.shard, f"{state.id.entity_id}/{state.id.resource}", 2 * count)
            yield Log(__name__, logging.INFO, "shard %d of bucket %s was split: it is one of %d now", values=values)
            return (state.id.shard,)
    return ()


def halving(state: BucketState, now_ms: int, leftover: Item | None = None) -> Transact:
    """Return the writes by which shard ``k`` of ``n`` becomes ``k`` and ``k + n`` of ``2n``, under one new anchor.

    What the other half begins with is taken from this one. ``leftover``: the item of a deleted bucket in the place of
    ``k + n``; it is replaced.
    """
    anchor_ms, other = max(now_ms, state.anchor_ms + 1), state.id.other(state.id.shard + state.shard_count)
    count, moves, begin = 2 * state.shard_count, dict[str, Move | Begin](), dict[str, Begin]()
    take, force, give, debts = dict[str, int](), dict[str, int](), dict[str, int](), dict[str, int]()
    for name, shard_limit in state.shard_limits.items():
        if shard_limit.limit._has_slots:  # all of them stay on shard 0
            begin[name] = Begin(0)
            continue
        tokens, minted = state.tokens_milli(name), shard_limit.minted_since_anchor(anchor_ms)
        half = halve(shard_limit, tokens, anchor_ms, now_ms)
        fraction = half.fraction if shard_limit.rule.unit(count) else None
        begin[name] = Begin(half.moved, fraction)
        moved, full = shard_limit.moved_by_anchor(anchor_ms), half.kept + half.moved
        moves[name] = Move(minted, minted, shard_limit.ceiling_milli, moved, full, fraction, fraction)
        if half.available < 0:  # half of a debt, maybe nothing: it must be the one that was seen, however deep
            give[name], debts[bucket_attributes(name).tokens] = -half.moved, tokens
        elif half.full:  # that it is full is asked for; a ceiling of 0 has not what comes until the anchor
            force[name] = half.moved
        else:
            take[name] = half.moved
    change = Change(
        anchor_ms,
        moves,
        take,
        force,
        give,
        counted={name: -begin[name].tokens for name in moves},
        values={SHARD_COUNT: count} | ({} if state.id.shard else {WRITES_THEN: state.item[WRITES]}) | _excess(state, 1),
        remove=(TTL,),  # even one that was set since
        expected=debts,
    )
    item = sibling_item(state, other, begin, shard_count=count, anchor_ms=anchor_ms) | _excess(state, 0)
    when = Conditions(absent=(PK,))
    if leftover is not None:
        when = Conditions(equals={ANCHOR: read_bucket(leftover).anchor_ms})
    return Transact((write(state, change, now_ms), Put(item, when)))


def _excess(state: BucketState, more: int) -> Item:
    """Return the attributes of half of what was used beside what balances show; ``more``: of the odd one."""
    found: Item = {}
    for name, each in state.shard_limits.items():
        if each.excess:
            found |= excess_attributes(name, (each.excess + more) // 2, each.excess_until_ms)
    return found


def _make(home: BucketState, parent: BucketState, shard: int, now_ms: int) -> Flow[Collection[int]]:
    """Create a shard that was split off once but is gone, as new; a bucket that comes back is new as well. Return the
    shards written.

    The transaction asks that its parent and shard 0 are what they were: the shards are not read at one instant, and one
    that has merged meanwhile must not begin anew with tokens that its parent has.
    """
    count = home.shard_count
    begin = {
        name: Begin(limit_share(each.limit, each.limit._initial_milli, shard, count))
        for name, each in home.shard_limits.items()
    }
    item = sibling_item(home, home.id.other(shard), begin, shard_count=count, anchor_ms=now_ms)
    known = {state.id.shard: state for state in (home, parent)}
    unchanged = [write(each, Change(each.anchor_ms), now_ms) for each in known.values()]
    try:
        yield from with_retries(Transact((Put(item, Conditions(absent=(PK,))), *unchanged)))
    except TransactionCancelled:
        return ()  # another process created it, or shards have split or merged
    return (shard, *known)
