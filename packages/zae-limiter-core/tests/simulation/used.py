"""What a call of a language model used, and what that counts by weights, in exact fractions of our own."""

import math
from collections.abc import Mapping
from fractions import Fraction
from random import Random

from zae_limiter.values.token_usage import TokenUsage

PART_OF = {"cached": "input", "cache_write": "input", "reasoning": "output"}


def use(rng: Random) -> TokenUsage:
    """Some tokens of each kind."""
    return TokenUsage(*(rng.choice((0, 0, 1, 2, 7)) for _ in range(5)))


def weighed(weights: Mapping[str, float], usage: TokenUsage) -> int:
    """What it counts, in millitokens, rounded up: a kind without a weight counts as the kind that it is a part of."""
    counted = Fraction(0)
    for kind, amount in usage.by_kind():
        weight = weights.get(kind, weights.get(PART_OF.get(kind, kind), 0))
        counted += amount * Fraction(str(weight))
    return math.ceil(1000 * counted)
