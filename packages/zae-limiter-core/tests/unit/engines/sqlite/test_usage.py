from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter.engines.effects import HOUR_MS
from zae_limiter.engines.sqlite.sync import SyncSQLiteStore
from zae_limiter.engines.sqlite.usage import AT_ONCE, reads_usage
from zae_limiter.maintenance import SyncMaintenance
from zae_limiter.operations.values import BatchWrite, Delete, Get, Item, Key, Put, Query, Update
from zae_limiter.schema import keys
from zae_limiter.schema.attributes import COUNTERS
from zae_limiter.schema.changes import Consumption, consumption
from zae_limiter.schema.items import BucketId
from zae_limiter.schema.usage import additions
from zae_limiter.testing import ManualClock
from zae_limiter.values.usage import WINDOW_SECONDS, UsageSnapshot, window_key, window_start

BUCKET = BucketId("ns", "ann", "api")
KEY = Key(BUCKET.pk, "#STATE")
NUMBERS = ("b_rpm_tc", "b_tpm_tc", "b_wcu_tc", *COUNTERS, "rj_org/7/rpd")

counts = st.dictionaries(st.sampled_from(NUMBERS), st.integers(-2500, 2500), max_size=3)
writes = st.one_of(
    st.builds(lambda add: Update(KEY, add=add), counts),
    st.builds(lambda add: Update(KEY, add=add), counts),
    st.builds(
        lambda add, gone: Update(KEY, add={n: a for n, a in add.items() if n != gone}, remove=(gone,)),
        counts,
        st.sampled_from(NUMBERS),
    ),
    st.builds(lambda item: Put({"PK": KEY.pk, "SK": KEY.sk, **BUCKET.attributes(), **item}), counts),
    st.just(Delete(KEY)),
)
steps = st.lists(st.tuples(writes | st.just("read"), st.sampled_from([0, 60_000, HOUR_MS, 30 * HOUR_MS])), max_size=12)


def stored_usage(store: SyncSQLiteStore) -> dict[str, dict[str, int]]:
    """The counts of each snapshot, by its window's name, without those that are 0."""
    found = store.perform(Query(keys.pk_entity("ns", "ann"), begins_with=keys.USAGE_PREFIX)).items
    fixed = {"PK", "SK", "ttl", "entity_id", "resource", "window", "window_start"}
    return {
        item["SK"].removeprefix("#USAGE#api#"): {
            name: n for name, n in item.items() if name not in fixed and not name.startswith("GSI") and n
        }
        for item in found
    }


@settings(max_examples=60)
@given(steps)
def test_what_is_counted_late_is_what_every_single_change_consumed(steps: list[tuple[Any, int]]) -> None:
    clock, expected = ManualClock(), dict[str, Counter[str]]()
    with TemporaryDirectory() as folder:
        store = SyncSQLiteStore(Path(folder) / "limits.db", clock=clock)
        image: Item | None = None
        for step, passing in steps:
            if step == "read":
                stored_usage(store)
            else:
                store.perform(step)
                before, image = image, store.perform(Get(KEY))
                used = single(before, image)
                for window in WINDOW_SECONDS:
                    name = window_key(window, window_start(window, clock.now_ms()))
                    expected.setdefault(name, Counter()).update(used)
            clock.advance(passing / 1000)
        found = stored_usage(store)
        store.close()
    assert {name: counts for name, counts in found.items() if counts} == {
        name: kept for name, counts in expected.items() if (kept := {each: n for each, n in counts.items() if n})
    }


def single(before: Item | None, after: Item | None) -> dict[str, int]:
    used = Consumption({}) if after is None else consumption(before, after)
    return additions([used])


def test_what_is_read_in_between_is_counted_once(tmp_path: Path) -> None:
    limiter = SyncRateLimiter(SyncRepository.sqlite(tmp_path / "limits.db"))
    for times in range(1, 8):
        for _ in range(times):
            with limiter.acquire("ann", "api", {"rpm": 1}, limits=[Limit.per_minute("rpm", 100)]):
                pass
        summary = limiter.repository.get_usage_summary(entity_id="ann")
        assert (summary.total_events, summary.limits[0].total) == (times * (times + 1) // 2,) * 2
    limiter.close()


def test_an_hour_ends_at_its_end_and_a_bucket_that_expires_loses_nothing(tmp_path: Path) -> None:
    clock = ManualClock()
    limiter = SyncRateLimiter(SyncRepository.sqlite(tmp_path / "limits.db", clock=clock))
    limiter.create_entity("team")
    limiter.create_entity("ann", parent_id="team", cascade=True)
    limits = [Limit.per_minute("rpm", 3)]
    for tokens in (2, 1, 1):
        with limiter.acquire("ann", "api", {"rpm": tokens}, limits=limits):
            pass
        clock.advance(3600)
    with limiter.acquire("ann", "api", {"rpm": 3}, limits=limits), pytest.raises(RateLimitExceeded):
        limiter.acquire("ann", "api", {"rpm": 1}, limits=limits).__enter__()
    clock.advance(24 * 3600)
    for n in range(200):  # which sweep the expired buckets
        with limiter.acquire(f"other-{n}", "api", {"rpm": 1}, limits=limits):
            clock.advance(1)
    repository = limiter.repository
    assert (
        repository._store.perform(Get(Key(keys.pk_bucket(repository.namespace_id, "ann", "api", 0), "#STATE"))) is None
    )
    for entity in ("ann", "team"):
        found = repository.get_usage_snapshots(entity_id=entity, resource="api").snapshots
        assert [used(each) for each in found] == [2, 1, 1, 3]
        total = repository.get_usage_summary(entity_id=entity, resource="api", window="daily")
        assert (total.limits[0].total, total.total_events) == (7, 4)
    by_resource = repository.get_usage_summary(resource="api", window="daily")
    assert by_resource.limits[0].total == 7 + 200, "a call of ann is one call, at both levels"
    limiter.close()


def used(snapshot: UsageSnapshot) -> int:
    return snapshot.consumed["rpm"]


def test_a_deleted_entity_keeps_its_usage_and_a_purged_namespace_none(tmp_path: Path) -> None:
    with SyncRepository.sqlite(tmp_path / "limits.db", "tenant") as repository:
        limiter = SyncRateLimiter(repository)
        for entity in ("ann", "bob"):
            limiter.create_entity(entity)
            with limiter.acquire(entity, "api", {"rpm": 1}, limits=[Limit.per_minute("rpm", 3)]):
                pass
        limiter.delete_entity("ann")
        assert repository.get_usage_summary(resource="api").total_events == 2
        namespace_id = repository.namespace_id
        default = repository.namespace("default")
        default.delete_namespace("tenant")
        SyncMaintenance(default).purge_namespace(namespace_id)
        left = repository._store.perform(Query(namespace_id, "GSI4"))
        assert left.items == []


def test_more_buckets_than_one_transaction_counts_are_counted_before_a_query(tmp_path: Path) -> None:
    store = SyncSQLiteStore(tmp_path / "limits.db")
    many = [BucketId("ns", f"user-{n}", "api") for n in range(2 * AT_ONCE + 7)]
    for start in range(0, len(many), 25):
        puts = tuple(Put({**each.attributes(), "ev": 1}) for each in many[start : start + 25])
        store.perform(BatchWrite(puts))
    rows = store.perform(Query(keys.gsi2_pk_resource("ns", "api"), "GSI2", begins_with="USAGE#", limit=10_000))
    page = store.perform(Query("ns", "GSI4", limit=10))
    assert (len(rows.items), len(page.items)) == (2 * len(many), 10)
    store.close()


def test_a_damaged_bucket_is_not_counted_and_stops_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = SyncSQLiteStore(tmp_path / "limits.db")
    store.perform(Update(KEY, set={"b_rpm_tc": "many"}))
    assert stored_usage(store) == {}
    assert "damaged" in caplog.text
    store.close()


@pytest.mark.parametrize(
    ("begin", "reads"), [(None, True), ("US", True), ("USAGE#h#2026", True), ("AUDIT#", False), ("ns/AUDIT#", False)]
)
def test_a_query_of_a_namespace_counts_usage_only_if_it_could_read_it(begin: str | None, reads: bool) -> None:  # noqa: FBT001
    assert reads_usage(Query("ns", index="GSI4", begins_with=begin)) is reads
