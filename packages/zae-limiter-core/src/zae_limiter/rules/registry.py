"""The rules by the kind of a limit, and what follows from a rule alone."""

from collections.abc import Callable
from typing import Final

from .. import rules
from ..values.limits import MILLI, Limit
from ..values.named_limits import Kind
from .rule import FOREVER_MS, Rule
from .slots import Concurrent
from .token_bucket import TokenBucket

NANOS: Final = 1_000_000_000


def _calendar(limit: Limit) -> Rule:
    return rules.calendar.calendar_of(limit.refill_amount, limit.window, limit.timezone, limit.starts_on)


RULES: Final[dict[Kind, Callable[[Limit], Rule]]] = {
    "token_bucket": lambda limit: TokenBucket(limit.refill_amount, limit.refill_period),
    "calendar": _calendar,
    "first_use": lambda limit: rules.first_use.FirstUse(limit.refill_amount * MILLI, limit.refill_period * 1000),
    "total": lambda _: rules.total.Total(),
    "concurrent": lambda limit: Concurrent(limit.expires),
}


def rule_of(limit: Limit) -> Rule:
    """Return the rule of a limit."""
    return RULES[limit.kind](limit)


def minting_ms(limit: Limit, milli: int) -> int:
    """Return the longest time in which the whole limit mints an amount, whenever that begins."""
    return rule_of(limit).longest_ms(milli)


def price(limit: Limit) -> int:
    """Return what a token counts for beside tokens of other limits: the nanoseconds in which the whole limit mints it.

    Slots count as if all of them came back each second; tokens that never come back count for nothing.
    """
    if limit._has_slots:
        return NANOS // max(1, limit.capacity)
    window_ms = minting_ms(limit, limit.refill_amount * MILLI)
    return 0 if window_ms >= FOREVER_MS else window_ms * (NANOS // 1000) // limit.refill_amount


def keeping_ms(limit: Limit, milli: int) -> int:
    """Return how long an idle bucket is kept so that the limit mints an amount: not at all for a total that expires,
    which forgets it after its ``unused_seconds``.
    """
    return 0 if limit._unused_seconds else minting_ms(limit, milli)


def due_ms(rule: Rule, milli: int, now_ms: int) -> int:
    """Return the time from ``now_ms`` until the whole limit has minted so much more, ``FOREVER_MS`` for never."""
    at_ms = rule.reached(rule.minted(now_ms) + milli)
    return at_ms if at_ms >= FOREVER_MS else max(0, at_ms - now_ms)


def window_seconds(limit: Limit) -> int | None:
    """Return the seconds in which the capacity comes, rounded up; those of one token if the limit blocks.

    A month has 31 days, a year 366. ``None`` if nothing comes by itself.
    """
    window_ms = rule_of(limit).window_ms(max(1, limit.capacity) * MILLI)
    return None if window_ms >= FOREVER_MS else -(-window_ms // 1000)


def lasts_seconds(limit: Limit, tokens: float, per_second: float, now_ms: int) -> float | None:
    """Return how long so many tokens of the whole limit last at this rate of use; ``None`` if more come before.

    A window that begins with the first use counts as one that has just begun.
    """
    rule = rule_of(limit).since(now_ms)
    lasts_ms = rule.lasts_ms(round(tokens * MILLI), per_second, now_ms)  # tokens a second: millitokens a millisecond
    return None if lasts_ms >= FOREVER_MS else lasts_ms / 1000
