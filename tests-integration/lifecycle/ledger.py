"""The ledger of a life: a file with the answers of all calls, which outlives the processes that write it.

Lives here: the lines of a call, and the sums of all calls. Never: the table.

A line has the tokens that the table has taken for one call, at least and at most, and ``due``, the tokens that stay
taken when every give-back has arrived; the last line of a call holds. A call writes a line that widens the bounds
before it sends its request, and one that narrows them after the answer: the last line holds wherever the process dies.
"""

import os
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

_numbers = count()  # of this process's calls, in all ledgers


class Ledger:
    """A ledger that any process may write."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def call(self, entity_id: str, amount: int) -> "Call":
        """A call that is about to be made."""
        call = Call(self, f"{os.getpid()}.{next(_numbers)}", entity_id, asked=amount)
        call.note("asked", 0, amount)
        return call

    def violation(self, what: str) -> None:
        """Note something that must not happen."""
        self.write(f"! {os.getpid()} {threading.current_thread().name}: {what}")

    def mark(self, what: str) -> None:
        """Note something that happened."""
        self.write(f"# {os.getpid()} {what}")

    def write(self, line: str) -> None:
        os.write(self._file, f"{line}\n".encode())


@dataclass(slots=True)
class Call:
    """One acquire, as its caller knows it: what it ``asked`` for and what it ``holds`` of that."""

    ledger: Ledger
    number: str
    entity_id: str
    asked: int
    holds: int = 0
    due: int = 0  # tokens that stay taken, should it be cut off now

    def note(self, word: str, least: int, most: int, due: int | None = None) -> None:
        """From now on the table has taken that much."""
        self.ledger.write(f"{self.number} {self.entity_id} {least} {most} {least if due is None else due} {word}")

    def admitted(self) -> None:
        """All that was asked for was taken."""
        self.holds = self.asked
        self.note("admitted", self.holds, self.holds)

    def asks_more(self, amount: int) -> None:
        """More is asked for."""
        self.asked += amount
        self.note("asks more", self.holds, self.asked)

    def ends_with(self, amount: int) -> None:
        """Its block ends, and when it has ended so much is held."""
        self.note("ends", min(amount, self.holds), max(amount, self.holds), amount)
        self.asked = max(self.asked, amount)
        self.holds = self.due = amount

    def kept(self) -> None:
        """Its block ended, and what it holds stays taken."""
        self.note("kept", self.holds, self.holds)

    def nothing(self, word: str) -> None:
        """Nothing stays taken, and that is certain."""
        self.note(word, 0, 0)

    def unknown(self, word: str) -> None:
        """It was cut off: all that was asked for may be taken."""
        self.note(word, 0, self.asked, self.due)


@dataclass(slots=True)
class Sums:
    """The tokens taken from a bucket, at least and at most, and those that are due to stay taken."""

    least: int = 0
    most: int = 0
    due: int = 0


@dataclass(slots=True)
class Reading:
    """A ledger that was read."""

    buckets: Mapping[str, Sums] = field(default_factory=lambda: defaultdict(Sums))
    violations: list[str] = field(default_factory=list)
    last_mark: str = ""


def read(path: Path) -> Reading:
    """The sums of a ledger."""
    reading = Reading()
    for line in _last_lines(path, reading):
        _, entity_id, least, most, due, _ = line.split(" ", 5)
        sums = reading.buckets[entity_id]
        sums.least += int(least)
        sums.most += int(most)
        sums.due += int(due)
    return reading


def _last_lines(path: Path, reading: Reading) -> Iterator[str]:
    last: dict[str, str] = {}
    for line in path.read_text().splitlines():
        if line.startswith("!"):
            reading.violations.append(line[2:])
        elif line.startswith("#"):
            reading.last_mark = line[2:]
        else:
            last[line.partition(" ")[0]] = line
    yield from last.values()
