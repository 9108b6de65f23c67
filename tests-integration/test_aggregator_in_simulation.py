"""What lives here: the aggregator in simulated histories of the limiter, on a stream that is delivered badly.
What never does: what the limiter itself must hold (core's own simulation).
"""

from collections import Counter
from datetime import datetime
from random import Random
from typing import Any

import pytest
from simulation.accounts import Account
from simulation.kernel import Script, Task, Violation
from simulation.machine import WORST_MS
from simulation.oracle import Oracle
from simulation.plan import ENTITIES
from simulation.world import Process, World
from streams import StreamedTable

from zae_limiter.flows.steps import Tell, play
from zae_limiter.operations.errors import StoreError
from zae_limiter.operations.values import Query
from zae_limiter.schema import keys
from zae_limiter.schema.usage import read_usage
from zae_limiter.usage import WINDOW_SECONDS, Window, window_start
from zae_limiter_aggregator.batch import read_batch
from zae_limiter_aggregator.jobs import Job
from zae_limiter_aggregator.settings import Settings
from zae_limiter_aggregator.work import jobs_of

WAKE_UPS = 30

Place = tuple[str, Window, datetime, str]


class AggregatedWorld(World):
    """A history whose table has a stream, from which an aggregator is fed: late, twice, overlapping, cut anywhere.

    It may be given up in the midst of a batch; what it has sent until then still arrives.
    """

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        skew_ms = WORST_MS if self.plan.clocks else self.plan.skew_ms
        self.table = self.streamed = StreamedTable(lambda: self.kernel.now_ms)
        self.oracle = Oracle(self.kernel, self.table, skew_ms=skew_ms, lonely=False)
        self.settings = Settings(stack="simulated", refill_after_seconds=self.rng.choice((0, 1, 1, 5)))
        self.chance = Random(seed)
        self.position = 0
        self.done: Counter[str] = Counter()
        self.invocation: Task | None = None

    def _schedule(self) -> None:
        super()._schedule()
        at_us = 0
        for _ in range(WAKE_UPS):
            at_us += self.chance.choice((50_000, 500_000, 20_000_000))
            self.kernel.later(self.chance.randint(0, at_us), self._wake)

    def _wake(self) -> None:
        """Deliver a batch, unless one is under way that is not given up."""
        under_way = self.invocation is not None and not self.invocation.ended.done
        if under_way and self.chance.random() < 0.5:
            return
        if under_way:
            self.aggregator.alive = False
            self.done["given up"] += 1
        self.aggregator = Process(self)
        begin, end = self._cut()
        self.invocation = Task(self.kernel, self.aggregator, self._invoke(begin, end))

    def _cut(self) -> tuple[int, int]:
        stream, chance = self.streamed.stream, self.chance
        begin = max(0, self.position - chance.choice((0, 0, 0, 3, 50)))
        return begin, min(len(stream), self.position + chance.randint(1, 100))

    def _invoke(self, begin: int, end: int) -> Script[None]:
        owner, failed = self.aggregator, [end]
        tasks = [Task(self.kernel, owner, self._perform(job, failed)) for job in self._jobs(begin, end)]
        for task in tasks:
            yield task.ended
        self.position = max(self.position, min(failed)) if min(failed) < end else max(self.position, end)

    def _perform(self, job: Job, failed: list[int]) -> Script[None]:
        try:
            changed = yield from self.aggregator.driver.run(job.flow, Account())
        except StoreError:
            if job.first is not None:
                failed.append(self._index(job.first))
        else:
            self.done[job.kind] += changed

    def _jobs(self, begin: int, end: int) -> list[Job]:
        batch = read_batch(self.streamed.stream[begin:end])
        assert not batch.unreadable
        return jobs_of(batch, self.settings, lambda: self.kernel.now_ms)

    def _index(self, sequence: str) -> int:
        numbers = [record["dynamodb"]["SequenceNumber"] for record in self.streamed.stream]
        return numbers.index(sequence)

    def drain(self) -> None:
        """Deliver what is left, once nothing happens any more."""
        while self.position < len(self.streamed.stream):
            end = len(self.streamed.stream)
            for job in self._jobs(self.position, end):
                play(job.flow, lambda step: None if isinstance(step, Tell) else self.table.execute(step))
            self.position = end

    def consumed(self) -> dict[Place, int]:
        """What the limiter's writes took, by the oracle's books, and the acquires, by the items."""
        books: Counter[Place] = Counter()
        windows: list[Window] = [*WINDOW_SECONDS]
        for write in self.oracle.applications:
            entity = keys.parse_bucket_pk(write.pk).entity
            for window in windows:
                for name, change in write.changes.items():
                    books[entity, window, window_start(window, write.applied_ms), name] += change.net
        for record in self.streamed.stream:
            change = record["dynamodb"]
            if change["Keys"]["SK"]["S"] == "#STATE" and "NewImage" in change:
                entity = keys.parse_bucket_pk(change["Keys"]["PK"]["S"]).entity
                events = events_of(change["NewImage"]) - events_of(change.get("OldImage", {}))
                for window in windows:
                    start = window_start(window, 1000 * change["ApproximateCreationDateTime"])
                    books[entity, window, start, "events"] += events
        return {place: amount for place, amount in books.items() if amount}

    def counted(self) -> dict[Place, int]:
        """What the snapshots say, in millitokens."""
        books: Counter[Place] = Counter()
        for entity in ENTITIES:
            items = self.table.execute(Query(keys.pk_entity("ns", entity), begins_with=keys.USAGE_PREFIX)).items
            for item in items:
                usage = read_usage(item)
                at = usage.entity_id, usage.window, usage.window_start
                books[*at, "events"] += usage.total_events
                for name in usage.consumed:
                    books[*at, name] += 1000 * item[name] + item.get(f"_rest_{name}", 0)
        return {place: amount for place, amount in books.items() if amount}


def events_of(image: dict[str, Any]) -> int:
    return int(image.get("ev", {"N": "0"})["N"])


def simulate(seed: int) -> AggregatedWorld:
    world = AggregatedWorld(seed)
    try:
        world.run()
        world.drain()
        wrong = world.counted().items() ^ world.consumed().items()
        if wrong:
            raise Violation(f"snapshots and consumption differ: {sorted(wrong)}")
    except Violation as violation:
        raise Violation(f"seed {seed}: {violation}\n{world.plan}") from violation
    return world


@pytest.mark.parametrize("first", range(1, 101, 25))
def test_usage_equals_consumption_and_no_token_is_made_or_lost(first: int) -> None:
    for seed in range(first, first + 25):
        simulate(seed)


def test_the_histories_are_worth_something() -> None:
    done: Counter[str] = Counter()
    for seed in range(1, 26):
        done += simulate(seed).done
    assert done["snapshots"] > 100
    assert min(done["refills"], done["given up"]) > 10
    assert done["splits"] > 0
