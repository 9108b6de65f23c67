"""What every public method asks of the table, and what that costs: the same on every computer.

Lives here: the counting, on a table in memory. Never: the calls (cost_cases), which the tests make on real tables too.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import ClassVar

from zae_limiter.engines.meter import Meter

from .report import DOCS, Line


@dataclass(frozen=True, slots=True)
class Cost:
    """A row for methods that cost the same in the same case."""

    PAGE: ClassVar[Path] = Path(__file__).parent / "costs.md"  # the site has it as reference/costs.md
    HEAD: ClassVar[tuple[str, ...]] = ("method", "when", "requests", "reads", "writes", "on indexes")
    RULE: ClassVar[tuple[str, ...]] = ("---", "---", "---", "---:", "---:", "---:")
    missed: ClassVar[bool] = False

    block: str
    methods: tuple[str, ...]
    when: str
    requests: str
    reads: float
    writes: float
    on_indexes: float

    def cells(self) -> tuple[str, ...]:
        """What stands in its columns."""
        methods = ", ".join(f"`{method}`" for method in self.methods)
        units = (self.reads, self.writes, self.on_indexes)
        return methods, self.when, self.requests, *(f"{unit:,.10g}" for unit in units)


@dataclass(frozen=True, slots=True)
class CommandCost:
    """A row for a question of an incident; ``-`` for what is not counted."""

    PAGE: ClassVar[Path] = DOCS / "operate" / "on-call.md"
    HEAD: ClassVar[tuple[str, ...]] = (
        *("question", "answer", "requests", "read units", "write units"),
        "what makes it more",
    )
    RULE: ClassVar[tuple[str, ...]] = ("---", "---", "---", "---:", "---:", "---")
    block: ClassVar[str] = "costs: on call"
    missed: ClassVar[bool] = False

    question: str
    answer: str
    requests: str
    reads: str
    writes: str
    grows: str

    def cells(self) -> tuple[str, ...]:
        """What stands in its columns."""
        return self.question, self.answer, self.requests, self.reads, self.writes, self.grows


def measure() -> list[Line]:
    """The rows of all tables, in order."""
    return [*(cost for section in _sections() for cost in _merged(section)), *_on_call()]


def _on_call() -> list[CommandCost]:
    from support.integration import on_call

    meters = on_call.counted()
    return [
        CommandCost(each.question, each.answer, *_counts(meters.get(each.command or "")), each.grows)
        for each in on_call.questions()
    ]


def _counts(meter: Meter | None) -> tuple[str, str, str]:
    if meter is None:
        return "-", "-", "-"
    return _requests(meter), f"{meter.read_units:,.10g}", f"{meter.write_units + meter.index_units:,.10g}"


def _sections() -> list[list[Cost]]:
    from support.integration.cost_cases import SECTIONS, counted_in_memory  # beside the tests, like what they need

    return [
        [_cost(f"costs: {name}", case.method, case.when, asyncio.run(counted_in_memory(case))) for case in cases]
        for name, cases in SECTIONS.items()
    ]


def _cost(block: str, method: str, when: str, meter: Meter) -> Cost:
    return Cost(block, (method,), when, _requests(meter), meter.read_units, meter.write_units, meter.index_units)


def _requests(meter: Meter) -> str:
    requests = [name if count == 1 else f"{count} {name}" for name, count in sorted(meter.requests.items())]
    return ", ".join(requests) or "none"


def _merged(costs: Sequence[Cost]) -> list[Cost]:
    """Neighbours that differ in the method alone become one row."""
    groups = (list(group) for _, group in groupby(costs, key=lambda cost: cost.cells()[1:]))
    return [replace(group[0], methods=tuple(dict.fromkeys(cost.methods[0] for cost in group))) for group in groups]
