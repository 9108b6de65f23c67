"""What lives here: a process that acquires from one bucket under ``share`` and notes when, and who reads the notes.
What never does: how many may be admitted.
"""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

ENTITY, RESOURCE, LIMIT = "e", "gpt-4", "rps"
TOKENS = 2  # of each acquire
WINDOW_MS, MARGIN_MS = 2_000, 200  # in place of half a minute and a second, so that a test need not wait for them
PAUSE = 0.02


class Note(NamedTuple):
    """One admission: the instants before and after its acquire, in seconds of the machine's clock."""

    before: float
    after: float
    degraded: bool
    process: int


def start(url: str, table: str, notes: Path, seed: int, end: Path) -> subprocess.Popen[bytes]:
    """Start a process of a fleet that works until there is a file with this name."""
    return subprocess.Popen([sys.executable, __file__, url, table, str(notes), str(seed), str(end)])


def read_notes(paths: Iterable[Path]) -> list[Note]:
    """Return what processes noted, in the order of their begin."""
    found = []
    for number, path in enumerate(paths):
        for line in path.read_text().splitlines() if path.exists() else ():
            before, after, degraded = line.split()
            found.append(Note(float(before), float(after), degraded == "True", number))
    return sorted(found)


def main(url: str, table: str, notes: str, seed: str, end: str) -> None:
    """Acquire as often as the limiter lets it, and note each admission."""
    from zae_limiter import RateLimiterUnavailable, RateLimitExceeded, SyncRateLimiter, SyncRepository
    from zae_limiter.flows.process import consumption

    vars(consumption).update(WINDOW_MS=WINDOW_MS, MARGIN_MS=MARGIN_MS)
    chance, over = random.Random(int(seed)), Path(end)
    repository = SyncRepository.open(stack=table, on_unavailable="share", region="us-east-1", endpoint_url=url)
    with SyncRateLimiter(repository) as limiter:
        file = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        while not over.exists():
            before = time.time()
            try:
                with limiter.acquire(ENTITY, RESOURCE, {LIMIT: TOKENS}) as lease:
                    os.write(file, f"{before!r} {time.time()!r} {lease.degraded}\n".encode())
            except (RateLimitExceeded, RateLimiterUnavailable):
                pass
            time.sleep(PAUSE * chance.uniform(0.8, 1.2))


if __name__ == "__main__":
    main(*sys.argv[1:])
