"""What lives here: a process that acquires from one bucket at a changing pace and notes when, and who reads the notes.
What never does: how many may be admitted.
"""

import os
import random
import subprocess
import sys
import time
from bisect import insort
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

ENTITY, RESOURCE, LIMIT = "e", "gpt-4", "rps"
TOKENS = 2  # of each acquire
STEADY, REST, HURRY = 4.0, 4.5, 3.0  # seconds
MOST_SECONDS = 60.0  # until a process on a busy machine is refused
IDLE = 1.0
TIMEOUT = 30.0  # a store that is slow because the machine is busy is not what these tests are about


class Admission(NamedTuple):
    """One admission: the instants before and after its acquire, in seconds of the machine's clock."""

    before: float
    after: float


def start(url: str, table: str, notes: Path, seed: int, begin: Path) -> subprocess.Popen[bytes]:
    """Start a process of a fleet, which makes the file of its notes, and begins at the instant in another file."""
    return subprocess.Popen([sys.executable, __file__, url, table, str(notes), str(seed), str(begin)])


def read_notes(paths: Iterable[Path]) -> list[Admission]:
    """Return what processes noted, in order; a line that was cut off with its process is left out."""
    found: list[Admission] = []
    for path in paths:
        for line in path.read_text().splitlines(keepends=True) if path.exists() else ():
            if line.endswith("\n"):
                before, after = line.split()
                insort(found, Admission(float(before), float(after)), key=lambda each: each.after)
    return found


def overdraft(admissions: Sequence[Admission], burst: int, rate: float) -> float:
    """Return the tokens by which an ideal bucket is overdrawn.

    An acquire counts at its begin; that it may count later, at its end, is taken off. So acquires that are under way
    for long, as those of stopped processes are, may look like a token too many each.
    """
    level, worst, at = float(burst), 0.0, None
    for each in sorted(admissions, key=lambda each: each.before):
        if at is not None:
            level = min(burst, level + (each.before - at) * rate)
        at = each.before
        level -= TOKENS
        worst = max(worst, -level - (each.after - each.before) * rate)
    return worst


def main(url: str, table: str, notes: str, seed: str, begin: str) -> None:
    """Acquire, at a pace that changes every second or so, and note each admission at once."""
    from zae_limiter import RateLimitExceeded, SyncRateLimiter, SyncRepository

    chance = random.Random(int(seed))
    repository = SyncRepository.open(
        stack=table, acquire_timeout=None, read_timeout=TIMEOUT, region="us-east-1", endpoint_url=url
    )
    with SyncRateLimiter(repository) as limiter:
        file = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        begun, refused = _read_instant(Path(begin)), False
        while (passed := (before := time.time()) - begun) < STEADY + REST + HURRY or not (
            refused or passed > MOST_SECONDS
        ):
            pause = _pause(passed)
            if pause < IDLE:
                try:
                    with limiter.acquire(ENTITY, RESOURCE, {LIMIT: TOKENS}):
                        os.write(file, f"{before!r} {time.time()!r}\n".encode())
                except RateLimitExceeded:
                    refused = passed > STEADY + REST
                    time.sleep(0.01)
            time.sleep(min(pause, max(0.01, STEADY + REST - passed)) * chance.uniform(0.8, 1.0) if pause else 0)


def _read_instant(path: Path) -> float:
    """Return the instant in a file, once it is there."""
    while not path.exists():
        time.sleep(0.02)
    return float(path.read_text())


def _pause(passed: float) -> float:
    """Return the seconds between acquires. All processes use tokens and hold some, rest while the bucket fills behind
    them, and hurry, together.
    """
    return 0.5 if passed < STEADY else IDLE if passed < STEADY + REST else 0.0


if __name__ == "__main__":
    main(*sys.argv[1:])
