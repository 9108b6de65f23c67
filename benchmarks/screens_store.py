"""A namespace of 50,000 entities with usage in this hour, in a file, and callers that are refused there.

Lives here: what is stored, a store that counts what it is asked, the callers. Never: a screen.

``python -m benchmarks.screens_store --place PLACE`` makes the callers' process, until its input ends.
"""

import argparse
import json
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from enum import Enum
from itertools import islice
from select import select
from typing import Any

from support.core.snapshots import usage_item
from zae_limiter import (
    Limit,
    Options,
    RateLimiterUnavailable,
    RateLimitExceeded,
    SyncRateLimiter,
    SyncRepository,
    UsageSnapshot,
)
from zae_limiter.engines.memory.store import SyncMemoryStore
from zae_limiter.engines.sqlite.sync import SyncSQLiteStore
from zae_limiter.operations.values import BatchGet, BatchWrite, Get, Item, Operation, Put, Query, Scan
from zae_limiter.stores import Capabilities, SyncStore
from zae_limiter.values import Refuser

ENTITIES, TEAM = 50_000, 100  # keys, and keys of a team
REFUSED = 200  # keys of the first teams, which are refused
REFUSALS_PER_SECOND = 200
RESOURCE = "gpt-4"
ANSWER_SECONDS = 0.004
PERIOD = 10.0  # seconds over which reads are counted
ATTEMPTS, PAUSE_SECONDS = 60, 1.0
FIRST_CHANGE = "-00000"  # the end of an event's id
AT_ONCE = 25  # that a request writes


class Kind(Enum):
    """A key and its team, of which the others are copies."""

    REFUSED = "a"
    ADMITTED = "b"

    @property
    def refused(self) -> bool:
        return self is Kind.REFUSED

    @property
    def key(self) -> str:
        return f"one-key-{self.value}"

    @property
    def team(self) -> str:
        return f"one-team-{self.value}"

    def is_of(self, item: Item) -> bool:
        """Whether an item is of the key or of the team."""
        return self.key in str(item) or self.team in str(item)


class Counting(SyncStore):
    """A store over a file that is as far away as a table, and keeps the instants of the reads that it is asked for."""

    def __init__(self, place: str) -> None:
        self._store = SyncSQLiteStore(place)
        self._reads: list[float] = []

    def begin(self) -> None:
        """Forget the reads so far."""
        self._reads = []

    def worst(self) -> float:
        """The most reads in any ten seconds, per second."""
        return max(sum(at <= each < at + PERIOD for each in self._reads) for at in self._reads) / PERIOD

    @property
    def capabilities(self) -> Capabilities:
        return self._store.capabilities

    def connect(self) -> None:
        self._store.connect()

    def perform(self, operation: Operation[Any]) -> Any:
        if isinstance(operation, BatchGet | Get | Query | Scan):
            self._reads.append(time.monotonic())
            time.sleep(ANSWER_SECONDS)
        return self._store.perform(operation)

    def close(self) -> None:
        self._store.close()


def fill(place: str) -> None:
    """Have a file hold the namespace, with the use of all buckets counted."""
    store, items = SyncSQLiteStore(place), map(Put, _items())
    for puts in iter(lambda: tuple(islice(items, AT_ONCE)), ()):
        store.perform(BatchWrite(puts))
    store.close()
    with SyncRepository.sqlite(place) as repository:
        for _ in range(ATTEMPTS):
            with suppress(RateLimiterUnavailable):  # what was counted in time stays counted
                repository.get_usage_snapshots(start=datetime.now(UTC) - timedelta(hours=1))
                return
            time.sleep(PAUSE_SECONDS)  # while the breaker is open, it answers at once
    raise RuntimeError("the file does not count the use of its buckets")


def _items() -> Iterator[Item]:
    """Every item: teams below a company, keys below teams, with their buckets, and their usage of this hour."""
    memory, hour = SyncMemoryStore(), datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    with SyncRepository.over(memory, Options()) as repository:
        limiter = SyncRateLimiter(repository)
        repository.set_resource_defaults(RESOURCE, [Limit.per_minute("rpm", 600)])
        limiter.create_entity("acme-corp")
        for kind in Kind:
            limiter.create_entity(kind.team, parent_id="acme-corp")
            limiter.create_entity(kind.key, parent_id=kind.team, cascade=kind.refused)
            if kind.refused:
                repository.set_limits(kind.team, [Limit.per_minute("rpm", TEAM)], RESOURCE)
            with limiter.acquire(kind.key, RESOURCE, {"rpm": 1}):
                pass
        namespace_id = repository.namespace_id
    found = memory.table.execute(Scan(limit=1000)).items
    yield from (item for item in found if not any(kind.is_of(item) for kind in Kind))
    for number in range(ENTITIES):
        kind = Kind.REFUSED if number < REFUSED else Kind.ADMITTED
        key, team = f"key-{number:05}", f"team-{number // TEAM:03}"
        copied = [item for item in found if kind.is_of(item) and (number % TEAM == 0 or kind.key in str(item))]
        names = {FIRST_CHANGE: f"-{number:05}", kind.key: key, kind.team: team}
        yield from (_renamed(item, names) for item in copied)
        by = {Refuser(team, "rpm"): number + 1} if kind.refused else {}
        for at in (hour - timedelta(hours=1), hour)[number >= ENTITIES // 5 :]:
            used = UsageSnapshot(key, RESOURCE, "hourly", at, {"rpm": 1}, 1, sum(by.values()), 0, by)
            yield usage_item(namespace_id, used)


def _renamed(item: Item, names: Mapping[str, str]) -> Item:
    def new(value: Any) -> Any:
        for old, name in names.items():
            value = value.replace(old, name) if isinstance(value, str) else value
        return value

    return {attribute: new(value) for attribute, value in item.items()}


@contextmanager
def call_in_another_process(place: str) -> Iterator[None]:
    """Have callers refused meanwhile, and fail if there were fewer than there should be."""
    command = [sys.executable, "-m", "benchmarks.screens_store", "--place", place]
    begun, pipe = time.monotonic(), subprocess.PIPE
    process = subprocess.Popen(command, text=True, stdin=pipe, stdout=pipe)
    yield
    answers = json.loads(process.communicate("end")[0])
    rate = answers.get("refused", 0) / (time.monotonic() - begun)
    if rate < 0.8 * REFUSALS_PER_SECOND:
        raise RuntimeError(f"{rate:.0f} calls a second were refused: {answers}")


def call(place: str) -> Counter[str]:
    """Call for the refused keys, so many times a second, until the input ends."""
    answers: Counter[str] = Counter()
    with SyncRepository.sqlite(place) as repository:
        limiter, begun = SyncRateLimiter(repository), time.monotonic()
        while not select([sys.stdin], [], [], 0)[0]:
            for _ in range(int((time.monotonic() - begun) * REFUSALS_PER_SECOND) - sum(answers.values())):
                key = f"key-{sum(answers.values()) % REFUSED:05}"
                try:
                    with limiter.acquire(key, RESOURCE, {"rpm": 1}):
                        answers["admitted"] += 1
                except RateLimitExceeded:
                    answers["refused"] += 1
                except RateLimiterUnavailable:
                    answers["unavailable"] += 1
            time.sleep(0.01)
    return answers


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--place", required=True)
    print(json.dumps(call(parser.parse_args().place)))
