"""Processes that share a file of SQLite, half of which are killed, and what they noted on their own.

    python -m support.core.killed --seconds 60

Each of 8 processes has 4 threads. A thread notes an acquire before it asks, and the outcome behind it, each on the disk
(fsync) in a ledger of its own, of which the limiter knows nothing. Every half second half of the processes is killed
(SIGKILL), wherever they are, and new ones take their places. In the end the ledgers say what was admitted at least, and
at most: a killed thread leaves one acquire whose outcome nobody knows.
"""

import argparse
import os
import random
import signal
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Thread

from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter.flows.process.namespace_state import bucket_key
from zae_limiter.operations.values import Get
from zae_limiter.schema.items import BucketId
from zae_limiter.values.usage import UsageSummary

PROCESSES, THREADS = 8, 4
ENTITIES = ("ann", "bob", "cid")
BURST, PER_SECOND = 500, 100
RESOURCE = "api"
PAUSE_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Account:
    """What the ledgers and the file say of one entity, in tokens and acquires."""

    admitted: int
    unknown: int
    acquires: int
    unknown_acquires: int
    minted_at_most: int
    stored: int
    usage: UsageSummary

    @property
    def faults(self) -> list[str]:
        """What is not as it must be."""
        (rpm,) = self.usage.limits  # a run in which nothing happens proves nothing
        claims = {
            "the file counts all that was admitted, and nothing else": self.admitted
            <= self.stored
            <= self.admitted + self.unknown,
            "no more was admitted than there was": self.stored <= self.minted_at_most,
            "usage is what the bucket has counted": rpm.total == self.stored,
            "usage counts the acquires": self.acquires
            <= self.usage.total_events
            <= self.acquires + self.unknown_acquires,
        }
        return [claim for claim, holds in claims.items() if not holds]


def run(folder: Path, seconds: float, *, seed: int = 0) -> dict[str, Account]:
    """Let the processes live and die for so long, and return the account of each entity. This process must not have
    threads: it forks.
    """
    chance = random.Random(seed)
    limiter = open_limiter(folder)
    limiter.set_resource_defaults(RESOURCE, [Limit.per_second("rpm", PER_SECOND, burst=BURST)])
    begun = time.time()
    alive = [_begin(limiter, folder, number) for number in range(PROCESSES)]
    number = PROCESSES
    while time.time() < begun + seconds:
        time.sleep(PAUSE_SECONDS)
        for index in chance.sample(range(PROCESSES), PROCESSES // 2):
            _kill(alive[index])
            alive[index] = _begin(limiter, folder, number)
            number += 1
    for process in alive:
        _kill(process)
    with limiter:
        return {entity: _account(limiter, folder, entity, time.time() - begun) for entity in ENTITIES}


def open_limiter(folder: Path) -> SyncRateLimiter:
    """A limiter over the file in the folder."""
    return SyncRateLimiter(SyncRepository.sqlite(folder / "limits.db"))


def _begin(limiter: SyncRateLimiter, folder: Path, number: int) -> int:
    """Fork a process that acquires until it is killed; return its id."""
    if process := os.fork():
        return process
    for n in range(THREADS):
        Thread(target=_acquire, args=(limiter, folder / f"{number}-{n}.ledger")).start()
    while True:
        time.sleep(60)


def _kill(process: int) -> None:
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)


def _acquire(limiter: SyncRateLimiter, ledger: Path) -> None:
    chance = random.Random(ledger.name)
    with ledger.open("w", buffering=1) as file:
        while True:
            entity, amount = chance.choice(ENTITIES), chance.randint(1, 5)
            _note(file.fileno(), f"? {entity} {amount}\n")
            try:
                with limiter.acquire(entity, RESOURCE, {"rpm": amount}):
                    outcome = "+"
            except RateLimitExceeded:
                outcome = "-"
            _note(file.fileno(), f"{outcome}\n")


def _note(descriptor: int, line: str) -> None:
    os.write(descriptor, line.encode())
    os.fsync(descriptor)


def _account(limiter: SyncRateLimiter, folder: Path, entity: str, seconds: float) -> Account:
    admitted, unknown = Counter[str](), Counter[str]()
    acquires, unknown_acquires = Counter[str](), Counter[str]()
    for ledger in folder.glob("*.ledger"):
        lines = ledger.read_text().split("\n")[:-1]
        for line, outcome in zip(lines[::2], [*lines[1::2], "!"], strict=False):
            _, asked, amount = line.split()
            if outcome == "+":
                admitted[asked] += int(amount)
                acquires[asked] += 1
            elif outcome == "!":
                unknown[asked] += int(amount)
                unknown_acquires[asked] += 1
    repository = limiter.repository
    item = repository._store.perform(Get(bucket_key(BucketId(repository.namespace_id, entity, RESOURCE))))
    usage = repository.get_usage_summary(entity_id=entity, resource=RESOURCE, window="daily")
    stored = 0 if item is None else item["b_rpm_tc"] // 1000
    minted = BURST + int(PER_SECOND * seconds) + 1
    return Account(admitted[entity], unknown[entity], acquires[entity], unknown_acquires[entity], minted, stored, usage)


def main() -> None:
    """Run for so many seconds; 1 is the exit code of a fault."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        accounts = run(Path(folder), options.seconds, seed=time.time_ns())
    for entity, account in accounts.items():
        print(entity, account)
        for fault in account.faults:
            print("WRONG:", fault)
    sys.exit(any(account.faults for account in accounts.values()))


if __name__ == "__main__":
    main()
