"""A copy of namespaces: complete, exact, all or nothing for whoever opens it, and repeatable after any death."""

from collections.abc import Collection, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from support.core.copies import (
    RPM,
    TPM,
    Killed,
    LateStore,
    MortalStore,
    answers,
    copy,
    credited_again,
    fill,
    opened,
    table_over,
)
from zae_limiter import Limit, RateLimiterUnavailable, SyncRateLimiter, maintenance
from zae_limiter.engines.engine import SyncStore
from zae_limiter.engines.memory.store import SyncMemoryStore
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.engines.meter import Meter
from zae_limiter.engines.sqlite.sync import SyncSQLiteStore
from zae_limiter.exceptions import NamespaceNotFoundError, NamespaceStateError, StackTooOldError
from zae_limiter.flows.records import copying
from zae_limiter.maintenance import SyncMaintenance, VersionRecord
from zae_limiter.operations.values import Scan
from zae_limiter.testing import ManualClock
from zae_limiter.values import Namespace

REGISTRY_UNITS = 8  # two transactions of two writes


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def file(tmp_path: Path, clock: ManualClock) -> Iterator[SyncStore]:
    store = SyncSQLiteStore(tmp_path / "limits.db", clock=clock)
    yield store
    store.close()


@pytest.fixture
def source(file: SyncStore, clock: ManualClock, monkeypatch: pytest.MonkeyPatch) -> SyncRateLimiter:
    """A namespace in a file, of several pages."""
    monkeypatch.setattr(copying, "ITEMS_PER_PAGE", 7)
    limiter = opened(file, clock)
    fill(limiter, clock)
    return limiter


def over(table: MemoryTable) -> SyncStore:
    return SyncMemoryStore(table)


def test_every_method_answers_the_same_from_the_copy(
    source: SyncRateLimiter, file: SyncStore, clock: ManualClock
) -> None:
    table = MemoryTable()
    (made,) = copy(table_over(file, clock), table_over(over(table), clock))
    found = opened(over(table), clock, register=False)
    assert found.repository.namespace_id == made.namespace_id != source.repository.namespace_id
    assert answers(found) == answers(source)
    assert credited_again(found) == 500 - 3 + 2, "a credit is made once, in the copy as well"
    assert source.repository.namespace_id not in str([item["PK"] for item in table.execute(Scan(1000)).items])


def test_a_copy_may_go_back_into_a_file(
    source: SyncRateLimiter, file: SyncStore, clock: ManualClock, tmp_path: Path
) -> None:
    table, other = over(MemoryTable()), SyncSQLiteStore(tmp_path / "other.db", clock=clock)
    copy(table_over(file, clock), table_over(table, clock))
    copy(table_over(table, clock), table_over(other, clock))
    assert answers(opened(other, clock, register=False)) == answers(source)


def test_usage_behind_the_copy_adds_to_what_was_copied(
    source: SyncRateLimiter, file: SyncStore, clock: ManualClock, tmp_path: Path
) -> None:
    other = SyncSQLiteStore(tmp_path / "other.db", clock=clock)
    copy(table_over(file, clock), table_over(other, clock))
    limiters = [source, opened(other, clock)]
    for limiter in limiters:
        with limiter.acquire("key/1|ü", "gpt-4", {"rpm": 3}) as lease:
            lease.consume(rpm=2)
        with limiter.acquire("new", "gpt-4", {"rpm": 3}):
            pass
    assert answers(limiters[0]) == answers(limiters[1])
    (rpm,) = limiters[1].repository.get_usage_summary(entity_id="key/1|ü", resource="gpt-4").limits
    assert rpm.total == 5 + 7 + 30 + 5


def test_a_process_that_dies_right_behind_any_write_leaves_no_half_and_the_next_one_copies_all(
    source: SyncRateLimiter, file: SyncStore, clock: ManualClock
) -> None:
    deaths = 0
    while True:
        table = MemoryTable()
        try:
            copy(table_over(file, clock), table_over(MortalStore(over(table), lives=deaths), clock))
        except Killed:
            with pytest.raises(NamespaceNotFoundError):
                opened(over(table), clock, register=False)
        else:
            break
        copy(table_over(file, clock), table_over(over(table), clock))
        assert answers(opened(over(table), clock, register=False)) == answers(source)
        assert [each.name for each in SyncMaintenance(table_over(over(table), clock)).list_orphan_namespaces()] == []
        deaths += 1
    assert deaths > 5


def late_copy(file: SyncStore, table: MemoryTable, clock: ManualClock, lost: Collection[int]) -> LateStore:
    """Copy over a network that loses these writes; then use the copy, and let the lost ones arrive."""
    late = LateStore(over(table), lost)
    for _ in range(5):  # two lost answers in a row may end a call; its operator repeats it
        with suppress(RateLimiterUnavailable):
            copy(table_over(file, clock), table_over(late, clock))
            break
    clock.advance(10)
    limiter = opened(over(table), clock, register=False)
    limiter.delete_entity("shared|ß")
    limiter.set_limits("key-2", [Limit.per_minute("rpm", 8)])
    for entity, resource in (("key/1|ü", "gpt-4"), ("key-2", "other"), ("project", "gpt-4")):
        with limiter.acquire(entity, resource, {"rpm": 3}):
            pass
    before = (limiter.repository.namespace_id, answers(limiter))
    late.arrive()
    found = opened(over(table), clock, register=False)
    assert (found.repository.namespace_id, answers(found)) == before
    return late


def test_a_write_that_arrives_late_undoes_nothing(source: SyncRateLimiter, file: SyncStore, clock: ManualClock) -> None:
    writes = 0
    while late_copy(file, MemoryTable(), clock, {writes}).late:
        writes += 1
    assert writes > 5


@pytest.mark.long(keep=4)
@pytest.mark.parametrize("seed", range(20))
def test_writes_that_arrive_late_undo_nothing(
    source: SyncRateLimiter, file: SyncStore, clock: ManualClock, seed: int
) -> None:
    """Of twenty histories in which one write of twelve is lost."""
    rng = Random(seed)
    assert late_copy(file, MemoryTable(), clock, {each for each in range(999) if rng.random() < 1 / 12}).writes


def test_a_copy_says_that_it_begins_anew_and_gives_up_after_some_times(
    source: SyncRateLimiter, file: SyncStore, clock: ManualClock, caplog: pytest.LogCaptureFixture
) -> None:
    table = MemoryTable()
    late = LateStore(over(table), range(1, 1000, 2))
    with pytest.raises(RateLimiterUnavailable):
        copy(table_over(file, clock), table_over(late, clock))
    assert caplog.messages[0] == "no answer: a write may arrive late, the copy begins anew (beginning 2 of 5)"
    assert len(caplog.messages) == copying.BEGINNINGS - 1
    with pytest.raises(NamespaceNotFoundError, match="not complete"):
        opened(over(table), clock, register=False)
    copy(table_over(file, clock), table_over(over(table), clock))
    late.arrive()
    assert answers(opened(over(table), clock, register=False)) == answers(source)


def test_a_half_copy_is_neither_opened_nor_recovered_but_may_be_purged(
    source: SyncRateLimiter, file: SyncStore, clock: ManualClock
) -> None:
    table = MemoryTable()
    with pytest.raises(Killed):
        copy(table_over(file, clock), table_over(MortalStore(over(table), lives=3), clock))
    target = table_over(over(table), clock)
    with pytest.raises(NamespaceNotFoundError, match=r"not complete: .* run it again if it was interrupted") as caught:
        opened(over(table), clock)
    assert caught.value.copied_from == source.repository.namespace_id
    (half,) = SyncMaintenance(target).list_orphan_namespaces()
    with pytest.raises(NamespaceStateError, match="its copy is not complete: repeat"):
        SyncMaintenance(target).recover_namespace(half.namespace_id)
    assert SyncMaintenance(target).purge_namespace(half.namespace_id) > 0


def test_a_namespace_that_is_not_empty_is_refused_before_anything_is_written(
    source: SyncRateLimiter, file: SyncStore, clock: ManualClock
) -> None:
    table = MemoryTable()
    opened(over(table), clock).set_system_defaults([TPM])
    opened(file, clock, "first")
    before = table.execute(Scan(1000)).items
    target = table_over(over(table), clock)
    with pytest.raises(NamespaceStateError, match="not empty: `zae-limiter namespace delete prod`"):
        copy(table_over(file, clock), target)
    assert table.execute(Scan(1000)).items == before
    target.delete_namespace("prod")
    copy(table_over(file, clock), target, "prod")
    assert answers(opened(over(table), clock)) == answers(source)


def test_an_empty_namespace_of_the_target_gives_way(
    source: SyncRateLimiter, file: SyncStore, clock: ManualClock
) -> None:
    table = MemoryTable()
    opened(over(table), clock)
    target = table_over(over(table), clock)
    copy(table_over(file, clock), target)
    assert answers(opened(over(table), clock)) == answers(source)
    assert SyncMaintenance(target).list_orphan_namespaces() == []


def test_what_is_copied_is_not_copied_again_and_a_later_use_of_it_stays(
    source: SyncRateLimiter, file: SyncStore, clock: ManualClock
) -> None:
    opened(file, clock, "other").set_system_defaults([RPM])
    table = MemoryTable()
    assert [each.name for each in copy(table_over(file, clock), table_over(over(table), clock), "prod")] == ["prod"]
    opened(over(table), clock).set_system_defaults([TPM])
    assert [each.name for each in copy(table_over(file, clock), table_over(over(table), clock))] == ["other"]
    assert opened(over(table), clock).repository.get_system_defaults() == ([replace(TPM)], "allow")


def test_a_name_that_somebody_takes_meanwhile_stays_theirs(
    source: SyncRateLimiter, file: SyncStore, clock: ManualClock
) -> None:
    table = MemoryTable()
    target = table_over(over(table), clock)
    forecasts = maintenance.forecast_copy(table_over(file, clock), target, ())
    taken = []

    def take(_: int) -> None:
        taken.append(target.register_namespace("prod"))

    with pytest.raises(NamespaceStateError, match="took the name 'prod'"):
        maintenance.copy(table_over(file, clock), target, forecasts, report=take)
    assert target.list_namespaces() == [taken[0]]


def test_of_two_copies_at_once_one_is_complete_and_the_other_is_refused(
    source: SyncRateLimiter, file: SyncStore, clock: ManualClock
) -> None:
    table = MemoryTable()
    target = table_over(over(table), clock)
    forecasts = maintenance.forecast_copy(table_over(file, clock), target, ())
    made: list[Namespace] = []

    def overtake(_: int) -> None:
        if not made:
            made.extend(copy(table_over(file, clock), table_over(over(table), clock)))

    with pytest.raises(NamespaceStateError, match="or another copy"):
        maintenance.copy(table_over(file, clock), target, forecasts, report=overtake)
    assert target.list_namespaces() == made
    assert answers(opened(over(table), clock)) == answers(source)


def test_the_forecast_is_what_the_copy_costs(source: SyncRateLimiter, file: SyncStore, clock: ManualClock) -> None:
    meter = Meter()
    table = MemoryTable(meter)
    reading, target = table_over(file, clock), table_over(SyncMemoryStore(table), clock)
    (forecast,) = maintenance.forecast_copy(reading, target, ())
    meter.reset()
    maintenance.copy(reading, target, [forecast], report=lambda _: None)
    assert (meter.write_units, meter.index_units) == (forecast.write_units + REGISTRY_UNITS, forecast.index_units)
    assert forecast.items == len(table.execute(Scan(1000)).items) - 2


def test_what_is_not_there_and_a_table_of_another_schema_are_refused(
    source: SyncRateLimiter, file: SyncStore, clock: ManualClock
) -> None:
    target = table_over(over(MemoryTable()), clock)
    with pytest.raises(NamespaceNotFoundError):
        copy(table_over(file, clock), target, "prdo")
    SyncMaintenance(target).set_version_record(VersionRecord(0, "0.0.1", "0.0.1"))
    with pytest.raises(StackTooOldError):
        copy(table_over(file, clock), target)
