"""Writes per admission, for few and many processes at every load.

Lives here: the table of them. Never: the load itself (offered).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from zae_limiter import Limit

from .offered import writes_per_admission
from .report import DOCS

RATE = 50
SECONDS = 40.0
LOADS = (0.1, 0.3, 0.5, 0.8, 0.95, 2.0)
PROCESSES = (1, 5, 20, 50)
# What is reached, rounded up, by the number of limits: a rule that does worse is told.
AT_MOST = {1: (1.15, 1.35, 1.3, 1.1, 1.05, 2.0), 2: (1.15, 1.35, 1.55, 1.5, 1.25, 2.25)}
BURSTS = ((RATE, "a second"), (20 * RATE, "20 seconds"))


@dataclass(frozen=True, slots=True)
class Writes:
    """Writes per admission of one kind of bucket at every load."""

    PAGE: ClassVar[Path] = DOCS / "benchmarks.md"
    HEAD: ClassVar[tuple[str, ...]] = ("limits", "burst", "processes", *(f"{load:.0%}" for load in LOADS), "")
    RULE: ClassVar[tuple[str, ...]] = ("---:", "---", "---:", *("---:" for _ in LOADS), "---")
    block: ClassVar[str] = ""

    limits: int
    burst: str
    processes: int
    figures: tuple[float, ...]

    @property
    def missed(self) -> bool:
        """Whether one of the figures is above its ceiling."""
        return any(figure > most for figure, most in zip(self.figures, AT_MOST[self.limits], strict=True))

    def cells(self) -> tuple[str, ...]:
        """What stands in its columns."""
        figures = (f"{each:.2f}" for each in self.figures)
        return str(self.limits), self.burst, str(self.processes), *figures, "**missed**" if self.missed else ""


def measure() -> list[Writes]:
    return [
        Writes(limits, told, processes, tuple(_figures(limits, burst, processes)))
        for limits in (1, 2)
        for burst, told in BURSTS
        for processes in PROCESSES
    ]


def _figures(limits: int, burst: int, processes: int) -> Iterator[float]:
    first = Limit.custom("rps", RATE, burst=burst, refill_amount=RATE, refill_period=1)
    second = Limit.custom("tps", 2 * RATE, burst=2 * burst, refill_amount=2 * RATE, refill_period=1)
    for load in LOADS:
        yield writes_per_admission(
            [first, second][:limits], processes=processes, per_second=load * RATE, seconds=max(SECONDS, 8 / load)
        )
