"""The fast path: the commonest takes of one request that fits a bucket of one shard, made in one pass, because every
acquire and every correction of a bucket that is not hot pays for them.

*As an update*, the same as that of ``writing``, which a test checks.

*As the next item*, where the table is in the memory of this process. The problem: a write says what it wants by
conditions and additions, because others may write the item meanwhile, and most of its cost is to say that, to wait for
its turn, and to find out what became of it. The choice: the process that made the table takes its lock, looks whether
the item is the one that it has seen last, and replaces it. That is exact beside anybody else: other calls and other
repositories write to the same table, under the same lock, and a bucket that they have changed is not the one that was
seen. So nothing is reserved or owed, and nothing has to be given back. A test compares it with the updates.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from ...operations.values import NOTHING, Conditions, Item, Update
from ...rules.balances import ShardLimit, take
from ...rules.rule import FOREVER_MS
from ...runtime.named_tuple import NamedTuple
from ...schema.attributes import ACQUIRES, ANCHOR, BELOW, REFUSED_ASK, SHARD_COUNT, TTL, bucket_attributes
from ...schema.items import FUTURE_MS, ONE_WRITE, WRITES, BucketState
from ...values.resolution import Resolved
from ..bucket_queue import BucketRequest
from ..process.namespace_state import ANY_LEVEL, CachedShard, NamespaceState, OwnTable
from .write_plans import DEMAND_FOR_ADD, TTL_GRACE_MS
from .writing import TTL_SLACK_SECONDS


def fast_path_update(
    namespace_state: NamespaceState,
    cached: CachedShard,
    *,
    state: BucketState | None,
    requests: Sequence[BucketRequest],
    now_ms: int,
) -> Update | None:
    """Return the update, ``None`` in any other case."""
    request, counts = requests[0], requests[0].counts
    if state is None or len(requests) > 1 or request.blocked:
        return None
    if request.shadow_amounts or counts.amounts:
        return None
    item = state.item
    if now_ms >= state.begins_ms or item[SHARD_COUNT] > 1 or item[ANCHOR] > now_ms + FUTURE_MS:
        return None
    prefetch = request.queue.prefetch
    used = request.checked or request.unchecked
    if prefetch is not None and not prefetch.is_left_alone(request.config, state, used, counts.events, now_ms):
        return None
    add = {WRITES: ONE_WRITE}
    if counts.events:
        add[ACQUIRES] = counts.events
        if counts.below:
            add[BELOW] = counts.below
    if used:
        update = _consume(namespace_state, cached, state, request, add, now_ms)
    else:
        update = _give_back(namespace_state, cached, state, request.given, add, now_ms)
    refusals = namespace_state.pending_refusals
    if update is not None and cached in refusals.counts:
        add |= refusals.take(cached)  # of the update, too
        if ask := cached.last_refusal.ask:
            update = update._replace(set={**update.set, REFUSED_ASK: ask})
    return update


def _consume(  # noqa: C901, PLR0915 - one pass, because every acquire pays for it
    namespace_state: NamespaceState,
    cached: CachedShard,
    state: BucketState,
    request: BucketRequest,
    add: dict[str, int],
    now_ms: int,
) -> Update | None:
    """Return the update of an acquire, or of a correction that takes more; ``add`` has the counts."""
    config, checked, given = request.config, request.checked, request.given
    if config is None or not cached.agrees_with(config) or (config.since_ms >= 0 and config.at(now_ms) is not config):
        return None
    item, taken, others = state.item, checked or request.unchecked, not cached.others.are_away
    values, least, most, same, found = {}, {}, {}, {ANCHOR: item[ANCHOR]}, 0
    for name, tokens, consumed, ceiling, minted_up_to, at_anchor, slow, fraction in state.limit_states:
        minted = minted_up_to(now_ms) - at_anchor
        full = ceiling - minted
        missing, net = full - item[tokens], taken.get(name)
        if missing < 0:
            missing = 0
        if net:
            found += 1
            if missing or (others and cached.others.demand(name) >= DEMAND_FOR_ADD):
                if checked:
                    least[tokens] = net - minted
                most[tokens] = full
                add[tokens] = -net
                if slow is not None:
                    if fraction not in item:
                        return None
                    same[fraction] = item[fraction]
            else:
                least[tokens] = full
                values[tokens] = full - net
                if slow is not None and not _write_at_ceiling(slow, tokens, item, now_ms, least, values):
                    return None
            add[consumed] = net
            missing += net
        elif given and (back := given.get(name)):
            found += 1
            add[tokens] = back
            add[consumed] = -back
        if missing > ceiling:
            return None
    if found < len(taken) + len(given):  # an amount of 0, or of a limit that the bucket lacks
        return None
    if request.unlimited:
        if not state.ceilings.keys().isdisjoint(request.unlimited):  # it still has a limit that the config lacks
            return None
        add |= {bucket_attributes(name).consumed: amount for name, amount in request.unlimited.items() if amount}
    multiplier = namespace_state.settings.ttl_multiplier
    if multiplier and not config.own and state.fill_ms < FOREVER_MS:
        if TTL not in item:
            return None
        kept_ms = TTL_GRACE_MS + multiplier * state.fill_ms
        if kept_ms < state.unused_ms:
            kept_ms = state.unused_ms
        values[TTL] = ttl = max(item[TTL], -(-(now_ms + kept_ms) // 1000))
        most[TTL] = ttl + TTL_SLACK_SECONDS
    elif TTL in item:
        return None
    signs = namespace_state.write_tokens
    below = NOTHING if signs is None else signs.mark(values, item, now_ms)
    return Update(cached.key, add, values, (), Conditions((), (), same, least, most, below))


def _write_at_ceiling(
    slow: ShardLimit, tokens: str, item: Item, now_ms: int, least: dict[str, int], values: dict[str, int]
) -> bool:
    """Finish the absolute write of a slow limit; return ``False`` if it depends on the fraction that was seen."""
    values[tokens] += slow.minted_since_anchor(now_ms) - slow.moved_by_anchor(now_ms)
    values[bucket_attributes(slow.limit.name).fraction] = slow.whole_at(now_ms)
    least[tokens] += 1
    return bool(item[tokens] >= least[tokens])


def _give_back(
    namespace_state: NamespaceState,
    cached: CachedShard,
    state: BucketState,
    given: Mapping[str, int],
    add: dict[str, int],
    now_ms: int,
) -> Update | None:
    """Return the update of a correction that takes nothing; ``add`` has the counts."""
    if not given or not all(given.values()) or not given.keys() <= state.ceilings.keys():
        return None
    exists = []
    for name, back in given.items():
        at = bucket_attributes(name)
        exists.append(at.tokens)
        add[at.tokens] = back
        add[at.consumed] = -back
    values: dict[str, int] = {}
    signs = namespace_state.write_tokens
    below = NOTHING if signs is None else signs.mark(values, state.item, now_ms)
    same = {SHARD_COUNT: state.item[SHARD_COUNT]}
    return Update(cached.key, add, values, (), Conditions(tuple(exists), (), same, below=below))


# the next item


class Terms(NamedTuple):
    """By what plain acquires take from a bucket of this shape under these limits, from ``from_ms`` until ``until_ms``.

    ``shape``: all of its state but the item. ``kept_ms``: the time after which the bucket expires; ``None`` if it does
    not.
    """

    resolved: Resolved
    shape: tuple[Any, ...]
    from_ms: int
    until_ms: int
    kept_ms: int | None


Draw = tuple[CachedShard, Resolved, Mapping[str, int], bool, Mapping[str, int] | None]
"""What an acquire takes from a bucket, by these limits; whether it comes from an entity below; what is only counted."""
_Change = tuple[BucketState, Item, Item | None, Sequence[str]]
"""A bucket, its item, and the item after a draw: nothing, if it is short, with the limits that are."""


def take_at_once(
    namespace_state: NamespaceState,
    table: OwnTable,
    home: CachedShard,
    resolved: Resolved,
    amounts: Mapping[str, int],
    now_ms: int,
) -> tuple[BucketState, Sequence[str]] | None:
    """Take from one bucket, and return its state afterwards, and the limits that were short; ``None`` if that is not as
    plain as it seems.
    """
    if home.waiting or (home.server is not None and not home.lingers):  # others were before it
        return None
    with table.lock:
        change = _change(namespace_state, table, home, resolved, amounts, now_ms)
        if change is None:
            return None
        state, _, after, short = change
        if (prefetch := home.prefetch) is not None and (
            after is None or not prefetch.is_left_alone(resolved.config, state, amounts, 1, now_ms)
        ):
            return None
        if after is None:
            home.seen_at_ms = home.short_ms = now_ms
            return state, short
        return _replace(namespace_state, table, home, change, after, now_ms), ()


def take_from_all(
    namespace_state: NamespaceState, table: OwnTable, draws: Sequence[Draw], now_ms: int
) -> list[BucketState] | None:
    """Take from several buckets, of which nothing is prefetched, and return their states afterwards; ``None`` if one of
    them is short, or that is not as plain as it seems.
    """
    if any(home.waiting or home.busy or home.prefetch is not None for home, *_ in draws):
        return None
    changes = list[tuple[CachedShard, _Change, Item]]()
    with table.lock:
        for home, resolved, amounts, below, counted in draws:
            change = _change(namespace_state, table, home, resolved, amounts, now_ms)
            if change is None or (after := change[2]) is None:
                return None
            if below:
                after[BELOW] = after.get(BELOW, 0) + 1
            if counted:
                _count(after, counted)
            changes.append((home, change, after))
        return [_replace(namespace_state, table, *each, now_ms) for each in changes]


def _change(
    namespace_state: NamespaceState,
    table: OwnTable,
    home: CachedShard,
    resolved: Resolved,
    amounts: Mapping[str, int],
    now_ms: int,
) -> _Change | None:
    """Return what becomes of the item of a bucket, which is not changed yet."""
    state, terms = home.state, home.terms
    if state is None or not home.others.are_away:
        return None
    if terms is None or terms.resolved is not resolved or terms.shape[0] is not state.shard_limits:
        terms = home.terms = _terms(namespace_state, home, state, resolved)
    if terms is None or not terms.from_ms <= now_ms < terms.until_ms:
        return None
    before = table.look(home.key)
    if before is None or not (before is state.item or before == state.item):
        return None
    kept_ms = terms.kept_ms
    if (TTL in before) is (kept_ms is None):  # the last writer keeps buckets otherwise
        return None
    after = before.copy()
    short = _take_all(after, state, amounts, now_ms)
    if short is None:
        return None
    if short:
        return state, before, None, short
    after[WRITES] += ONE_WRITE
    after[ACQUIRES] = after.get(ACQUIRES, 0) + 1
    if kept_ms is not None and (expires := -(-(now_ms + kept_ms) // 1000)) > after[TTL]:
        after[TTL] = expires
    return state, before, after, ()


def _take_all(item: Item, state: BucketState, amounts: Mapping[str, int], now_ms: int) -> Sequence[str] | None:
    """Take the amounts from the limits of an item; return those that are short, and ``None`` if a limit is unknown, or
    more changes than balances.
    """
    found, short = 0, tuple[str, ...]()
    for name, tokens, consumed, ceiling, minted_up_to, at_anchor, slow, _ in state.limit_states:
        minted, there = minted_up_to(now_ms) - at_anchor, item[tokens]
        if net := amounts.get(name):
            found += 1
            left = take(there, net, ceiling, minted)
            if left is None:
                short = (*short, name)
            elif slow is not None and there + minted >= ceiling:
                return None  # its fraction changes
            else:
                item[tokens] = left
                item[consumed] += net
        elif there + minted < 0:
            return None  # a debt is kept for longer
    if found < len(amounts):  # an amount of 0, or of a limit that the bucket lacks
        return None
    return short


def _count(item: Item, amounts: Mapping[str, int]) -> None:
    """Count amounts of names without a limit."""
    for name, amount in amounts.items():
        if amount:
            consumed = bucket_attributes(name).consumed
            item[consumed] = item.get(consumed, 0) + amount


def _replace(
    namespace_state: NamespaceState, table: OwnTable, home: CachedShard, change: _Change, item: Item, now_ms: int
) -> BucketState:
    """Replace the item of a bucket, which also counts its pending refusals; return its state."""
    (state, before, _, _), refusals = change, namespace_state.pending_refusals
    if refusals.counts and home in refusals.counts:
        for name, number in refusals.take(home).items():
            item[name] = item.get(name, 0) + number
        if ask := home.last_refusal.ask:
            item[REFUSED_ASK] = ask
    table.replace(home.key, before, item, now_ms)
    if now_ms >= home.others.window_ends_ms:
        home.others.enter(state, now_ms)
    # with the item, under its lock: a copy that is learnt later is of a later write
    home.state = state = tuple.__new__(BucketState, (item, *home.terms.shape))
    home.seen_at_ms, home.passed = now_ms, ANY_LEVEL
    return state


def _terms(namespace_state: NamespaceState, home: CachedShard, state: BucketState, resolved: Resolved) -> Terms | None:
    """Return the terms of a bucket; ``None`` if its acquires are not plain."""
    config, settings = resolved.config, namespace_state.settings
    if not resolved.is_plain or config.shadow or settings.split_above is not None:
        return None
    if state.shard_limits.keys() != config.by_name.keys() or not namespace_state.agree(home, config):
        return None
    multiplier, kept_ms = settings.ttl_multiplier, None
    if multiplier and not config.own and state.fill_ms < FOREVER_MS:
        kept_ms = max(TTL_GRACE_MS + multiplier * state.fill_ms, state.unused_ms)
    return Terms(resolved, state[1:], *state.plain_between, kept_ms)
