"""The rules by the kind of a limit, and what follows from a rule alone."""

from collections.abc import Callable
from typing import Final, Protocol

from ..values.limits import MILLI, Kind, Limit
from .token_bucket import TokenBucket


class Rule(Protocol):
    """How the whole of one limit mints, from the epoch on.

    Nothing is minted up to the epoch, at which a period begins: an amount takes longest from there.
    """

    def minted(self, t_ms: int) -> int:
        """Return the millitokens minted up to ``t_ms``, which never fall."""

    def reached(self, minted_milli: int) -> int:
        """Return the first ``t_ms`` at which ``minted`` is at least so much."""


RULES: Final[dict[Kind, Callable[[Limit], Rule]]] = {
    "token_bucket": lambda limit: TokenBucket(limit.refill_amount, limit.refill_period),
}


def rule_of(limit: Limit) -> Rule:
    """Return the rule of a limit."""
    return RULES[limit.kind](limit)


def minting_ms(limit: Limit, milli: int) -> int:
    """Return the longest time in which the whole limit mints an amount, whenever that begins."""
    return rule_of(limit).reached(milli)


def due_ms(limit: Limit, milli: int, now_ms: int) -> int:
    """Return the time from ``now_ms`` until the whole limit has minted an amount more; 0 for nothing."""
    rule = rule_of(limit)
    return max(0, rule.reached(rule.minted(now_ms) + milli) - now_ms)


def window_seconds(limit: Limit) -> int:
    """Return the seconds in which the capacity comes, rounded up; those of one token if the limit blocks."""
    return -(-minting_ms(limit, max(1, limit.capacity) * MILLI) // 1000)
