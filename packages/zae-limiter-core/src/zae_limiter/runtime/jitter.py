"""Pauses of a random part, so that processes that failed together do not come back together."""

import random
from typing import Final

chance: random.Random = random.SystemRandom()  # leaves the application's own random numbers alone, after a fork too
LEAST: Final = 0.5


def jittered(seconds: float) -> float:
    """Between half of the time and all of it."""
    return seconds * chance.uniform(LEAST, 1.0)
