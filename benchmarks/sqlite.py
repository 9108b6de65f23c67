"""Acquires of two limits of one user by several processes of this host, beside what other libraries offer for that.

Lives here: ours over a file of SQLite, PyrateLimiter's bucket in one, as its documentation says for several processes,
and ``limits`` in the memory of each process, which share nothing. Never: a network.

Each process has an interpreter of its own: ``python -m benchmarks.sqlite --case NAME --folder FOLDER`` waits for a
line, acquires for ``SECONDS``, and prints its times as JSON. PyrateLimiter counts the rows of a window with each
acquire: its windows are short here, which is to its advantage.
"""

import argparse
import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from .measure import percentile
from .report import Line, Row

OURS, PYRATE, LIMITS = "zae-limiter", "PyrateLimiter's SQLiteBucket", "limits, in memory"
PROCESSES = (1, 4, 8)
ROUNDS = 3
SECONDS = 1.0
MANY = 10**9

Acquire = Callable[[], object]


def measure() -> Sequence[Line]:
    """The cases take turns, so that a disturbance hits all alike."""
    rows = []
    for processes in PROCESSES:
        rounds = [{case: _run(case, processes) for case in CASES} for _ in range(ROUNDS)]
        every = {case: [each[case] for each in rounds] for case in CASES}
        rate = {case: median(len(times) / SECONDS for times in found) for case, found in every.items()}
        of_so_many = f"{processes} process{'es' if processes > 1 else ''}"
        for case, found in every.items():
            p99 = median(percentile(times, 99) for times in found)
            rows.append(Row(f"{case}, {of_so_many}: acquires per second", round(rate[case])))
            rows.append(Row(f"{case}, {of_so_many}: p99 of an acquire", p99 * 1e3, "ms"))
        ratio = rate[PYRATE] / rate[OURS]
        rows.append(Row(f"our time per acquire, PyrateLimiter's being 1, {of_so_many}", ratio, at_most=1.0))
    return rows


def _run(case: str, processes: int) -> list[float]:
    """The seconds of every acquire of all processes."""
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
        return [seconds for worker in workers for seconds in json.loads(worker.communicate()[0])]


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


def limits(_: Path) -> Acquire:
    """A counter for each of two windows."""
    from limits import RateLimitItemPerMinute, RateLimitItemPerSecond, storage, strategies

    limiter = strategies.FixedWindowRateLimiter(storage.MemoryStorage())
    rates = RateLimitItemPerSecond(MANY), RateLimitItemPerMinute(MANY)
    return lambda: [limiter.hit(rate, "user") for rate in rates]


CASES: dict[str, Callable[[Path], Acquire]] = {OURS: zae_limiter, PYRATE: pyrate_limiter, LIMITS: limits}


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
    print(json.dumps(_times(acquire)))


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
