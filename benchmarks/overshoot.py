"""How far streams of unknown cost go over a limit of tokens, and how much of it they can use.

Lives here: ours over a file of SQLite, theirs over Redis, as rows of a table; deadlines. Never: a stream.

LiteLLM runs in an environment of its own, which uv makes: it holds other dependencies back.

``just overshoot [--only CASE …] [--cells 128x3 …] [--into FILE]`` measures a part and writes no page.
FILE gets each cell as a line when it is done, and those that it has are not measured again.
"""

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Timer
from typing import ClassVar

from .overshoot_streams import CASES, Cell, Failed, Found
from .peers_redis import redis_server
from .report import NotHere, as_markdown

STREAMS, PROCESSES = (16, 128, 512), (1, 3, 8)
CELLS = tuple(Cell(*each) for each in product(STREAMS, PROCESSES))
OURS = {"pieces": "by pieces", "longest": "`max_tokens`, settled", "mean": "mean, settled"}
THEIRS = {
    "limits": "`limits`: counted after",
    "throttled": "throttled-py: mean before",
    "litellm": "LiteLLM v3: its default, settled",
    "litellm_longest": "LiteLLM v3: `max_tokens`, settled",
}
AT_LEAST = 0.987  # of the limit is used
OF_A_CELL, OF_A_START, OF_ALL = 90.0, 240.0, 24 * 60.0  # seconds, at most
MARGIN = 40.0  # for an interpreter to look what is left, and to say that a cell is late
ROOT = Path(__file__).parent.parent

Measured = Found | Failed


@dataclass(frozen=True, slots=True)
class Overshoot:
    """What each limiter admitted in one cell; ``found`` lacks those that are not here."""

    PAGE: ClassVar[Path] = Path(__file__).parent / "overshoot.md"
    HEAD: ClassVar[tuple[str, ...]] = ("streams", "processes", *OURS.values(), *THEIRS.values(), "")
    RULE: ClassVar[tuple[str, ...]] = ("---:",) * (2 + len(OURS) + len(THEIRS)) + ("---",)
    block: ClassVar[str] = ""

    cell: Cell
    found: Mapping[str, Measured]

    @property
    def missed(self) -> bool:
        """Whether pieces went over the limit, or left too much of it, or failed."""
        pieces = self.found.get("pieces")
        if not isinstance(pieces, Found):
            return pieces is not None
        return over(self.cell, pieces) > 0 or usable(self.cell, pieces) < AT_LEAST

    def cells(self) -> tuple[str, ...]:
        """What stands in its columns."""
        shown = (shown_in(self.cell, self.found.get(case)) for case in (*OURS, *THEIRS))
        verdict = ("missed" if self.missed else "met") if "pieces" in self.found else ""
        return str(self.cell.streams), str(self.cell.processes), *shown, verdict


@dataclass(frozen=True, slots=True)
class Versions:
    """The last row: which release each limiter is of."""

    PAGE: ClassVar[Path] = Overshoot.PAGE
    HEAD: ClassVar[tuple[str, ...]] = Overshoot.HEAD
    RULE: ClassVar[tuple[str, ...]] = Overshoot.RULE
    block: ClassVar[str] = ""
    missed: ClassVar[bool] = False

    of: Mapping[str, str]

    def cells(self) -> tuple[str, ...]:
        """What stands in its columns."""
        return "release", "", *(self.of.get(case, "-") for case in (*OURS, *THEIRS)), ""


def shown_in(cell: Cell, found: Measured | None) -> str:
    """What a limiter did in a cell, or why there is nothing of it."""
    if found is None:
        return "-"
    if isinstance(found, Failed):
        return f"failed: {found}".replace("|", "\\|").replace("\n", " ")
    beyond = f"{over(cell, found):.2%}" if over(cell, found) else "0"
    gone = cell.limit - found.tokens - found.left  # taken and never used
    lost = f" + {gone / cell.limit:.1%} lost" if usable(cell, found) < AT_LEAST else ""
    return f"{beyond} / {usable(cell, found):.1%}{lost} / {found.requests / max(1, found.calls):.2g}"


def over(cell: Cell, found: Found) -> float:
    """The part of the limit that was admitted beyond it."""
    return max(0, found.tokens - cell.limit) / cell.limit


def usable(cell: Cell, found: Found) -> float:
    """The part of the limit that was used."""
    return min(found.tokens, cell.limit) / cell.limit


def measure() -> list[Overshoot | Versions]:
    """The whole table, of one run."""
    results = Results()
    results.complete((*OURS, *THEIRS), CELLS)
    return results.rows()


class Results:
    """What was found until now, on ``into`` too, a line for each cell; what a file has already is taken from it."""

    def __init__(self, into: Path | None = None) -> None:
        self._into = into
        self._found: dict[tuple[str, Cell], Measured] = {}
        self._versions: dict[str, str] = {}
        for line in into.read_text().splitlines() if into is not None and into.exists() else ():
            case, version, cell, found = json.loads(line)
            self._found[case, Cell(*cell)], self._versions[case] = Found(*found), version

    def complete(self, cases: Iterable[str], cells: Iterable[Cell]) -> None:
        """Measure what is missing, until the time for all is over, and say so on stderr. Raises ``NotHere``."""
        begun, asked = time.monotonic(), [*product(cases, cells)]
        missing = [each for each in asked if each not in self._found]
        with ExitStack() as stack:
            folder = stack.enter_context(TemporaryDirectory())
            redis = stack.enter_context(redis_server()) if {case for case, _ in missing} & {*THEIRS} else ""
            for case in dict.fromkeys(case for case, _ in missing):
                of_case = [cell for each, cell in missing if each == case]
                ends = begun + OF_ALL
                try:
                    for cell, version, found in measured(case, of_case, folder if case in OURS else redis, ends):
                        self._keep(case, version, cell, found)
                        took = f"{len(self._found)} of {len(asked)}, {time.monotonic() - begun:.0f} s"
                        print(
                            f"{case} {cell.streams}x{cell.processes}: {shown_in(cell, found)} ({took})", file=sys.stderr
                        )
                except NotHere as reason:
                    print(f"without {case}: {reason}", file=sys.stderr)

    def rows(self) -> list[Overshoot | Versions]:
        """The table of what was found."""
        cells = sorted({cell for _, cell in self._found})
        found = {cell: {case: each for (case, of), each in self._found.items() if of == cell} for cell in cells}
        return [*(Overshoot(cell, each) for cell, each in found.items()), Versions(self._versions)]

    def _keep(self, case: str, version: str, cell: Cell, found: Measured) -> None:
        self._found[case, cell], self._versions[case] = found, version
        if self._into is not None and not isinstance(found, Failed):
            with self._into.open("a") as file:
                file.write(json.dumps((case, version, cell, found)) + "\n")


def measured(
    case: str, cells: Sequence[Cell], store: str, ends: float = float("inf")
) -> Iterator[tuple[Cell, str, Measured]]:
    """What one limiter admits in each cell, and its release, in an interpreter of its own; a new one after one that
    died. ``ends``: no cell begins after it, by the monotonic clock. Raises ``NotHere``.
    """
    left = [*cells]
    while left:
        with _started(case, store) as process:
            said = _line(process, OF_A_START)
            if not said:
                if case.startswith("litellm"):
                    raise NotHere("its environment cannot be made, or its interpreter did not start")
                yield from ((cell, "", Failed("its interpreter did not start")) for cell in left)
                return
            version = json.loads(said)
            while said and left:
                cell, seconds = left.pop(0), min(OF_A_CELL, ends - time.monotonic())
                if seconds <= 0:
                    yield cell, version, Failed("no time was left")
                    continue
                assert process.stdin is not None
                process.stdin.write(json.dumps((cell, seconds)) + "\n")
                process.stdin.flush()
                said = _line(process, seconds + MARGIN)
                yield cell, version, _read(said)


def _read(said: str) -> Measured:
    found = json.loads(said) if said else "its interpreter died or hung"
    return Failed(found) if isinstance(found, str) else Found(*found)


@contextmanager
def _started(case: str, store: str) -> Iterator["subprocess.Popen[str]"]:
    """An interpreter and all its forks, which end with this."""
    command = [*_interpreter(case), "-m", "benchmarks.overshoot_streams", "--case", case, "--store", store]
    environment = {**_environment(), "PYTHONPATH": str(ROOT)}
    pipe = subprocess.PIPE
    with (
        TemporaryDirectory() as elsewhere,  # no workspace that would leave LiteLLM out
        subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, cwd=elsewhere, env=environment, start_new_session=True
        ) as process,
    ):
        try:
            yield process
        finally:
            _kill(process)


def _line(process: "subprocess.Popen[str]", seconds: float) -> str:
    """What the interpreter says next; nothing where it has ended, or says nothing in time: then it is killed."""
    timer = Timer(seconds, _kill, [process])
    timer.start()
    try:
        assert process.stdout is not None
        return process.stdout.readline()
    finally:
        timer.cancel()


def _kill(process: "subprocess.Popen[str]") -> None:
    with suppress(ProcessLookupError):  # it has ended, and all its forks
        os.killpg(process.pid, signal.SIGKILL)


def _interpreter(case: str) -> Sequence[str]:
    if not case.startswith("litellm"):
        return [sys.executable]
    if shutil.which("uv") is None:
        raise NotHere("uv, which makes its environment, is not on the PATH")
    wanted = ("--with", "litellm[proxy]", "--with", "hiredis")
    return ["uv", "run", "--quiet", "--isolated", "--no-project", "--python", sys.executable, *wanted, "python"]


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in ("VIRTUAL_ENV", "PYTHONPATH")}


def _cell(text: str) -> Cell:
    streams, _, processes = text.partition("x")
    try:
        return Cell(int(streams), int(processes))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: write streams and processes, such as 128x3") from None


def main() -> int:
    """Print a part of the table; 1 where pieces missed their target."""
    parser = argparse.ArgumentParser(prog="just overshoot", description=main.__doc__)
    parser.add_argument("--only", nargs="+", choices=CASES, default=[*CASES], metavar="CASE", help=", ".join(CASES))
    parser.add_argument("--cells", nargs="+", type=_cell, default=CELLS, metavar="128x3", help="streams x processes")
    parser.add_argument("--into", type=Path, metavar="FILE", help="keep each cell here, and go on from what it has")
    given = parser.parse_args()
    results = Results(given.into)
    try:
        results.complete(given.only, given.cells)
    except NotHere as reason:
        print(reason, file=sys.stderr)
        return 1
    rows = results.rows()
    print(as_markdown(rows))
    return 1 if any(row.missed for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
