"""What lives here: a process that takes slots, holds them, and notes when it has them; and who reads the notes.
What never does: how many may be held.
"""

import os
import random
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

ENTITY, RESOURCE, LIMIT = "e", "gpt-4", "parallel"
TIMEOUT = 30.0  # many processes that start at once keep a store busy
PULSE = 0.02  # seconds between two notes of a holder


def start(place: str, table: str, notes: Path, seed: int) -> subprocess.Popen[bytes]:
    """Start a process that takes slots for ever; ``place``: the URL of DynamoDB or of a store."""
    return subprocess.Popen([sys.executable, __file__, place, table, str(notes), str(seed)])


def read_notes(paths: Iterable[Path]) -> tuple[int, int, int]:
    """Return the number of leases, of those that were told that their slot is lost, and the most slots that were held
    at the same time.

    A holder that has its slot at two instants has it all the time between them.
    """
    leases = told = 0
    changes: list[tuple[float, int]] = []
    for path in paths:
        for line in path.read_text().splitlines(keepends=True) if path.exists() else ():
            if not line.endswith("\n"):
                continue  # cut off with its process
            what, *instants = line.split()
            leases += what == "taken"
            told += what == "lost"
            if what == "had":
                first, last = map(float, instants)
                changes += [(first, 1), (last, -1)]
    most = held = 0
    for _, change in sorted(changes):
        held += change
        most = max(most, held)
    return leases, told, most


def main(place: str, table: str, notes: str, seed: str) -> None:
    """Take a slot, hold it for a moment or for longer than it lasts without renewal, note it all the time."""
    from zae_limiter import RateLimiterUnavailable, RateLimitExceeded, SyncRateLimiter, SyncRepository

    chance = random.Random(int(seed))
    if place.startswith("sqlite"):
        repository = SyncRepository.open(store=place, read_timeout=TIMEOUT)
    else:
        repository = SyncRepository.open(stack=table, read_timeout=TIMEOUT, region="us-east-1", endpoint_url=place)
    with SyncRateLimiter(repository) as limiter:
        file = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        while True:
            try:
                with limiter.acquire(ENTITY, RESOURCE, {LIMIT: 1}, max_wait=chance.choice((0, 1, 5))) as lease:
                    os.write(file, b"taken\n")
                    ends = time.time() + chance.choice((0.05, 0.2, 0.5, 5.0))
                    instants = [time.time()]
                    while instants[-1] < ends:
                        time.sleep(PULSE)
                        before = time.time()
                        if lease.lost_slots:
                            os.write(file, b"lost\n")
                            break
                        instants.append(before)
                        first, last = instants[-2:]
                        os.write(file, f"had {first!r} {last!r}\n".encode())
            except (RateLimitExceeded, RateLimiterUnavailable):
                time.sleep(0.05)


if __name__ == "__main__":
    main(*sys.argv[1:])
