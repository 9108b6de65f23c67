"""The plan of one call, drawn at random.

Lives here: how much it takes, how long its block lasts, whether it fails. Never: the call (callers).
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass


class Undone(Exception):
    """The block of a call fails, as planned."""


class Interrupted(BaseException):
    """What a signal handler raises."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What one call does."""

    amount: int
    more: int
    adjust: int
    rest: float
    fails: bool
    allows: bool

    @classmethod
    def drawn(cls, chance: random.Random, *, healthy: bool) -> "Plan":
        """Half of the calls only take; the others take more, correct what they took, or fail."""
        return cls(
            amount=chance.randint(1, 5),
            more=chance.choice((0, 0, 0, 0, 2)),
            adjust=chance.choice((0, 0, 0, 0, 3, -1)),
            rest=chance.choice((0, 0, 0.002, 0.01)),
            fails=chance.random() < 0.2,
            allows=not healthy and chance.random() < 0.2,
        )


def both(amount: int) -> Mapping[str, int]:
    """The amount of both limits of a bucket."""
    return {"all": amount, "rate": amount}
