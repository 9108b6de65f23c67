"""Pauses of a random length, so that processes that failed together do not come back together."""

import random
from typing import Final

chance: random.Random = random.SystemRandom()  # apart from the application's random numbers, also after a fork
LEAST: Final = 0.5


def jittered(seconds: float) -> float:
    """Return a random time, from half of ``seconds`` to all of it."""
    return seconds * chance.uniform(LEAST, 1.0)
