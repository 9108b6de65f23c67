"""All surfaces in turn, on all cores, for some minutes.

Lives here: processes, and the sum of what they found. Never: input.
"""

import logging
import os
import random
import time
import warnings
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field

from hypothesis.errors import HypothesisWarning

from .batches import Batch, run_batch
from .judging import Tally
from .surfaces import SURFACES, opened

LONGEST_TURN_SECONDS = 10.0
BATCH = 40


@dataclass
class Findings:
    """What became of one surface's input, and why it could not be opened, if so."""

    tally: Tally = field(default_factory=Tally)
    unclean: list[Batch] = field(default_factory=list)
    missing: str | None = None

    def add(self, other: "Findings") -> None:
        """Put the findings of another process beside these."""
        self.tally.accepted += other.tally.accepted
        self.tally.refused += other.tally.refused
        self.unclean += other.unclean
        self.missing = self.missing or other.missing


def run(names: Sequence[str], seconds: float, seed: int) -> dict[str, Findings]:
    """The findings of each surface. A process that dies raises ``BrokenProcessPool``."""
    cores = os.cpu_count() or 1
    total = {name: Findings() for name in names}
    with ProcessPoolExecutor(cores) as pool:
        for part in [pool.submit(_work, names, seconds, f"{seed}/{core}") for core in range(cores)]:
            for name, found in part.result().items():
                total[name].add(found)
    return total


def _work(names: Sequence[str], seconds: float, seed: str) -> dict[str, Findings]:
    """One process: each surface for a short turn, again and again."""
    logging.disable()  # lines for operators, thousands of them
    warnings.simplefilter("ignore", HypothesisWarning)  # it shows large input at length
    found = {name: Findings() for name in names}
    numbers = _numbers(seed)
    turn = min(LONGEST_TURN_SECONDS, seconds / len(names))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for name in names:
            if found[name].missing is None:
                _turn(name, found[name], numbers, min(turn, end - time.monotonic()))
    return found


def _turn(name: str, found: Findings, numbers: Iterator[int], seconds: float) -> None:
    with ExitStack() as stack:
        surface, found.missing = opened(name, stack)
        end = time.monotonic() + seconds
        while surface is not None:
            batch = run_batch(surface, next(numbers), BATCH)
            found.tally.accepted += batch.tally.accepted
            found.tally.refused += batch.tally.refused
            if batch.unclean is not None:
                found.unclean.append(batch)
            if time.monotonic() >= end:  # a surface is fed at each turn, however long the others took
                return


def _numbers(seed: str) -> Iterator[int]:
    drawn = random.Random(seed)
    while True:
        yield drawn.getrandbits(32)


__all__ = ["SURFACES", "Findings", "run"]
