"""The ledger: what callers were told, in lines that outlive them.

Lives here: how a call is noted, and the sums of all calls. Never: the table.

Each line says what the table has taken for one call, at least and at most, and what it ought to have taken when all is
given back that was to be; the last line of a call holds. It is written before what makes it true may begin, and after
what makes it certain has ended, so that it holds wherever the process dies.
"""

import os
import threading
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

_numbers = count()  # of this process's calls, whichever book they are in


class Book:
    """A ledger that any process may write."""

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def call(self, entity_id: str, amount: int) -> "Call":
        """A call that is about to be made."""
        call = Call(self, f"{os.getpid()}.{next(_numbers)}", entity_id, asked=amount)
        call.note("asked", 0, amount)
        return call

    def wrong(self, what: str) -> None:
        """Something happened that must not."""
        self.write(f"! {os.getpid()} {threading.current_thread().name}: {what}")

    def mark(self, what: str) -> None:
        """Something happened."""
        self.write(f"# {os.getpid()} {what}")

    def write(self, line: str) -> None:
        os.write(self._file, f"{line}\n".encode())


@dataclass(slots=True)
class Call:
    """One acquire, as its caller knows it: what it ``asked`` for and what it ``holds`` of that."""

    book: Book
    number: str
    entity_id: str
    asked: int
    holds: int = 0
    due: int = 0  # what ought to stay taken, should it be cut off now

    def note(self, word: str, least: int, most: int, due: int | None = None) -> None:
        """From now on the table has taken that much."""
        self.book.write(f"{self.number} {self.entity_id} {least} {most} {least if due is None else due} {word}")

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
    """What the table has taken from a bucket, at least and at most, and what it ought to have."""

    least: int = 0
    most: int = 0
    due: int = 0


@dataclass(slots=True)
class Reading:
    """A ledger that was read."""

    buckets: Mapping[str, Sums] = field(default_factory=lambda: defaultdict(Sums))
    wrongs: list[str] = field(default_factory=list)
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
            reading.wrongs.append(line[2:])
        elif line.startswith("#"):
            reading.last_mark = line[2:]
        else:
            last[line.partition(" ")[0]] = line
    yield from last.values()
