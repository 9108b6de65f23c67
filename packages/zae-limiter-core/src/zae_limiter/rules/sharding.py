"""The arithmetic of a bucket that is split into shards: pure functions, without any write.

The problem: no process sees all shards at one instant, and together they must mint as much as one bucket. The choice: a
shard's part follows from its number and the count alone. ``flows.bucket.splitting`` has the price.

Amounts are in millitokens, instants in epoch milliseconds. Shard ``k`` of ``n`` splits into ``k`` and ``k + n`` of
``2n``. Each has its ``share`` of the ceiling and of the tokens minted; the shares add up to the whole, to the
millitoken, also while only some of the shards have been split.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ..runtime.named_tuple import NamedTuple
from ..values.limits import MILLI, Limit
from .balances import ShardLimit, limit_share, move_anchor, reached_at, refill_bucket
from .rule import FOREVER_MS

NEVER: Final = math.inf
MAX_SHARDS: Final = 64
SHARD_COUNTS: Final = frozenset(1 << power for power in range(MAX_SHARDS.bit_length()))


def born_at(shard: int) -> int:
    """Return the shard count before the split that made a shard (not 0)."""
    return 1 << (shard.bit_length() - 1)


def parent_of(shard: int) -> int:
    """Return the shard that a shard (not 0) was split off from."""
    return shard - born_at(shard)


def unseen_shards(counts: Mapping[int, int]) -> list[int]:
    """Return the shards that exist but were not seen; ``counts`` has the shard count that each seen shard knows.

    A shard whose parent was not split, as far as it was seen, is part of the parent. Shard 0 is split before any other,
    but may have been seen before that. Empty if shard 0 was not seen.
    """
    known = max(counts.values()) if 0 in counts else 0
    return [shard for shard in range(known) if shard not in counts and _was_split_off(shard, counts)]


def _was_split_off(shard: int, counts: Mapping[int, int]) -> bool:
    while shard not in counts:
        parent = parent_of(shard)
        if parent in counts:
            return counts[parent] > born_at(shard)
        shard = parent
    return True


class Halves(NamedTuple):
    """The tokens of one limit at a split, in millitokens as of the new anchor; ``moved`` goes to the new half, ``kept``
    stays.

    ``full``: the shard is at its ceiling, so that each half begins full. ``fraction``: of both, in their own units. It
    is that of the shard, because then the halves mint together what the shard would, to the millitoken.
    """

    available: int
    kept: int
    moved: int
    full: bool
    fraction: int


def halve(shard_limit: ShardLimit, tokens_milli: int, at_ms: int, now_ms: int | None = None) -> Halves:
    """Return the tokens of one limit at a split; the new half gets at most its ceiling. The new anchor ``at_ms`` may be
    a moment after ``now_ms``: a slow limit that is full then is so now, if it was.
    """
    available, limit = refill_bucket(shard_limit, tokens_milli, at_ms), shard_limit.limit
    mine, other = (
        ShardLimit(limit, at_ms, shard_limit.shard + more, 2 * shard_limit.shards) for more in (0, shard_limit.shards)
    )
    if available >= shard_limit.ceiling_milli:
        full_ms = at_ms if now_ms is None or not mine.unit else now_ms
        if refill_bucket(shard_limit, tokens_milli, full_ms) < available:
            full_ms = at_ms
        whole = shard_limit.rule.remainder(full_ms, shard_limit.shard, shard_limit.shards)
        kept, moved = (each.ceiling_milli - each.moved_by_anchor(full_ms) for each in (mine, other))
        return Halves(available, kept, moved, full=True, fraction=whole)
    fraction, moved = shard_limit.fraction or 0, available // 2
    moved = -(-available // 2) if available < 0 else min(moved, other.ceiling_milli)
    return Halves(available, available - moved, moved, full=False, fraction=fraction)


class Part(NamedTuple):
    """One limit on one shard, with its stored balance."""

    shard_limit: ShardLimit
    tokens_milli: int


class Merged(NamedTuple):
    """One limit of two shards in one, in millitokens as of the new anchor; ``fraction``, in units of the merged shard,
    is 0 for a limit that has none. ``begun_ms``: of its window, if one of the first use has begun. ``excess``: what was
    used beside what the balance shows.
    """

    tokens: int
    fraction: int
    begun_ms: int | None
    excess: int
    excess_until_ms: int


def merge(halves: Sequence[Part], limit: Limit, at_ms: int) -> Merged:
    """Return what the two shards ``k`` and ``k + n`` of ``2n`` hold of a limit together, as shard ``k`` of ``n``: the
    sum of their headrooms at the new anchor ``at_ms``, debts included.

    No token comes earlier than to a bucket that was never split: a fraction becomes the larger one, a window of the
    first use ends with the later one.
    """
    moved = [half if half.shard_limit.limit == limit else Part(*move_anchor(*half, at_ms, limit)) for half in halves]
    mine, full, tokens, fraction = moved[0].shard_limit, 0, 0, 0
    count = mine.shards // 2
    for shard_limit, stored in moved:
        if refill_bucket(shard_limit, stored, at_ms) >= shard_limit.ceiling_milli:
            full, tokens, part = full + 1, tokens + shard_limit.ceiling_milli, shard_limit.whole_at(at_ms)
        else:
            tokens, part = tokens + stored + shard_limit.moved_by_anchor(at_ms), shard_limit.fraction or 0
        fraction = max(fraction, part)
    if full == 2:
        fraction = mine.rule.remainder(at_ms, mine.shard, count) if mine.rule.unit(count) else 0
    elif mine.unit:  # a unit of the merged shard is twice as large as one of its halves
        whole, fraction = divmod(fraction, mine.unit // 2)
        tokens -= whole
        if not mine.rule.unit(count):  # it is not slow any more
            tokens, fraction = tokens - (fraction > 0), 0
    excess = sum(half.shard_limit.excess_at(at_ms) for half in moved)
    until_ms = max(half.shard_limit.excess_until_ms for half in moved if half.shard_limit.excess or not excess)
    return Merged(tokens, fraction, _later_begin(moved, at_ms), excess, until_ms)


def _later_begin(halves: Sequence[Part], at_ms: int) -> int | None:
    """Return the begin of the window under way that ends last; ``None`` if none has begun."""
    limit = halves[0].shard_limit.limit
    if limit.kind != "first_use" or all(half.shard_limit.begun_ms is None for half in halves):
        return None
    begins, length_ms = [], limit.refill_period * MILLI
    for shard_limit, stored in halves:
        begun_ms = shard_limit.anchor_ms if shard_limit.begun_ms is None else shard_limit.begun_ms
        is_full = refill_bucket(shard_limit, stored, at_ms) >= shard_limit.ceiling_milli
        if shard_limit.begun_ms is not None or not is_full:
            begins.append(begun_ms + max(0, at_ms - begun_ms) // length_ms * length_ms)
    return max(begins)


def next_merge(counts: Mapping[int, int]) -> tuple[int, int] | None:
    """Return the two shards to merge next, ``None`` if one is left; ``counts`` has the shard count that each shard
    knows.

    Shard 0 goes first, as in a split, so that it knows the newest count; those that lag behind it follow before it goes
    on. What no shard was split into is not a part of the bucket.
    """
    known = {0: counts[0]}
    for shard in sorted(counts.keys() - known.keys()):
        if known.get(parent_of(shard), 0) > born_at(shard):
            known[shard] = counts[shard]
    most = max(known.values())
    if most == 1:
        return None
    first = 0 if known[0] == most else min(shard for shard, count in known.items() if count == most)
    return first % (most // 2), first % (most // 2) + most // 2


def full_part(limit: Limit, at_ms: int, shard: int = 0, shards: int = 1) -> Part:
    """Return a limit at its ceiling on a shard, as of ``at_ms``."""
    shard_limit = ShardLimit(limit, at_ms, shard, shards)
    return Part(shard_limit, shard_limit.ceiling_milli)


def new_part(limit: Limit, at_ms: int, shard: int = 0, shards: int = 1) -> Part:
    """Return a limit that a shard lacks, or whose bucket is not there, as of ``at_ms``: at its ceiling, unless its kind
    begins with less.
    """
    shard_limit = ShardLimit(limit, at_ms, shard, shards, missing=True)
    return Part(shard_limit, limit_share(limit, limit._initial_milli, shard, shards))


def reshape(part: Part, limit: Limit, at_ms: int) -> Part:
    """Return what a limit has on a shard once another one is in its place, as of ``at_ms``."""
    shard_limit = part.shard_limit
    if not limit._has_slots:
        return Part(*move_anchor(*part, at_ms, limit))
    if not shard_limit.limit._has_slots:  # of another kind: they begin as new
        return new_part(limit, at_ms, shard_limit.shard, shard_limit.shards)
    ruled = shard_limit.moved(at_ms, limit)  # holders keep theirs, so the change is free or lacking
    more = ruled.ceiling_milli - shard_limit.ceiling_milli
    return Part(ruled, min(ruled.ceiling_milli, refill_bucket(*part, at_ms) + more))


def unseen_parts(limit: Limit, at_ms: int, counts: Mapping[int, int]) -> list[Part]:
    """Return the limit on each shard that ``unseen_shards`` finds, at its ceiling."""
    return [full_part(limit, at_ms, shard, max(counts.values())) for shard in unseen_shards(counts)]


def calculate_balance(parts: Sequence[Part], now_ms: int) -> int:
    """Return the sum of the headrooms of all shards at ``now_ms``; a debt of one shard lowers it."""
    return sum(refill_bucket(shard_limit, tokens, now_ms) for shard_limit, tokens in parts)


def calculate_servable(parts: Sequence[Part], now_ms: int) -> int:
    """Return the tokens that can be taken from the shards at ``now_ms``; a debt blocks only the shard that carries
    it.
    """
    return sum(max(0, refill_bucket(shard_limit, tokens, now_ms)) for shard_limit, tokens in parts)


def calculate_wait(parts: Sequence[Part], cost_milli: int, now_ms: int) -> float:
    """Return the seconds from ``now_ms`` to the first millisecond at which the shards cover the cost; ``NEVER`` if they
    cannot.

    A cost of 0 is covered if one of the shards is not in debt.
    """
    if covers(parts, cost_milli, now_ms):
        return 0.0
    if cost_milli > _ceiling(parts):
        return NEVER
    return _seconds_until(parts, cost_milli, now_ms, lambda at_ms: covers(parts, cost_milli, at_ms))


def calculate_next_token(parts: Sequence[Part], now_ms: int) -> float:
    """Return the seconds from ``now_ms`` until one more whole token is there, after a debt the first; ``NEVER`` at the
    ceiling.
    """
    next_milli = (max(0, calculate_balance(parts, now_ms) // MILLI) + 1) * MILLI
    if next_milli > _ceiling(parts):
        return NEVER
    return _seconds_until(parts, next_milli, now_ms, lambda at_ms: calculate_balance(parts, at_ms) >= next_milli)


def _seconds_until(parts: Sequence[Part], wanted_milli: int, now_ms: int, holds: Callable[[int], bool]) -> float:
    """Return the seconds to the first millisecond at which the shards have what is wanted; ``holds`` tests an
    instant.
    """
    most_ms = parts[0].shard_limit.rule.ask_again_ms
    if most_ms < FOREVER_MS:
        return most_ms / 1000
    if len(parts) == 1:
        enough = reached_at(*parts[0], wanted_milli)
        return NEVER if enough >= FOREVER_MS else (enough - now_ms) / 1000
    short, enough = (
        now_ms,
        max(reached_at(shard_limit, tokens, shard_limit.ceiling_milli) for shard_limit, tokens in parts),
    )
    while enough - short > 1:  # headroom never falls with time
        middle = (short + enough) // 2
        short, enough = (short, middle) if holds(middle) else (middle, enough)
    return NEVER if enough >= FOREVER_MS else (enough - now_ms) / 1000


def _ceiling(parts: Sequence[Part]) -> int:
    return sum(shard_limit.ceiling_milli for shard_limit, _ in parts)


def covers(parts: Sequence[Part], cost_milli: int, now_ms: int) -> bool:
    """Return whether the shards cover the cost at ``now_ms``."""
    if cost_milli == 0:
        return any(refill_bucket(shard_limit, tokens, now_ms) >= 0 for shard_limit, tokens in parts)
    return calculate_servable(parts, now_ms) >= cost_milli


FULL_ENOUGH: Final = 4, 5  # of what a shard holds at most: the rest is minted before the next caller comes


def ripe(part: Part, amount: int, parts: float, now_ms: int) -> int:
    """Return what a shard has for an amount that may be divided into so many parts; 0 before it has such a part, or
    most of what it can ever hold. A debt shows at any time.
    """
    most, of = FULL_ENOUGH
    least = min(amount, part.shard_limit.ceiling_milli * most // of) / parts
    there = refill_bucket(*part, now_ms)
    return there if there < 0 or there >= least else 0


Amounts = Mapping[str, int]


def allocate(amounts: Amounts, headrooms: Mapping[int, Amounts]) -> dict[int, dict[str, int]] | None:
    """Return the part of a request that each shard serves, in millitokens by limit; ``None`` if the shards cannot serve
    it.

    ``headrooms`` has the headroom of each shard. The parts come from few shards: those that cover most of it are first.
    """
    missing = {name: amount for name, amount in amounts.items() if amount > 0}
    served: dict[int, dict[str, int]] = {}
    while missing:
        best = max(headrooms.keys() - served.keys(), key=lambda shard: _weight(missing, headrooms[shard]), default=None)
        if best is None or _weight(missing, headrooms[best]) == 0:
            return None
        served[best] = {name: min(left, headroom) for name, left, headroom in _there(missing, headrooms[best])}
        missing = {name: left - served[best].get(name, 0) for name, left in missing.items()}
        missing = {name: left for name, left in missing.items() if left}
    return served


def _there(amounts: Amounts, headroom: Amounts) -> list[tuple[str, int, int]]:
    return [(name, amount, headroom[name]) for name, amount in amounts.items() if headroom.get(name, 0) > 0]


def _weight(amounts: Amounts, headroom: Amounts) -> float:
    """Return how many of the requested limits the shard serves, each as a fraction of its amount."""
    return sum(min(1.0, there / amount) for _, amount, there in _there(amounts, headroom))
