"""Acquires of two limits of one user by several processes of this host, beside what else there is for that.

Lives here: ours over a file of SQLite; PyrateLimiter's bucket in one, as its documentation says for several processes;
and the least that such a file can do, an UPDATE in a transaction, with a lock of the file if there are several
processes. Never: a network.

Each process has an interpreter of its own: ``python -m benchmarks.sqlite --case NAME --folder FOLDER`` waits for a
line, acquires for ``SECONDS``, and prints what it took as JSON. PyrateLimiter counts the rows of a window with each
acquire: its windows are short here, which is to its advantage.
"""

import argparse
import fcntl
import json
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import NamedTuple

from .measure import Taken, percentile
from .report import Line, Row, microseconds

OURS, PYRATE, RAW = "zae-limiter", "PyrateLimiter's SQLiteBucket", "raw BEGIN IMMEDIATE"
RAW_IN_TURN = f"{RAW}, with flock"
PROCESSES = {1: (OURS, RAW, PYRATE), 8: (OURS, RAW_IN_TURN, PYRATE)}  # and the cases, which take turns
ROUNDS = 5
SECONDS = 1.0
MANY = 10**9

Acquire = Callable[[], object]


class Worker(NamedTuple):
    """What one process took: the seconds of each acquire, and those of its CPU in all."""

    times: Sequence[float]
    cpu: float


class Round(NamedTuple):
    """What all processes of a case took at the same time."""

    workers: Sequence[Worker]

    @property
    def acquires(self) -> int:
        """Those of all processes."""
        return sum(len(each.times) for each in self.workers)

    @property
    def cpu(self) -> float:
        """Seconds of CPU of an acquire."""
        return sum(each.cpu for each in self.workers) / self.acquires

    @property
    def p99(self) -> float:
        """Of the acquires of all processes, in seconds."""
        return percentile([seconds for each in self.workers for seconds in each.times], 99)

    @property
    def share(self) -> float:
        """The acquires of the process that got the least, over those of the process that got the most."""
        counts = [len(each.times) for each in self.workers]
        return min(counts) / max(counts)


def measure() -> Sequence[Line]:
    return [row for processes, cases in PROCESSES.items() for row in _rows(processes, cases)]


def _rows(processes: int, cases: Sequence[str]) -> list[Row]:
    rounds = [{case: _run(case, processes) for case in cases} for _ in range(ROUNDS)]
    found = {case: [each[case] for each in rounds] for case in cases}
    alone, who = processes == 1, f"{processes} process{'es' if processes > 1 else ''}"
    cpu = {case: _taken([each.cpu for each in of]) for case, of in found.items()}
    p99 = {case: _taken([each.p99 * 1e3 for each in of]) for case, of in found.items()}
    rate = {case: median(each.acquires / SECONDS for each in of) for case, of in found.items()}
    rows = []
    for case in cases:
        most_us, most_ms = (35 if alone else None, None if alone else 5) if case == OURS else (None, None)
        rows += [
            microseconds(f"{case}, {who}: CPU of an acquire", cpu[case], at_most=most_us),
            Row(f"{case}, {who}: p99 of an acquire", p99[case].median, "ms", at_most=most_ms, least=p99[case].least),
            Row(f"{case}, {who}: acquires per second", round(rate[case])),
        ]
    if not alone:
        share = median(each.share for each in found[OURS])
        rows.append(Row(f"{OURS}, {who}: the least that one got / the most", share, at_least=0.8))
    times = rate[PYRATE] / rate[OURS]
    return [*rows, Row(f"our time per acquire, PyrateLimiter's being 1, {who}", times, at_most=1.0)]


def _taken(values: Sequence[float]) -> Taken:
    return Taken(median(values), min(values))


def _run(case: str, processes: int) -> Round:
    with TemporaryDirectory() as folder:
        CASES[case](Path(folder))()  # makes the file
        command = [sys.executable, "-m", "benchmarks.sqlite", "--case", case, "--folder", folder]
        pipe = subprocess.PIPE
        workers = [subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe) for _ in range(processes)]
        for worker in workers:
            assert worker.stdout is not None
            worker.stdout.readline()
        for worker in workers:
            assert worker.stdin is not None
            worker.stdin.write("\n")
            worker.stdin.flush()
        return Round([Worker(**json.loads(worker.communicate()[0])) for worker in workers])


def zae_limiter(folder: Path) -> Acquire:
    """A token bucket for each limit, whose tokens come back if the block fails."""
    from zae_limiter import Limit, SyncRateLimiter, SyncRepository

    limiter = SyncRateLimiter(SyncRepository.sqlite(folder / "limits.db"))
    limits = [
        Limit.per_day("requests", 10**7),
        Limit.per_day("tokens", 2 * 10**7),
    ]  # never full: their refill is slower

    def acquire() -> None:
        with limiter.acquire("user", "api", {"requests": 1, "tokens": 1}, limits=limits):
            pass

    return acquire


def pyrate_limiter(folder: Path) -> Acquire:
    """A log of the acquires of two windows."""
    from pyrate_limiter import Limiter, Rate, SQLiteBucket

    rates = [Rate(MANY, 1000), Rate(MANY + 1, 2000)]
    bucket = SQLiteBucket.init_from_file(rates, db_path=str(folder / "rates.db"), use_file_lock=True)
    limiter = Limiter(bucket)
    return lambda: limiter.try_acquire("user")


def raw(folder: Path) -> Acquire:
    """One UPDATE of two counters that have enough, in a transaction of its own, as ours are written to the log."""
    connection = sqlite3.connect(folder / "raw.db", isolation_level=None, timeout=30)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = NORMAL")
    connection.execute("CREATE TABLE IF NOT EXISTS bucket (id TEXT PRIMARY KEY, requests INTEGER, tokens INTEGER)")
    connection.execute("INSERT OR IGNORE INTO bucket VALUES ('user', ?, ?)", (MANY, MANY))
    take = (
        "UPDATE bucket SET requests = requests - 1, tokens = tokens - 1 WHERE id = ? AND requests >= 1 AND tokens >= 1"
    )

    def acquire() -> None:
        connection.execute("BEGIN IMMEDIATE")
        if connection.execute(take, ("user",)).rowcount != 1:
            raise RuntimeError("a limit that never runs out ran out")
        connection.execute("COMMIT")

    return acquire


def raw_in_turn(folder: Path) -> Acquire:
    """The same for several processes, which sleep until the lock of a file is theirs."""
    take, lock = raw(folder), (folder / "raw.lock").open("w")

    def acquire() -> None:
        fcntl.flock(lock, fcntl.LOCK_EX)
        take()
        fcntl.flock(lock, fcntl.LOCK_UN)

    return acquire


CASES: dict[str, Callable[[Path], Acquire]] = {
    OURS: zae_limiter,
    RAW: raw,
    RAW_IN_TURN: raw_in_turn,
    PYRATE: pyrate_limiter,
}


def main() -> None:
    """Be one of the processes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", choices=CASES)
    parser.add_argument("--folder", type=Path)
    options = parser.parse_args()
    acquire = CASES[options.case](options.folder)
    for _ in range(20):
        acquire()
    print("ready", flush=True)
    sys.stdin.readline()
    begun = time.process_time()
    times = _times(acquire)
    print(json.dumps({"times": times, "cpu": time.process_time() - begun}))


def _times(acquire: Acquire) -> list[float]:
    taken = []
    begun = before = time.perf_counter()
    while before < begun + SECONDS:
        acquire()
        now = time.perf_counter()
        taken.append(now - before)
        before = now
    return taken


if __name__ == "__main__":
    main()
