"""What the usage of an hour says of other limits: how many calls they would have refused, at least and at most.

The problem: the table keeps for each hour how many calls a bucket had and how many tokens they took, and neither the
order nor the bursts within the hour. The choice: two bounds, which hold for every order. In an hour a bucket gives at
most its ceiling and what is minted in the hour: what was asked for beyond that is refused at least. It gives at
least what it surely had when the hour began: what was asked for beyond that is refused at most. What it surely has at
the end of an hour is what it had at the begin, and what was minted, up to the ceiling, less all that was asked for.

The price: both count each limit as if it were the only one, and all calls of an hour as of one size, the mean. If the
use of an hour fits into what the bucket surely has, both bounds are 0.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from ..rules.registry import rule_of
from ..rules.rule import FOREVER_MS
from ..runtime.named_tuple import NamedTuple
from ..values.limits import MILLI, Limit
from ..values.timetables import timetable_of

HOUR_MS: Final = 3_600_000


class Hour(NamedTuple):
    """The use of one limit in an hour: calls that were admitted and refused, and the tokens of the former."""

    begin_ms: int
    calls: int
    refused: int
    tokens: int


class Bounds(NamedTuple):
    """How many calls a limit would have refused, ``least`` and ``most``, of so many ``calls``."""

    least: int
    most: int
    calls: int


def judged(limit: Limit, hours: Iterable[Hour]) -> list[tuple[Hour, Bounds]]:
    """Return the bounds for each of the hours, which are in the order of time; an hour that is missing had no use.

    What the bucket had before the first hour is unknown. Slots have no bounds: every hour may be refused.
    """
    found = []
    sure, at_ms = 0, None
    for hour in hours:
        if at_ms is not None and at_ms < hour.begin_ms:
            sure = _grown(limit, sure, at_ms, hour.begin_ms)
        end_ms = hour.begin_ms + HOUR_MS
        calls = hour.calls + hour.refused
        # Of a call, rounded up; those that were refused count as large as those admitted.
        size = -(-hour.tokens * MILLI // hour.calls) if hour.calls and hour.tokens > 0 else 0
        found.append((hour, _bounds(limit, hour, sure, calls, size)))
        asked = calls * size if hour.calls or not calls else FOREVER_MS  # of those refused alone, the amount is unknown
        sure = max(0, _grown(limit, sure, hour.begin_ms, end_ms) - max(asked, 0))
        at_ms = end_ms
    return found


def summed(bounds: Iterable[Bounds]) -> Bounds:
    """Return the sums of bounds."""
    every: Sequence[Bounds] = list(bounds)
    return Bounds(
        sum(each.least for each in every), sum(each.most for each in every), sum(each.calls for each in every)
    )


def looks_back_ms(limit: Limit) -> int:
    """Return how long before an hour the use matters for what the bucket has: the time in which it fills."""
    if limit.schedule:
        return max(_fills_ms(each) for each in timetable_of(limit).variants)
    return _fills_ms(limit._rule)


def _fills_ms(limit: Limit) -> int:
    longest_ms = rule_of(limit).longest_ms(limit._ceiling_milli) if limit._ceiling_milli else 0
    return min(longest_ms, FOREVER_MS)


def _bounds(limit: Limit, hour: Hour, sure: int, calls: int, size: int) -> Bounds:
    if limit._has_slots:
        return Bounds(0, calls, calls)
    if not hour.calls:  # nothing is known of what the refused ones asked for
        return Bounds(calls if limit.blocks and not limit.schedule else 0, calls, calls)
    if not size:
        return Bounds(0, 0, calls)
    end_ms = hour.begin_ms + HOUR_MS
    ceilings = [piece._ceiling_milli for piece, _, _ in _pieces(limit, hour.begin_ms, end_ms)]
    if size > max(ceilings):
        return Bounds(calls, calls, calls)
    most_given = max(ceilings) + _minted(limit, hour.begin_ms, end_ms, most=True)
    least_given = min(sure, *ceilings)
    return Bounds(max(0, calls - most_given // size), max(0, calls - least_given // size), calls)


def _minted(limit: Limit, begin_ms: int, end_ms: int, *, most: bool) -> int:
    """Return what is minted between two instants; of windows that begin with the first use the most or the least."""
    total = 0
    for piece, from_ms, to_ms in _pieces(limit, begin_ms, end_ms):
        if piece.kind == "first_use":
            windows = (to_ms - from_ms) // (piece.refill_period * MILLI)
            total += piece.refill_amount * MILLI * (windows + 1 if most else windows)
        elif not piece._has_slots:
            rule = rule_of(piece)
            total += rule.minted(to_ms - 1 if most and to_ms == end_ms else to_ms) - rule.minted(from_ms)
    return total


def _grown(limit: Limit, sure: int, begin_ms: int, end_ms: int) -> int:
    """Return what a bucket surely has at an instant, if it surely had ``sure`` before and no call took any."""
    for piece, from_ms, to_ms in _pieces(limit, begin_ms, end_ms):
        sure = min(piece._ceiling_milli, sure + _minted(piece, from_ms, to_ms, most=False))
    return sure


def _pieces(limit: Limit, begin_ms: int, end_ms: int) -> Iterable[tuple[Limit, int, int]]:
    """Yield the values that hold between two instants, with the instants between which they do."""
    if not limit.schedule:
        yield limit._rule, begin_ms, end_ms
        return
    timetable, at_ms = timetable_of(limit), begin_ms
    while at_ms < end_ms:
        piece = timetable.at(at_ms)
        to_ms = min(piece.end_ms, end_ms)
        yield piece.limit, at_ms, to_ms
        at_ms = to_ms
