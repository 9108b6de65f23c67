"""The arithmetic of a limit whose values change by a schedule: what becomes of a balance over the boundaries.

The problem: a bucket that is unused over a boundary is reshaped only by the next call, and must then have what it
would have if it had been reshaped at the boundary. The choice: within one piece of the schedule, a balance ``x``
becomes ``min(x + minted, ceiling)``; so it does over any number of pieces, because such functions compose: the minted
amounts add up, and each ceiling bounds what the pieces before it leave. So a reshape over ten boundaries is the same
conditional update as over one, whatever others have taken meanwhile.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache, partial
from typing import Final

from ..runtime.dataclass import replace
from ..runtime.named_tuple import NamedTuple
from ..values.limits import Limit
from ..values.timetables import timetable_of
from .balances import Move, ShardLimit, arrive, move_anchor, refill_bucket
from .rule import FOREVER_MS
from .sharding import NEVER, Part, calculate_next_token, calculate_servable, calculate_wait, covers, new_part

MOST_PIECES: Final = 1_500  # that a wait looks at: two years of nights
_SOON: Final = 16  # pieces; a wait that is longer may be one for ever


class Carried(NamedTuple):
    """What a balance ``x`` at an anchor becomes: ``min(x + minted, ceiling)``, in millitokens."""

    minted: int
    ceiling: int


def carry(shard_limit: ShardLimit, declared: Limit, to_ms: int) -> Carried:
    """Return what a balance becomes from its anchor to a later instant, by the schedule of the ``declared`` limit.

    Up to the anchor the balance is bounded by ``shard_limit``, the rule that the bucket has.
    """
    timetable, at_ms = timetable_of(declared), shard_limit.anchor_ms
    ceiling, piece, ruled = shard_limit.ceiling_milli, timetable.at(at_ms), shard_limit
    minted = shard_limit.minted_since_anchor(at_ms)  # less than nothing, if the fraction lacks
    while True:
        mark = shard_limit.mark if at_ms == shard_limit.anchor_ms and piece.limit == shard_limit.limit else None
        ruled = ruled.moved(at_ms, piece.limit, mark)
        end_ms = min(piece.end_ms, to_ms)
        more = ruled.minted_since_anchor(end_ms)
        whole = replace(ruled, fraction=None).minted_since_anchor(end_ms) if ruled.unit else more  # from its ceiling
        minted, ceiling = minted + more, min(ceiling + whole, ruled.ceiling_milli)
        if end_ms == to_ms < piece.end_ms:
            return Carried(minted, ceiling)
        at_ms, piece = end_ms, timetable.after(piece)


def carry_through(
    shard_limit: ShardLimit, tokens_milli: int, declared: Limit, limit: Limit, at_ms: int, now_ms: int
) -> Move:
    """Return the move to another anchor, at which a limit has the value ``limit`` of its schedule; ``tokens_milli`` are
    those seen.
    """
    minted, ceiling = carry(shard_limit, declared, at_ms)
    due = minted if now_ms >= at_ms else carry(shard_limit, declared, max(now_ms, shard_limit.anchor_ms)).minted
    ruled = ShardLimit(limit, at_ms, shard_limit.shard, shard_limit.shards)
    full_ms = now_ms if limit == shard_limit.limit and tokens_milli + due >= ceiling else at_ms
    return arrive(ruled, due, minted, ceiling, full_ms)


def follow(shard_limit: ShardLimit, tokens_milli: int, declared: Limit, to_ms: int) -> tuple[ShardLimit, int]:
    """Return a quota and its balance at an instant: at each boundary of its schedule what was used counts."""
    timetable, at_ms, part = timetable_of(declared), shard_limit.anchor_ms, Part(shard_limit, tokens_milli)
    piece = timetable.at(at_ms)
    while True:
        if part.shard_limit.limit != piece.limit:
            part = Part(*move_anchor(*part, at_ms, piece.limit))
        if to_ms < piece.end_ms:
            return move_anchor(*part, to_ms)
        at_ms, piece = piece.end_ms, timetable.after(piece)


def wait_through(declared: Limit | None, parts: Sequence[Part], cost_milli: int, now_ms: int) -> float:
    """Return the seconds until the shards cover a cost, as ``calculate_wait``, over the boundaries of a schedule."""
    if declared is None:
        return calculate_wait(parts, cost_milli, now_ms)
    return _through(declared, parts, cost_milli, now_ms)


def next_token_through(declared: Limit | None, parts: Sequence[Part], now_ms: int) -> float:
    """Return the seconds until one more whole token is there, as ``calculate_next_token``, over the boundaries."""
    if declared is None:
        return calculate_next_token(parts, now_ms)
    balance = sum(refill_bucket(*part, now_ms) for part in parts)
    wanted = (max(0, balance // 1000) + 1) * 1000
    return _through(declared, parts, wanted, now_ms, calculate_next_token)


def _through(
    declared: Limit,
    parts: Sequence[Part],
    cost_milli: int,
    now_ms: int,
    first: Callable[[Sequence[Part], int], float] | None = None,
) -> float:
    """Return the seconds until the cost is covered; ``first`` answers for the piece that holds ``now_ms``, if another
    question is asked of it.

    A piece in which it is not is left at once: when it would be, if the piece did not end, may be far to seek.
    """

    def wait_for_cost(parts: Sequence[Part], at_ms: int) -> float:
        return calculate_wait(parts, cost_milli, at_ms)

    timetable, at_ms, answer = timetable_of(declared), now_ms, first or wait_for_cost
    piece = timetable.at(now_ms)
    if cost_milli > max(each._ceiling_milli for each in timetable.variants):
        return NEVER
    for number in range(MOST_PIECES):
        if number >= _SOON:
            from_full = partial(_wait_of_full, declared, tuple(map(_filled, parts)), cost_milli, at_ms)
            if all(tokens == shard_limit.ceiling_milli for shard_limit, tokens in parts):
                return (at_ms - now_ms) / 1000 + from_full()
            if number == _SOON and from_full() == NEVER:  # a bucket that is not full reaches no more
                return NEVER
        end_ms = piece.end_ms
        if end_ms >= FOREVER_MS:
            return (at_ms - now_ms) / 1000 + answer(parts, at_ms)
        if covers(parts, cost_milli, end_ms - 1) and at_ms + (wait := answer(parts, at_ms)) * 1000 < end_ms:
            return (at_ms - now_ms) / 1000 + wait
        at_ms, answer, piece = end_ms, wait_for_cost, timetable.after(piece)
        parts = [_moved(part, piece.limit, at_ms) for part in parts]
    return NEVER


def _filled(part: Part) -> Part:
    """Return a full limit on a shard, the same one for every caller: only windows of the first use know their begin."""
    shard_limit = part.shard_limit
    if shard_limit.limit.kind != "first_use":
        shard_limit = replace(shard_limit, begun_ms=None, fraction=None)
    return Part(shard_limit, shard_limit.ceiling_milli)


def _wait_of_full(declared: Limit, parts: tuple[Part, ...], cost_milli: int, at_ms: int) -> float:
    """Return the seconds from a boundary, at which the shards are full, until they cover a cost."""
    for peak in _peaks_of_full(declared, parts, at_ms):
        if cost_milli <= peak.balance_milli:
            return (peak.begin_ms - at_ms) / 1000 + calculate_wait(peak.parts, cost_milli, peak.begin_ms)
    return NEVER


class _Peak(NamedTuple):
    """A piece in which the shards reach more than in any before, with the shards at its begin."""

    balance_milli: int
    begin_ms: int
    parts: tuple[Part, ...]


@lru_cache(maxsize=256)
def _peaks_of_full(declared: Limit, parts: tuple[Part, ...], at_ms: int) -> tuple[_Peak, ...]:
    """Return the peaks from a boundary on: a bucket that is full there has the same ones for every caller and cost."""
    timetable, highest, peaks = timetable_of(declared), -1, list[_Peak]()
    piece = timetable.at(at_ms)
    for _ in range(MOST_PIECES):
        if last := piece.end_ms >= FOREVER_MS:
            reached = sum(part.shard_limit.ceiling_milli for part in parts)
        else:
            reached = calculate_servable(parts, piece.end_ms - 1)  # what is there at the boundary is the next piece's
        if reached > highest:
            highest = reached
            peaks.append(_Peak(reached, at_ms, parts))
        if last:
            break
        at_ms, piece = piece.end_ms, timetable.after(piece)
        parts = tuple(_moved(part, piece.limit, at_ms) for part in parts)
    return tuple(peaks)


def _moved(part: Part, limit: Limit, at_ms: int) -> Part:
    """Return a limit on a shard as a boundary leaves it: under the next values, with at most their ceiling. One that is
    not there yet begins with all of them.
    """
    before = part.shard_limit
    if before.missing:
        return new_part(limit, at_ms, before.shard, before.shards)
    return Part(*move_anchor(*part, at_ms, limit))
