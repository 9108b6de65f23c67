"""The sweep of `top`: every snapshot of two hours once in a round, a part with each look."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from math import inf

import pytest

from support.core.snapshots import usage_item
from support.core.wires import SyncWireStore, Wire
from zae_limiter import Limit, Options, SyncRateLimiter, SyncRepository, UsageSnapshot
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.operations.values import Put
from zae_limiter.testing import ManualClock
from zae_limiter.values import Refuser
from zae_limiter_cli.live.reading import Reader
from zae_limiter_cli.live.rows import Place, Reading, Used
from zae_limiter_cli.live.sweep import Sweep

NOW = datetime(2026, 11, 26, 14, 30, tzinfo=UTC)
THIS, BEFORE = NOW.replace(minute=0), NOW.replace(hour=13, minute=0)
BY = Refuser("acme", "rpm")


class Stored:
    """A table of snapshots, and a repository that counts its requests."""

    def __init__(self) -> None:
        self.table = MemoryTable()
        self.wire = Wire(self.table)
        self.repository = SyncRepository.over(SyncWireStore(self.wire), Options())
        self.repository.set_system_defaults([Limit.per_minute("rpm", 60)])

    def used(self, entity: str, at: datetime, admitted: int, refused: int = 0) -> None:
        """Have the table hold a snapshot."""
        by = {BY: refused} if refused else {}
        snapshot = UsageSnapshot(entity, "gpt-4", "hourly", at, {}, admitted, refused, 0, by)
        self.table.execute(Put(usage_item(self.repository.namespace_id, snapshot)))


@pytest.fixture
def stored() -> Iterator[Stored]:
    stored = Stored()
    yield stored
    stored.repository.close()


def read_round(sweep: Sweep, now: datetime) -> None:
    while not sweep.read_on(now):
        pass


def test_a_round_adds_up_both_hours_and_no_other(stored: Stored) -> None:
    for at, admitted in (
        (BEFORE - timedelta(hours=1), 1000),
        (BEFORE, 10),
        (THIS, 1),
        (THIS + timedelta(hours=1), 500),
    ):
        for entity in ("a", "b", "c"):
            stored.used(entity, at, admitted, refused=2)
    sweep = Sweep(stored.repository, None)
    read_round(sweep, NOW)
    assert sweep.most(5) == {Place(entity, "gpt-4"): Used(11, 4, {BY: 4}) for entity in ("a", "b", "c")}
    assert len(sweep) == 3


def test_the_most_refused_come_first_then_those_who_are_admitted_most(stored: Stored) -> None:
    for entity, admitted, refused in (("a", 1, 5), ("b", 9, 0), ("c", 2, 7), ("d", 3, 0)):
        stored.used(entity, THIS, admitted, refused)
    sweep = Sweep(stored.repository, "gpt-4")
    read_round(sweep, NOW)
    assert [place.entity_id for place in sweep.most(2)] == ["c", "a", "b", "d"]
    assert [place.entity_id for place in sweep.most(1)] == ["c", "b"]


def test_a_round_replaces_what_the_one_before_had_found(stored: Stored) -> None:
    stored.used("a", BEFORE, 5)
    sweep = Sweep(stored.repository, None)
    read_round(sweep, NOW)
    stored.used("a", THIS, 3)
    read_round(sweep, NOW)
    stored.used("a", THIS, 4)
    read_round(sweep, NOW)
    assert sweep.most(1) == {Place("a", "gpt-4"): Used(9, 0)}


def test_an_hour_that_is_over_is_read_until_it_was_read_two_minutes_later(stored: Stored) -> None:
    sweep, begin = Sweep(stored.repository, None), THIS + timedelta(hours=1)
    for late, admitted in ((timedelta(minutes=1), 5), (timedelta(minutes=2), 6), (timedelta(minutes=3), 6)):
        stored.used("a", THIS, admitted if admitted < 6 or late.seconds == 120 else 99)
        read_round(sweep, begin + late)
        assert sweep.most(1) == {Place("a", "gpt-4"): Used(admitted, 0)}


def test_what_is_older_than_the_hour_before_is_forgotten(stored: Stored) -> None:
    stored.used("a", BEFORE, 5)
    stored.used("b", THIS, 7)
    sweep = Sweep(stored.repository, None)
    read_round(sweep, NOW)
    read_round(sweep, NOW + timedelta(hours=1))
    assert sweep.most(9) == {Place("b", "gpt-4"): Used(7, 0)}


class Looks:
    """Looks of a reader whose time passes by its requests alone, and between the looks."""

    def __init__(self, stored: Stored, every: float, request_seconds: float) -> None:
        self._stored, self._every, self._request_seconds = stored, every, request_seconds
        stored.wire.sent()
        self.seconds, self.requests = 0.0, 0
        self.reader = Reader(stored.repository, None, 50, every, self._now)

    def _now(self) -> float:
        return self.seconds + self._request_seconds * len(self._stored.wire.seen)

    def look(self) -> Reading:
        """Look once, and wait for the next look."""
        reading = self.reader.read()
        requests = len(self._stored.wire.sent())
        self.requests += requests
        self.seconds += max(self._every, requests * self._request_seconds)
        return reading


def this_hour(stored: Stored) -> datetime:
    now = datetime.fromtimestamp(stored.repository.namespace_state.now() / 1000, UTC)
    return now.replace(minute=0, second=0, microsecond=0)


@pytest.mark.parametrize("every", [1.0, 2.0, 10.0])
def test_reads_are_fewer_than_five_a_second_on_the_mean(stored: Stored, every: float) -> None:
    for number in range(700):
        stored.used(f"key-{number}", this_hour(stored), 1, refused=number)
    limiter = SyncRateLimiter(stored.repository)
    limiter.create_entity("acme")
    for number in range(640, 700):
        limiter.create_entity(f"key-{number}", parent_id="acme", cascade=True)
        with limiter.acquire(f"key-{number}", "gpt-4", {"rpm": 1 if number < 660 else 0}):
            pass
    looks = Looks(stored, every, request_seconds=0.02)
    while looks.seconds < 20:
        reading = looks.look()
    assert looks.requests < 5 * looks.seconds
    assert looks.reader.complete
    assert reading.usage.keys() >= {Place(f"key-{number}", "gpt-4") for number in range(650, 700)}
    assert Place("acme", "gpt-4") in reading.buckets  # which is above them, but not used the most


def test_a_round_goes_on_with_the_next_look_and_rests_by_what_it_read(stored: Stored) -> None:
    for number in range(2400):
        stored.used(f"key-{number}", this_hour(stored), 1)
    looks = Looks(stored, 2.0, request_seconds=0.1)  # of which a page of 1,000 takes eleven
    known = []
    while not looks.reader.complete:
        looks.look()
        known.append(looks.reader.known)
    assert known == [2000, 2400]
    stored.used("a-new-one", this_hour(stored), 1)
    begun = looks.seconds
    while looks.reader.known == 2400:
        looks.look()
    assert 10 <= looks.seconds - begun <= 16, "200 snapshots a second over the round and its rest"


def test_a_new_hour_ends_the_rest(stored: Stored) -> None:
    clock = ManualClock(int(NOW.timestamp()) * 1000)
    with SyncRepository.over(SyncWireStore(stored.wire), Options(clock=clock)) as repository:
        reader = Reader(repository, None, 50, 2.0, lambda: 0.0)
        stored.used("a", BEFORE, 5)
        assert Place("a", "gpt-4") in reader.read().usage
        stored.used("a", THIS, 7)
        assert reader.read().usage == {Place("a", "gpt-4"): Used(5, 0)}, "it rests"
        clock.advance(1800)
        assert reader.read().usage == {Place("a", "gpt-4"): Used(7, 0)}


def test_a_reader_of_one_look_reads_all(stored: Stored) -> None:
    for number in range(1100):
        stored.used(f"key-{number}", this_hour(stored), 1)
    reader = Reader(stored.repository, None, 50, inf)
    reader.read()
    assert (reader.complete, reader.known) == (True, 1100)
