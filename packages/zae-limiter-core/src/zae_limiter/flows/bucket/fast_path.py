"""The fast path: the commonest writes, for one request that fits a bucket of one shard.

They are the same updates as those of ``writing``, which a test checks, but made in one pass, because every acquire and
every correction of a bucket that is not hot pays for them.
"""

from collections.abc import Mapping, Sequence

from ...operations.values import NOTHING, Conditions, Item, Update
from ...rules.balances import ShardLimit
from ...rules.rule import FOREVER_MS
from ...schema.attributes import ACQUIRES, ANCHOR, BELOW, REFUSED_ASK, SHARD_COUNT, TTL, bucket_attributes
from ...schema.items import AHEAD_MS, ONE_WRITE, WRITES, BucketState
from ..bucket_queue import BucketRequest
from ..process.namespace_state import CachedShard, NamespaceState
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
    if request.shadow_amounts or counts.amounts or request.unlimited:
        return None
    item = state.item
    if now_ms >= state.begins_ms or item[SHARD_COUNT] > 1 or item[ANCHOR] > now_ms + AHEAD_MS:
        return None
    hold = request.queue.hold
    used = request.checked or request.unchecked
    if hold is not None and not hold.is_left_alone(request.config, state, used, counts.events, now_ms):
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
