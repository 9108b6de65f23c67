"""A bucket is decided as a limiter decides that gets the same calls at the same instants."""

from collections.abc import Callable, Mapping
from random import Random
from typing import Any

import pytest

from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter.observers import AcquireEvent, Event, LeaseEvent
from zae_limiter.replay.writes import DISABLED, BucketLimits, BucketReplay, Decider, Judged
from zae_limiter.schema.trace import TracedWrite
from zae_limiter.testing import ManualClock

BEGIN_MS = 1_764_028_800_000 + 86_399_000  # a second before a midnight of UTC
NAMES = ("rpm", "tpm", "usd")
MILLI = 1000

RATES: tuple[Callable[[str, int], Limit], ...] = (
    lambda name, n: Limit.custom(name, n, refill_period=7),
    lambda name, n: Limit.custom(name, n, burst=3 * n, refill_amount=1 + n // 2, refill_period=3),
    lambda name, n: Limit.custom(name, n, kind="calendar", window="minute"),
    lambda name, n: Limit.custom(name, n, kind="calendar", window="day", timezone="Europe/Berlin"),
    lambda name, n: Limit.custom(name, n, kind="first_use", refill_period=20),
    lambda name, n: Limit.total(name, 20 * n),
    lambda name, n: Limit.custom(name, n, schedule=["night: 00:00-00:01 3/min burst 4", "later: 00:02-23:00 9/min"]),
    lambda name, n: Limit.custom(name, n, kind="first_use", refill_period=20, schedule=["a: 00:00-00:01 capacity 2"]),
    lambda name, n: Limit.custom(name, n, kind="calendar", window="minute", schedule=["a: 00:01-00:03 capacity 2"]),
    lambda name, _: Limit.custom(name, 0),
)


def limit(random: Random, name: str) -> Limit:
    made = random.choice(RATES if random.random() < 0.6 else RATES[:2])(name, random.randint(1, 9))
    return Limit.from_dict(made.to_dict() | {"shadow": True}) if random.random() < 0.2 else made


class World:
    """A limiter in memory with one bucket, and what decides the same calls."""

    def __init__(self, random: Random) -> None:
        self.clock = ManualClock(BEGIN_MS)
        self.repository = SyncRepository.in_memory(clock=self.clock, config_cache_ttl=86_400)
        self.events: list[Event] = []
        self.limiter = SyncRateLimiter(self.repository, observers=[self.events.append])
        self.limits = tuple(limit(random, name) for name in sorted(random.sample(NAMES, random.randint(1, 3))))
        self.repository.set_limits("key", list(self.limits), "gpt-4")
        self.decider = Decider(BucketLimits("key", "gpt-4", self.limits))
        self.leases: list[tuple[Any, Mapping[str, int]]] = []

    def acquire(self, amounts: Mapping[str, int]) -> None:
        lease = self.limiter.acquire("key", "gpt-4", dict(amounts))
        short: set[str] = set()
        try:
            lease.__enter__()
        except RateLimitExceeded as refusal:
            short = {each.limit.name for each in refusal.violations}
        else:
            self.leases.append((lease, amounts))
        event = self.events[-1]
        assert isinstance(event, AcquireEvent)
        found = self.decider.call(self.clock.now_ms(), *self.charged(amounts))
        if short:
            assert {each.name for each in found if not each.shadow} == short
        else:
            assert {each.name for each in found} == {each.limit.name for each in event.shadowed}

    def end(self, random: Random) -> None:
        lease, amounts = self.leases.pop(random.randrange(len(self.leases)))
        adjusted = {name: random.randint(-amount, 3) for name, amount in amounts.items() if random.random() < 0.7}
        if adjusted:
            lease.adjust(**adjusted)
        lease.__exit__(None, None, None)
        event = self.events[-1]
        assert isinstance(event, LeaseEvent)
        changes = {name: event.consumed[name] - amount for name, amount in amounts.items()}
        self.decider.correct(self.clock.now_ms(), *self.charged(changes))

    def charged(self, amounts: Mapping[str, int]) -> tuple[Any, list[int]]:
        return self.decider.charged(tuple(amounts)), [each * MILLI for each in amounts.values()]


@pytest.mark.long(keep=15)
@pytest.mark.parametrize("seed", range(60))
def test_every_verdict_is_that_of_a_limiter(seed: int) -> None:
    random = Random(seed)
    world = World(random)
    names = [each.name for each in world.limits]
    ends = not any(each.shadow for each in world.limits)  # what a shadow limit missed is the lease's to know
    for _ in range(80):
        world.clock.advance(ms=random.choice((0, 0, 1, 7, 400, 2000, 9000, 61_000)))
        if ends and world.leases and random.random() < 0.3:
            world.end(random)
        else:
            asked = random.sample(names, random.randint(1, len(names)))
            world.acquire({name: random.choice((1, 1, 2, 5)) for name in asked})


def replay(*limits: Limit, since_ms: int = 0, **switches: bool) -> BucketReplay:
    return BucketReplay(BucketLimits("key", "gpt-4", limits, **switches), since_ms)


def write(
    second: int, admitted: int, refused: int = 0, *amounts: int, above: int = 0, is_new: bool = False
) -> TracedWrite:
    milli = [each * MILLI for each in amounts]
    return TracedWrite(BEGIN_MS + 1000 * second, f"a#{second}", 0, admitted, refused, above, int(is_new), milli)


def put(found: BucketReplay, names: tuple[str, ...], made: TracedWrite) -> None:
    found.write(made.at_ms, names, made)


RPM = ("rpm",)
FIVE = Limit.custom("rpm", 5, refill_period=3600)


def test_the_calls_of_a_write_that_served_several_are_decided_one_by_one() -> None:
    found = replay(FIVE)
    put(found, RPM, write(0, 8, 0, 8, is_new=True))
    assert found.judged() == Judged(8, 0, 3, 3, {"rpm": (3, 3)})


def test_a_sum_that_no_call_divides_is_taken_whole() -> None:
    found = replay(Limit.custom("rpm", 10, refill_period=86_400))
    put(found, RPM, write(0, 3, 0, 10, is_new=True))
    assert found.judged().most == 0
    put(found, RPM, write(1, 1, 0, 1))
    assert found.judged() == Judged(4, 0, 1, 1, {"rpm": (1, 1)})


def test_a_refused_call_is_as_large_as_the_last_admitted_one_and_may_be_admitted_now() -> None:
    found = replay(Limit.custom("rpm", 7, refill_period=3600))
    put(found, RPM, write(0, 2, 3, 4, is_new=True))
    assert found.judged() == Judged(5, 3, 2, 2, {"rpm": (2, 2)})


def test_a_call_that_an_ancestor_refused_is_none_of_this_bucket() -> None:
    found = replay(FIVE)
    put(found, RPM, write(0, 1, 3, 1, above=2, is_new=True))
    assert found.judged() == Judged(2, 1, 0, 0, {"rpm": (0, 0)})


def test_a_refused_call_before_any_that_was_admitted_may_be_of_any_size() -> None:
    found = replay(FIVE)
    put(found, RPM, write(0, 0, 4, 0))
    assert found.judged() == Judged(4, 4, 0, 4, {"rpm": (0, 4)})


def test_what_an_older_bucket_had_is_between_nothing_and_all() -> None:
    found = replay(FIVE)
    for second in range(4):
        put(found, RPM, write(second, 1, 0, 1))
    assert found.judged() == Judged(4, 0, 0, 4, {"rpm": (0, 4)})


def test_both_begins_come_to_the_same_once_the_bucket_has_been_full() -> None:
    found = replay(FIVE)
    for second in range(8):
        put(found, RPM, write(second, 1, 0, 1))
    put(found, RPM, write(9_000, 1, 0, 1))
    before = found.judged()
    for second in range(9_001, 9_020):
        put(found, RPM, write(second, 1, 0, 1))
    after = found.judged()
    assert (before.least, before.most) == (3, 8)
    assert (after.least - before.least, after.most - before.most) == (15, 15)


def test_writes_before_the_replay_count_for_what_is_left_alone() -> None:
    found = replay(FIVE, since_ms=BEGIN_MS + 10_000)
    put(found, RPM, write(0, 5, 7, 5, is_new=True))
    put(found, RPM, write(10, 1, 0, 1))
    assert found.judged() == Judged(1, 0, 1, 1, {"rpm": (1, 1)})


def test_a_new_bucket_begins_full_again() -> None:
    found = replay(FIVE)
    put(found, RPM, write(0, 5, 0, 5, is_new=True))
    put(found, RPM, write(1, 5, 0, 5, is_new=True))
    assert found.judged().most == 0


def test_what_leases_give_back_counts_in_the_proportion_of_the_calls_that_are_admitted() -> None:
    found = replay(Limit.custom("tpm", 100, refill_period=86_400))
    put(found, ("tpm",), write(0, 2, 0, 200, is_new=True))  # one of the two is admitted
    put(found, ("tpm",), write(1, 0, 0, -100))  # of which half comes back
    for second in (2, 3):
        put(found, ("tpm",), write(second, 1, 0, 50))
    assert found.judged() == Judged(4, 0, 2, 2, {"tpm": (2, 2)})


def test_what_comes_back_beside_a_call_comes_back_whether_it_is_admitted_or_not() -> None:
    for rpm, refused in ((1, 0), (6, 1)):
        found = replay(FIVE, Limit.custom("tpm", 100, refill_period=86_400))
        names = ("rpm", "tpm")
        put(found, names, write(0, 1, 0, 0, 100, is_new=True))
        put(found, names, write(1, 1, 2, rpm, -60))  # the refused ones were of no rpm
        put(found, names, write(2, 1, 0, 0, 60))
        assert found.judged().least == refused + 2, "the two of 100 tpm"


def test_a_shadow_limit_refuses_nobody_and_is_counted() -> None:
    found = replay(Limit.custom("rpm", 1, refill_period=3600, shadow=True))
    put(found, RPM, write(0, 3, 0, 3, is_new=True))
    assert found.judged() == Judged(3, 0, 0, 0, {"rpm": (2, 2)})


def test_switches_come_before_limits() -> None:
    found = replay(FIVE, disabled=True)
    put(found, RPM, write(0, 3, 1, 3))
    assert found.judged() == Judged(4, 1, 4, 4, {DISABLED: (4, 4)})
    found = replay(FIVE, bypass=True)
    put(found, RPM, write(0, 9, 0, 9, is_new=True))
    assert found.judged() == Judged(9, 0, 0, 0, {"rpm": (4, 4)})


def test_a_limit_that_the_bucket_had_not_is_not_asked() -> None:
    found = replay(FIVE)
    put(found, ("old", "rpm"), write(0, 6, 0, 600, 6, is_new=True))
    assert found.judged() == Judged(6, 0, 1, 1, {"rpm": (1, 1)})
