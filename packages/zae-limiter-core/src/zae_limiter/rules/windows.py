"""The window of a limit whose use is compared with what the limit gives in it.

Quotas and first uses have windows of their own. A token bucket has none: its use is compared by the hour, or by the day
if a period is longer than an hour, because usage is counted by these. A total has one window without bounds.
"""

from typing import Final

from ..runtime.named_tuple import NamedTuple
from ..values.limits import MILLI, Limit
from .periods import periods_of
from .registry import rule_of
from .rule import FOREVER_MS

_HOUR: Final = 3600
_DAY: Final = 24 * _HOUR


class LimitWindow(NamedTuple):
    """A window of a limit, in epoch ms; ``None`` where it has no such bound. ``number`` tells it from the others."""

    number: int
    start_ms: int | None
    end_ms: int | None


def compared_seconds(limit: Limit) -> int:
    """Return the length of the window of a token bucket."""
    return _HOUR if limit.refill_period <= _HOUR else _DAY


def period_seconds(limit: Limit) -> int | None:
    """Return the seconds in which ``refill_amount`` comes; a month has 31 days, a year 366.

    ``None`` if nothing comes by itself.
    """
    period_ms = rule_of(limit).window_ms(limit.refill_amount * MILLI)
    return None if period_ms >= FOREVER_MS else period_ms // 1000


def given_in(limit: Limit, seconds: int) -> int:
    """Return the millitokens that come in a time, on average."""
    period = period_seconds(limit)
    return limit.refill_amount * MILLI * seconds // period if period else 0


def window_capacity(limit: Limit) -> int:
    """Return what a window has, in millitokens: the capacity, or what comes back to a token bucket in it."""
    if limit.kind != "token_bucket":
        return limit.capacity * MILLI
    return given_in(limit, compared_seconds(limit))


def window_at(limit: Limit, at_ms: int, begun_ms: int | None) -> LimitWindow | None:
    """Return the window that holds an instant; ``None`` if none has begun. ``begun_ms``: the stored begin, if any."""
    if limit.kind == "token_bucket":
        length_ms = compared_seconds(limit) * 1000
        start_ms = at_ms - at_ms % length_ms
        return LimitWindow(start_ms, start_ms, start_ms + length_ms)
    if limit.kind == "calendar":
        periods = periods_of(limit.window, limit.timezone, limit.starts_on)
        number = periods.begun(at_ms)
        start_ms, end_ms = periods.start(number), periods.start(number + 1)
        return LimitWindow(start_ms, start_ms, None if end_ms >= FOREVER_MS else end_ms)
    if limit.kind == "total":
        return LimitWindow(0, None, None)
    if begun_ms is None or at_ms >= (end_ms := rule_of(limit).since(begun_ms).reached(1)):
        return None
    return LimitWindow(begun_ms, begun_ms, end_ms)
