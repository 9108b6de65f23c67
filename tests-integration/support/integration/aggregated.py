"""What lives here: histories of the limiter with the aggregator in them, on a stream that is delivered badly.
What never does: a claim, or what the limiter itself must hold (core's own simulation).
"""

from collections import Counter
from collections.abc import Iterable
from datetime import datetime
from random import Random
from typing import Any

from simulation.accounts import Account
from simulation.kernel import EPOCH_MS, Script, Task, Violation
from simulation.machine import WORST_MS
from simulation.oracle import Oracle
from simulation.plan import ENTITIES
from simulation.seams import SOUND, Seams
from simulation.world import Process, World
from support.aggregator.streams import StreamedTable
from zae_limiter.flows.steps import Log, play
from zae_limiter.operations.errors import StoreError
from zae_limiter.operations.values import Query
from zae_limiter.schema import keys
from zae_limiter.schema.items import BucketId
from zae_limiter.schema.usage import read_usage
from zae_limiter.values.usage import WINDOW_SECONDS, Window, window_start
from zae_limiter_aggregator.batch import read_batch
from zae_limiter_aggregator.batch_jobs import upkeep_jobs, usage_jobs
from zae_limiter_aggregator.held import pending_uses
from zae_limiter_aggregator.jobs import Job
from zae_limiter_aggregator.settings import Settings

WAKE_UPS = 30
HOUR_MS = 3_600_000
MIDNIGHT_MS = EPOCH_MS - EPOCH_MS % (24 * HOUR_MS) + 24 * HOUR_MS
MUCH_LATER_US = 3 * HOUR_MS * 1000

Place = tuple[str, Window, datetime, str]


class AggregatedWorld(World):
    """A history whose table has a stream, from which an aggregator is fed: late, twice, overlapping, cut anywhere.

    It may be given up in the midst of a batch; what it has sent until then still arrives. Its clock is as bad as any.
    Some histories begin seconds before an hour ends, or a day; in some, buckets expire and come back hours later.
    """

    aggregator: Process

    def __init__(self, seed: int, *, seams: Seams = SOUND) -> None:
        super().__init__(seed, seams=seams, epoch_ms=_begin_ms(Random(seed)))
        skew_ms = WORST_MS if self.plan.wrong_clocks else self.plan.skew_ms
        self.table = self.streamed = StreamedTable(lambda: self.kernel.now_ms)
        self.oracle = Oracle(
            self.kernel, self.table, skew_ms=skew_ms, lossless=False, forgetful=self.plan.forgets_buckets
        )
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
        if self.plan.expiries:
            self.kernel.later(MUCH_LATER_US, self._expire)
            for event in (self._arrive, self._arrive, self._wake, self._arrive, self._wake):
                self.kernel.later(MUCH_LATER_US + self.chance.randint(1, 5_000_000), event)

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
            if job.records:
                failed.append(self._index(job.records[0]))
        else:
            self.done[job.kind] += changed

    def _jobs(self, begin: int, end: int) -> list[Job]:
        records = self.streamed.stream[begin:end]
        batch = read_batch(records)
        assert not batch.unreadable
        self.done["removals"] += sum(is_bucket(each) and "NewImage" not in each["dynamodb"] for each in records)
        for window in WINDOW_SECONDS:
            self.done[window] += len({window_start(window, change.at_ms) for change in batch.changes}) > 1
        now = self.aggregator.namespace_state.now
        usage = usage_jobs((), pending_uses(batch.changes), self.settings, now(), spread=True)
        return [*usage, *upkeep_jobs(batch, self.settings, now)]

    def _index(self, sequence: str) -> int:
        numbers = [record["dynamodb"]["SequenceNumber"] for record in self.streamed.stream]
        return numbers.index(sequence)

    def drain(self) -> None:
        """Deliver what is left, once nothing happens any more."""
        self.aggregator = Process(self)
        while self.position < len(self.streamed.stream):
            end = len(self.streamed.stream)
            for job in self._jobs(self.position, end):
                play(job.flow, lambda step: None if isinstance(step, Log) else self.table.execute(step))
            self.position = end

    def consumed(self) -> dict[Place, int]:
        """What the limiter's writes took, by the changes that the oracle saw, and the acquires."""
        totals: Counter[Place] = Counter()
        windows: list[Window] = [*WINDOW_SECONDS]
        for write in self.oracle.applications:
            entity = BucketId.parse(write.pk).entity_id
            for window in windows:
                for name, change in write.changes.items():
                    totals[entity, window, window_start(window, write.applied_ms), name] += change.net + change.counted
        totals.update(self._acquires())
        return {place: amount for place, amount in totals.items() if amount}

    def _acquires(self) -> Counter[Place]:
        """The acquires, by the items: "events", "refused" and "shadowed", and those by limits of parents; amounts
        that no limit of the bucket refuses, too.
        """
        totals: Counter[Place] = Counter()
        for record in self.streamed.stream:
            change = record["dynamodb"]
            if not (is_bucket(record) and "NewImage" in change):
                continue
            former = change.get("OldImage", {})
            if number_of(change["NewImage"], "shard_count") < number_of(former, "shard_count"):
                continue  # a merge: the other shard's counts are counted already
            entity = BucketId.parse(change["Keys"]["PK"]["S"]).entity_id
            refused_by = [(name, name) for name in change["NewImage"] if name.startswith("rj_")]
            counted = [name[2:-3] for name in change["NewImage"] if name[:2] == "b_" and name[-3:] == "_tc"]
            unlimited = [(name, f"b_{name}_tc") for name in counted if f"b_{name}_tk" not in change["NewImage"]]
            unlimited = [each for each in unlimited if each[0] != "wcu"]
            for name, attribute in (
                ("events", "ev"),
                ("refused", "rj"),
                ("shadowed", "sj"),
                *refused_by,
                *unlimited,
            ):
                amount = number_of(change["NewImage"], attribute) - number_of(former, attribute)
                for window in WINDOW_SECONDS:
                    start = window_start(window, 1000 * change["ApproximateCreationDateTime"])
                    totals[entity, window, start, name] += amount
        return totals

    def check_events(self) -> None:
        """The acquires that snapshots count are those that callers were told of. Raises ``Violation``.

        Where answers get lost, or a cancelled one cannot be taken back, there may be more.
        """
        told = Counter[str]()
        for _, caller, _ in self.callers:
            for bucket, number in caller.calls.items():
                told[bucket.split("#")[1]] += number
        for window in WINDOW_SECONDS:
            found: Counter[str] = Counter()
            for (entity, of, _, name), amount in self.counted().items():
                if (of, name) == (window, "events"):
                    found[entity] += amount
            if told - found or (self.plan.certain and found != told):
                raise Violation(f"callers were told of {told}, the {window} snapshots say {found}")

    def counted(self) -> dict[Place, int]:
        """What the snapshots say, in millitokens."""
        totals: Counter[Place] = Counter()
        for entity in ENTITIES:
            items = self.table.execute(Query(keys.pk_entity("ns", entity), begins_with=keys.USAGE_PREFIX)).items
            for item in items:
                try:
                    usage = read_usage(item)
                except KeyError as missing:
                    raise Violation(f"a snapshot has no {missing}: {item}") from missing
                at = usage.entity_id, usage.window, usage.window_start
                totals[*at, "events"] += usage.total_events
                totals[*at, "refused"] += usage.total_refused
                totals[*at, "shadowed"] += usage.total_shadowed
                for refuser, number in usage.refused_by.items():
                    totals[*at, f"rj_{refuser}"] += number
                for name in usage.consumed:
                    totals[*at, name] += 1000 * item[f"l_{name}"] + item.get(f"_rest_{name}", 0)
        return {place: amount for place, amount in totals.items() if amount}


def _begin_ms(chance: Random) -> int:
    """Far from the end of any window, or less than three seconds before an hour ends, or a day."""
    end_ms = chance.choice((None, MIDNIGHT_MS - HOUR_MS, MIDNIGHT_MS))
    return EPOCH_MS if end_ms is None else end_ms - chance.randint(0, 3_000)


def is_bucket(record: dict[str, Any]) -> bool:
    return bool(record["dynamodb"]["Keys"]["SK"]["S"] == "#STATE")


def number_of(image: dict[str, Any], attribute: str) -> int:
    return int(image.get(attribute, {"N": "0"})["N"])


def simulate(seed: int, *, seams: Seams = SOUND) -> AggregatedWorld:
    world = AggregatedWorld(seed, seams=seams)
    try:
        world.run()
        world.drain()
        wrong = world.counted().items() ^ world.consumed().items()
        if wrong:
            raise Violation(f"snapshots and consumption differ: {sorted(wrong)}")
        world.check_events()
    except Violation as violation:
        raise Violation(f"seed {seed}: {violation}\n{world.plan}") from violation
    return world


def simulate_many(seeds: Iterable[int], *, seams: Seams = SOUND) -> Counter[str]:
    """What was done in all of them."""
    return sum((simulate(seed, seams=seams).done for seed in seeds), Counter[str]())
