"""Say whether one limit may give more than another, whatever a caller does.

What a limit gives in a span of time is at most what it has at once, and what comes meanwhile. Limits of one kind and
period compare by both. Others compare where that is certain: what may be too much counts as too much.
"""

from fractions import Fraction
from typing import Final

from .limit_declarations import LimitDecl
from .limit_text import write_amount, write_limit
from .weights import WeightsDecl

_HOUR: Final = 3600
_DAY: Final = 24 * _HOUR
_SPANS: Final = {  # the shortest and the longest one, where clocks change by an hour
    "minute": (60, 60),
    "hour": (_HOUR, _HOUR),
    "day": (_DAY - _HOUR, _DAY + _HOUR),
    "week": (7 * _DAY - _HOUR, 7 * _DAY + _HOUR),
    "month": (28 * _DAY - _HOUR, 31 * _DAY + _HOUR),
    "year": (365 * _DAY - _HOUR, 366 * _DAY + _HOUR),
}


def rate_of(limit: LimitDecl) -> Fraction | None:
    """Return the tokens in a second of a limit whose tokens come evenly; None for any other."""
    return _rate(limit) if limit.kind == "token_bucket" else None


def text_of(limit: LimitDecl) -> str:
    """Return a limit on one line, without its weights and its schedule."""
    return write_limit(limit.values)


def find_excess(limit: LimitDecl, bound: LimitDecl) -> str | None:
    """Return how a limit, whatever its schedule, may give more than a bound; None if it never does."""
    if not limit.capacity:
        return None
    mine, theirs = text_of(limit), text_of(bound)
    if limit.unit != bound.unit:
        return f"is {mine}, which does not compare with its bound, {theirs}: give both the same unit"
    if kind := _lighter(limit, bound):
        return f"counts a token of `{kind}` for less than its bound, {theirs}: raise that weight"
    if _is_above(limit, bound):
        return f"is {mine}, above its bound, {theirs}"
    if limit.burst > bound.burst:
        at_once = write_amount(limit.burst, limit.unit)
        return f"is {mine}, which gives {at_once} at once, above its bound, {theirs}: write it with the same period"
    if not _fits(limit, bound):
        return (
            f"is {mine}, which may give more than its bound, {theirs}: write it with the same period, or make it less"
        )
    return None


def _is_above(limit: LimitDecl, bound: LimitDecl) -> bool:
    """Return whether a limit of the same kind and period, or of an even rate, has the larger numbers."""
    if limit.kind == bound.kind == "token_bucket":
        same = limit.refill_period == bound.refill_period
        return _rate(limit) > _rate(bound) or (same and limit.burst > bound.burst)
    return _when(limit) == _when(bound) and (limit.refill_amount, limit.burst) > (bound.refill_amount, bound.burst)


def _fits(limit: LimitDecl, bound: LimitDecl) -> bool:
    """Return whether it is certain that a limit with no larger burst never gives more."""
    if "concurrent" in (limit.kind, bound.kind):
        return limit.kind == bound.kind and limit.capacity <= bound.capacity
    if limit.kind == bound.kind == "total":
        return not limit.expires or 0 < bound.expires <= limit.expires
    if bound.kind == "total":
        return False
    if limit.kind != "token_bucket" and _when(limit) == _when(bound):
        return limit.refill_amount <= bound.refill_amount
    pace = _pace(limit)
    if pace is None:
        return False
    at_once = limit.burst + (limit.refill_amount if limit.kind in ("calendar", "first_use") else 0)
    if bound.kind == "token_bucket":
        return at_once <= bound.burst and pace <= _rate(bound)
    span = _span(bound)
    return span is not None and at_once + pace * span[1] <= min(bound.refill_amount, bound.burst)


def _when(limit: LimitDecl) -> tuple[object, ...]:
    period = limit.refill_period if limit.kind == "first_use" else None
    return limit.kind, limit.window, limit.timezone, limit.starts_on, period


def _rate(limit: LimitDecl) -> Fraction:
    return Fraction(limit.refill_amount, limit.refill_period)


def _pace(limit: LimitDecl) -> Fraction | None:
    """Return the most tokens in a second that come, over any long time; None if that is not known."""
    if limit.kind == "token_bucket":
        return _rate(limit)
    if limit.kind == "total":
        return Fraction(limit.burst, limit.expires) if limit.expires else Fraction(0)
    span = _span(limit)
    return None if span is None else Fraction(limit.refill_amount, span[0])


def _span(limit: LimitDecl) -> tuple[int, int] | None:
    """Return the shortest and the longest time, in seconds, between two refills; None for a cron expression."""
    if limit.kind == "first_use":
        return limit.refill_period, limit.refill_period
    return _SPANS.get(limit.window)


def _lighter(limit: LimitDecl, bound: LimitDecl) -> str | None:
    """Return a kind of token that counts for less than in the bound; one that the bound has no weights for counts 1."""
    if limit.weights is None:
        return "input" if bound.weights is not None else None
    mine = _weights(limit.weights)
    theirs = _weights(bound.weights) if bound.weights else dict.fromkeys(mine, 1.0)
    return next((kind for kind in mine if mine[kind] < theirs[kind]), None)


def _weights(given: WeightsDecl) -> dict[str, float]:
    """Return the weight of each kind of token: one that is not given counts as what it is a part of, or nothing."""
    own = given.by_kind()
    whole = {"input": own.get("input", 0.0), "output": own.get("output", 0.0)}
    parts = {"cached": "input", "cache_write": "input", "reasoning": "output"}
    return {**whole, **{kind: own.get(kind, whole[of]) for kind, of in parts.items()}}
