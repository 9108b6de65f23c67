"""How far streams of unknown cost go over a limit of tokens, and how much of it they can use.

Lives here: ours over a file of SQLite, theirs over Redis, as rows of a table. Never: a stream.

LiteLLM runs in an environment of its own, which uv makes: it holds other dependencies back. It runs in one process
alone: what each process imports with its first call takes minutes of the two cores.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import ClassVar

from .overshoot_streams import Cell, Found
from .peers_redis import redis_server
from .report import NotHere

STREAMS, PROCESSES = (16, 128, 512), (1, 3, 8)
OURS = {"pieces": "by pieces", "longest": "`max_tokens`, settled", "mean": "mean, settled"}
THEIRS = {"limits": "`limits`: counted after", "throttled": "throttled-py: mean before", "litellm": "LiteLLM v3"}
AT_LEAST = 0.987  # of the limit is used
ROOT = Path(__file__).parent.parent


@dataclass(frozen=True, slots=True)
class Overshoot:
    """What each limiter admitted in one cell; ``found`` lacks those that are not here."""

    PAGE: ClassVar[Path] = Path(__file__).parent / "overshoot.md"
    HEAD: ClassVar[tuple[str, ...]] = ("streams", "processes", *OURS.values(), *THEIRS.values(), "")
    RULE: ClassVar[tuple[str, ...]] = ("---:",) * (2 + len(OURS) + len(THEIRS)) + ("---",)
    block: ClassVar[str] = ""

    cell: Cell
    found: Mapping[str, Found]

    @property
    def missed(self) -> bool:
        """Whether pieces went over the limit, or left too much of it."""
        return over(self.cell, self.found["pieces"]) > 0 or usable(self.cell, self.found["pieces"]) < AT_LEAST

    def cells(self) -> tuple[str, ...]:
        """What stands in its columns."""
        shown = (self._shown(self.found.get(case)) for case in (*OURS, *THEIRS))
        return str(self.cell.streams), str(self.cell.processes), *shown, "missed" if self.missed else "met"

    def _shown(self, found: Found | None) -> str:
        if found is None:
            return "-"
        beyond = f"{over(self.cell, found):.2%}" if over(self.cell, found) else "0"
        return f"{beyond} / {usable(self.cell, found):.1%} / {found.requests / max(1, found.calls):.2g}"


def over(cell: Cell, found: Found) -> float:
    """The part of the limit that was admitted beyond it."""
    return max(0, found.tokens - cell.limit) / cell.limit


def usable(cell: Cell, found: Found) -> float:
    """The part of the limit that was used."""
    return min(found.tokens, cell.limit) / cell.limit


def measure() -> list[Overshoot]:
    cells = [Cell(*each) for each in product(STREAMS, PROCESSES)]
    found: dict[Cell, dict[str, Found]] = {cell: {} for cell in cells}
    with ExitStack() as stack:
        folder, redis = stack.enter_context(TemporaryDirectory()), stack.enter_context(redis_server())
        for case in (*OURS, *THEIRS):
            asked = [cell for cell in cells if case != "litellm" or cell.processes == 1]
            try:
                for cell, each in zip(asked, run(case, asked, folder if case in OURS else redis), strict=True):
                    found[cell][case] = each
                    print(case, *cell[:2], *each, flush=True)
            except NotHere as reason:
                print(f"without {case}: {reason}", file=sys.stderr)
    return [Overshoot(cell, each) for cell, each in found.items()]


def run(case: str, cells: Iterable[Cell], store: str) -> Iterator[Found]:
    """What one limiter admits in each cell, in an interpreter of its own. Raises ``NotHere``."""
    command = [*_interpreter(case), "-m", "benchmarks.overshoot_streams", "--case", case, "--store", store]
    with TemporaryDirectory() as elsewhere:  # no workspace that would leave LiteLLM out
        asked = "".join(f"{json.dumps(cell)}\n" for cell in cells)
        environment = {**_environment(), "PYTHONPATH": str(ROOT)}
        done = subprocess.run(
            command, input=asked, stdout=subprocess.PIPE, text=True, cwd=elsewhere, env=environment, check=False
        )
    if done.returncode:
        if case == "litellm":
            raise NotHere(f"its interpreter ended with code {done.returncode}")
        raise RuntimeError(f"{case} ended with code {done.returncode}")
    versioned, *lines = done.stdout.splitlines()
    print(case, json.loads(versioned))
    return iter([Found(*json.loads(line)) for line in lines])


def _interpreter(case: str) -> Sequence[str]:
    if case != "litellm":
        return [sys.executable]
    if shutil.which("uv") is None:
        raise NotHere("uv, which makes its environment, is not on the PATH")
    wanted = ("--with", "litellm[proxy]", "--with", "hiredis")
    return ["uv", "run", "--quiet", "--isolated", "--no-project", "--python", sys.executable, *wanted, "python"]


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}
