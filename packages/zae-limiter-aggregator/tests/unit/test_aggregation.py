"""One batch after the other, however they come."""

import json
import re
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.aggregator.ledger import RESOURCES, Ledger, leases, live, pauses
from support.aggregator.lives import LIMITS, SETTINGS, START_MS, Killed, Life, MortalStore
from support.aggregator.streams import Record, record
from support.core.four_levels import make_tree, use_tree
from support.core.namesake import FOREIGN, TOLD
from zae_limiter import Limit, Options, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter.engines.memory.store import SyncMemoryStore
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.maintenance import StreamState, SyncMaintenance, Upkeep, stream_state
from zae_limiter.operations.errors import NotApplied, Throttled, Unreachable
from zae_limiter.operations.values import BatchGet, Get, Item, Key, Operation, Put, Query, Scan, Transact, Update
from zae_limiter.schema import gsi2_pk_resource, gsi4_pk
from zae_limiter.schema.items import BucketId
from zae_limiter.schema.partitions import index_suffix
from zae_limiter.schema.registry import version_item
from zae_limiter.sync.driver import SyncDriver
from zae_limiter.values.usage import WINDOW_SECONDS, Window
from zae_limiter.values.versions import SCHEMA_VERSION, VersionRecord
from zae_limiter_aggregator.aggregation import Aggregator
from zae_limiter_aggregator.settings import Settings

HOUR = 3600


def consumed(life: Life, entity_id: str, window: Window = "hourly") -> list[tuple[datetime, dict[str, int], int]]:
    return [(each.window_start, dict(each.consumed), each.total_events) for each in life.usage(entity_id, window)]


def at(hour: int) -> datetime:
    return datetime(2024, 1, 1, hour, tzinfo=UTC)


def test_what_was_consumed_stands_in_the_hour_and_in_the_day() -> None:
    life = Life()
    with life.limiter.acquire("key-abc", "gpt-4", {"rpm": 1, "tpm": 500}) as lease:
        lease.adjust(tpm=-100)
    account = life.drain()
    assert consumed(life, "key-abc") == [(at(13), {"rpm": 1, "tpm": 400}, 1)]
    assert consumed(life, "key-abc", "daily") == [(at(0), {"rpm": 1, "tpm": 400}, 1)]
    assert (account.snapshots, account.failures) == (2, ())


class Away(SyncMemoryStore):
    """A process's way to the table, which may be cut."""

    cut = False

    def perform(self, operation: Operation[Any]) -> Any:
        if self.cut:
            raise Unreachable("connection refused")
        return super().perform(operation)


def test_acquires_that_an_outage_let_through_are_counted_by_number_once_the_process_tells_them() -> None:
    life = Life()
    store = Away(life.table)
    limiter = SyncRateLimiter(SyncRepository.over(store, Options(stack="demo", clock=life.clock)))
    for cut in (False, True, True, False):
        store.cut = cut
        with limiter.acquire("key-abc", "gpt-4", {"tpm": 500}, on_unavailable="allow"):
            pass
    account = life.drain()
    assert (account.admitted, account.refused, account.uncounted, account.failures) == (2, 0, 2, ())
    (usage,) = life.usage("key-abc")
    assert (usage.total_events, usage.total_uncounted, usage.consumed) == (2, 2, {"tpm": 1000})
    (top,) = life.repository.get_top_usage("gpt-4", by="total_uncounted", start=at(0))
    assert top.total_uncounted == 2


def test_refusals_stand_in_the_hour_of_the_write_that_counted_them() -> None:
    life = Life()
    with life.limiter.acquire("key-abc", "gpt-4", {"tpm": 500}):
        pass
    for _ in range(3):
        assert refuses(life, "key-abc", tpm=10**9)
    life.clock.advance(10 * 60)  # to 14:00:00
    with life.limiter.acquire("key-abc", "gpt-4", {"tpm": 500}):
        pass
    assert refuses(life, "key-abc", tpm=10**9)  # not written before the end
    account = life.drain()
    assert [each.total_refused for each in life.usage("key-abc")] == [0, 3]
    assert [(each.total_events, each.total_refused) for each in life.usage("key-abc", "daily")] == [(2, 3)]
    assert account.snapshots == 3, "no more writes than without refusals"
    assert (account.admitted, account.refused, account.uncounted) == (2, 3, 0)


def test_a_refusal_by_the_parent_is_in_the_usage_of_the_key_that_asked_by_parent_and_limit() -> None:
    life = Life()
    life.repository.create_entity("project")
    life.repository.create_entity("key", parent_id="project", cascade=True)
    life.repository.set_limits("project", [Limit.per_day("tpm", 1_000)])
    life.repository.set_limits("key", [Limit.per_day("tpm", 5_000)])
    with life.limiter.acquire("key", "gpt-4", {"tpm": 500}):
        pass
    for amount in (600, 600, 6_000):  # the last one is too much for both
        assert refuses(life, "key", tpm=amount)
    with life.limiter.acquire("key", "gpt-4", {"tpm": 500}):
        pass
    life.drain()
    for entity_id, refused_by in (("key", {("key", "tpm"): 1, ("project", "tpm"): 3}), ("project", {})):
        (usage,) = life.usage(entity_id)
        assert (usage.total_events, usage.total_refused, usage.refused_by) == (2, 3, refused_by)


def refuses(life: Life, entity_id: str, **consume: int) -> bool:
    with suppress(RateLimitExceeded), life.limiter.acquire(entity_id, "gpt-4", consume):
        return False
    return True


def test_what_shadow_limits_would_have_refused_is_counted_beside_it() -> None:
    life, counts = Life(), {"b_tpm_tc": 5000, "ev": 1}

    def image(**more: int) -> dict[str, Any]:
        place = BucketId(life.repository.namespace_id, "key-abc", "gpt-4")
        return {**place.attributes(), "rf": START_MS, "shard_count": 1, **counts, **more}

    records = [
        record(1, None, image(sj=1), at_ms=START_MS),
        record(2, image(sj=1), image(sj=1, rj=4), at_ms=START_MS),
        record(3, image(sj=1, rj=4), image(sj=3, rj=4), at_ms=START_MS),
    ]
    for batch in (records[:2], records, records[1:]):
        life.take(batch)
    [usage] = life.usage("key-abc")
    assert (usage.total_events, usage.total_refused, usage.total_shadowed) == (1, 4, 3)


def test_a_window_may_end_inside_a_batch() -> None:
    life = Life()
    with life.limiter.acquire("key-abc", "gpt-4", {"tpm": 500}) as lease:
        life.clock.advance(10 * 60)  # to 14:00:00
        lease.adjust(tpm=-100)
    life.drain()
    assert consumed(life, "key-abc") == [(at(13), {"tpm": 500}, 1), (at(14), {"tpm": -100}, 0)]
    assert consumed(life, "key-abc", "daily") == [(at(0), {"tpm": 400}, 1)]


def test_a_bucket_that_ttl_removed_and_that_came_back_counts_on() -> None:
    life = Life()
    for _ in range(2):
        with life.limiter.acquire("key-abc", "gpt-4", {"tpm": 500}):
            pass
        life.clock.advance(HOUR)
        assert life.table.expire(life.clock.now_ms() // 1000) == 1
    life.drain()
    assert consumed(life, "key-abc", "daily") == [(at(0), {"tpm": 1000}, 2)]


def test_two_shards_of_a_bucket_are_counted_together() -> None:
    life = Life()

    def image(shard: int, tc: int, ev: int) -> dict[str, Any]:
        place = BucketId(life.repository.namespace_id, "key-abc", "gpt-4", shard)
        return {**place.attributes(), "rf": START_MS, "shard_count": 2, "b_tpm_tc": tc, "ev": ev}

    records = [
        record(1, None, image(0, 5000, 1), at_ms=START_MS),
        record(2, None, image(1, 0, 0), at_ms=START_MS),
        record(3, image(1, 0, 0), image(1, 7000, 2), at_ms=START_MS),
        record(4, image(0, 5000, 1), image(0, 4000, 0), at_ms=START_MS),
    ]
    for batch in (records[:3], records, records[1:]):
        life.take(batch)
    assert consumed(life, "key-abc") == [(at(13), {"tpm": 11}, 2)]


def test_a_record_that_cannot_be_read_is_reported_and_the_rest_counted() -> None:
    life = Life()
    for _ in range(3):
        with life.limiter.acquire("key-abc", "gpt-4", {"tpm": 500}):
            pass
    broken = next(each for each in life.stream if each["eventName"] == "MODIFY" and is_bucket(each))
    del broken["dynamodb"]["OldImage"]
    failures = [life.drain().failures for _ in range(3)]
    assert [[failure.sequence for failure in each] for each in failures] == [[broken["dynamodb"]["SequenceNumber"]]] * 3
    assert consumed(life, "key-abc") == [(at(13), {"tpm": 1000}, 2)]


def is_bucket(record: Record) -> bool:
    return bool(record["dynamodb"]["Keys"]["SK"]["S"] == "#STATE")


def test_a_batch_writes_a_snapshot_once_however_many_records_it_has() -> None:
    life = Life()
    for number in range(60):
        with life.limiter.acquire(f"key-{number % 3}", RESOURCES[number % 2], {"rpm": 1, "tpm": 5}):
            pass
    store = MortalStore(life.table)
    account = life.take(list(life.stream), store)
    assert account.snapshots == len(store.writes) == 3 * 2 * 2
    assert len({write.key for write in store.writes}) == 12
    assert len(store.asked) == 1 + 12


def test_what_the_aggregator_itself_writes_asks_for_nothing_more() -> None:
    life = Life()
    with life.limiter.acquire("key-abc", "gpt-4", {"tpm": 500}):
        pass
    life.clock.advance(2 * HOUR)
    with life.limiter.acquire("key-abc", "gpt-4", {"tpm": 500}):
        pass
    before = len(life.stream)
    first = life.drain()
    own = life.stream[before:]
    account = life.take(own)
    assert len(own) == first.snapshots + first.refills == 3 + 1  # two hours, their day, and an anchor
    assert (account.records, account.snapshots, account.refills, account.failures) == (4, 0, 0, ())


def test_a_snapshot_expires_days_after_its_window() -> None:
    life = Life(Settings(stack="demo", hourly_days=2, daily_days=0))
    with life.limiter.acquire("key-abc", "gpt-4", {"tpm": 500}):
        pass
    life.drain()
    pk = f"{life.repository.namespace_id}/ENTITY#key-abc"
    hourly = life.table.execute(Get(Key(pk, "#USAGE#gpt-4#2024-01-01T13:00:00Z")))
    daily = life.table.execute(Get(Key(pk, "#USAGE#gpt-4#2024-01-01")))
    assert hourly["ttl"] == at(14).timestamp() + 2 * 24 * HOUR
    assert "ttl" not in daily


# anchors


def test_a_bucket_in_use_gets_a_new_anchor_every_hour_and_keeps_what_it_has() -> None:
    life = Life()
    with life.limiter.acquire("key-abc", "gpt-4", {"tpm": 500}):
        pass
    life.clock.advance(HOUR + 1)
    with life.limiter.acquire("key-abc", "gpt-4", {"tpm": 700}):
        pass
    before = life.repository.get_bucket("key-abc", "gpt-4")
    assert [life.drain().refills for _ in range(2)] == [1, 0]
    after = life.repository.get_bucket("key-abc", "gpt-4")
    assert before is not None
    assert after is not None
    assert (before.anchor_ms, after.anchor_ms) == (START_MS, START_MS + (HOUR + 1) * 1000)
    assert after.available == before.available == {"rpm": 1_000_000, "tpm": 999_300}


@pytest.mark.parametrize(("after", "age"), [(3600, HOUR), (0, 100 * HOUR), (7200, HOUR + 1)])
def test_an_anchor_that_is_young_enough_stays(after: int, age: int) -> None:
    life = Life(Settings(stack="demo", refill_after_seconds=after))
    for seconds in (age, 0):
        with life.limiter.acquire("key-abc", "gpt-4", {"tpm": 500}):
            pass
        life.clock.advance(seconds)
    assert life.drain().refills == 0


def test_an_anchor_that_cannot_be_moved_is_no_failure_of_the_batch() -> None:
    life = Life()
    for seconds in (HOUR + 1, 0):
        with life.limiter.acquire("key-abc", "gpt-4", {"tpm": 500}):
            pass
        life.clock.advance(seconds)
    store = MortalStore(life.table)
    store.failing = lambda asked: Throttled("slow") if isinstance(asked, Update) and "rf" in asked.set else None
    account = life.take(list(life.stream), store)
    assert (account.refills, account.dropped, account.failures) == (0, 1, ())


@pytest.mark.parametrize(("lag", "refills"), [(359, 1), (361, 0)])
def test_in_a_backlog_no_anchor_moves_that_a_batch_before_has_moved(lag: int, refills: int) -> None:
    life = Life()
    for seconds in (HOUR + 1, lag):
        with life.limiter.acquire("key-abc", "gpt-4", {"tpm": 500}):
            pass
        life.clock.advance(seconds)
    account = life.drain()
    assert (account.refills, account.snapshots) == (refills, 3)


# namespaces that are purged


@pytest.fixture
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index of a table in memory does not lag."""
    monkeypatch.setattr("zae_limiter.flows.records.registry.SETTLE_SECONDS", 0)


def used(life: Life, name: str) -> SyncRepository:
    """A namespace in which something was consumed."""
    repository = life.repository.namespace(name)
    repository.set_system_defaults(list(LIMITS))
    with SyncRateLimiter(repository).acquire("key-abc", "gpt-4", {"tpm": 500}):
        pass
    return repository


def left_of(life: Life, namespace_id: str) -> list[Item]:
    found: list[Item] = life.table.execute(Query(namespace_id, "GSI4")).items
    return found


@pytest.mark.usefixtures("_quick")
def test_records_that_come_after_a_purge_leave_nothing_behind() -> None:
    life = Life()
    gone, other = used(life, "prod"), used(life, "other")
    life.repository.delete_namespace("prod")
    records = list(life.stream)
    SyncMaintenance(life.repository).purge_namespace(gone.namespace_id)
    account = life.take(records)
    assert (account.snapshots, account.failures) == (2, ())
    assert left_of(life, gone.namespace_id) == []
    assert SyncMaintenance(life.repository).list_orphan_namespaces() == []
    assert [dict(each.consumed) for each in other.get_usage_snapshots(entity_id="key-abc").snapshots] == [{"tpm": 500}]


@pytest.mark.usefixtures("_quick")
def test_what_is_written_while_a_namespace_is_purged_is_listed_and_goes_by_the_next_purge() -> None:
    life = Life()
    gone = used(life, "prod")
    life.repository.delete_namespace("prod")
    store = MortalStore(life.table)

    def purge_first(operation: Operation[Any]) -> None:
        if isinstance(operation, Update) and len(store.writes) == 1:
            SyncMaintenance(life.repository).purge_namespace(gone.namespace_id)

    store.failing = purge_first
    assert life.take(list(life.stream), store).snapshots == 2
    assert [each.namespace_id for each in SyncMaintenance(life.repository).list_orphan_namespaces()] == [
        gone.namespace_id
    ]
    assert SyncMaintenance(life.repository).purge_namespace(gone.namespace_id) == 2
    assert left_of(life, gone.namespace_id) == []
    assert SyncMaintenance(life.repository).list_orphan_namespaces() == []


def test_a_namespace_that_is_deleted_and_may_come_back_is_counted() -> None:
    life = Life()
    prod = used(life, "prod")
    deleted = life.repository.delete_namespace("prod")
    life.drain()
    SyncMaintenance(life.repository).recover_namespace(deleted.namespace_id)
    assert [dict(each.consumed) for each in prod.get_usage_snapshots(entity_id="key-abc").snapshots] == [{"tpm": 500}]


def test_the_namespaces_of_a_batch_are_read_at_once_and_where_that_fails_their_changes_come_again() -> None:
    life = Life()
    for name in ("one", "two", "three"):
        used(life, name)
    expire_events(life, 2)
    first = next(each["dynamodb"]["SequenceNumber"] for each in life.stream if is_bucket(each))
    store = MortalStore(life.table)
    store.failing = lambda asked: NotApplied("denied") if isinstance(asked, BatchGet) else None
    account = life.take(list(life.stream), store)
    assert [(each.sequence, each.problem) for each in account.failures] == [(first, "NotApplied: denied")]
    assert (account.snapshots, store.writes) == (0, [])
    assert account.archived == len(life.kept) > 0
    store.failing = lambda _: None
    assert life.take(list(life.stream), store).snapshots == 6
    assert [len(asked.keys) for asked in store.asked if isinstance(asked, BatchGet)] == [4, 4]  # and the version record


@pytest.mark.parametrize("schema_version", [1, SCHEMA_VERSION])
def test_snapshots_have_suffixes_in_the_indexes_if_the_schema_of_the_table_does(schema_version: int) -> None:
    life = Life()
    life.table.execute(Put(version_item(VersionRecord(schema_version, "0.1.0", "0.1.0"))))
    ns = used(life, "one").namespace_id
    assert life.take(list(life.stream), MortalStore(life.table)).snapshots == 2
    suffix = index_suffix("key-abc") if schema_version == SCHEMA_VERSION else None
    snapshots = [item for item in life.table.execute(Scan(1000)).items if item["SK"].startswith("#USAGE#")]
    keys = {(item["GSI2PK"], item["GSI4PK"]) for item in snapshots}
    assert keys == {(gsi2_pk_resource(ns, "gpt-4", suffix), gsi4_pk(ns, suffix))}


# failures


def is_usage_of(operation: Operation[Any], entity_id: str) -> bool:
    return isinstance(operation, Update) and operation.set.get("entity_id") == entity_id


def test_what_could_not_be_written_comes_again_from_its_first_record_on() -> None:
    life = Life()
    for entity in ("one", "two", "two"):
        with life.limiter.acquire(entity, "gpt-4", {"tpm": 500}):
            pass
    buckets = [each["dynamodb"]["SequenceNumber"] for each in life.stream if is_bucket(each)]
    store = MortalStore(life.table)
    store.failing = lambda asked: NotApplied("denied") if is_usage_of(asked, "two") else None
    account = life.take(list(life.stream), store)
    assert {failure.sequence for failure in account.failures} == {buckets[1]}
    assert consumed(life, "one") == [(at(13), {"tpm": 500}, 1)]
    life.take([each for each in life.stream if int(each["dynamodb"]["SequenceNumber"]) >= int(buckets[1])])
    assert consumed(life, "one") == [(at(13), {"tpm": 500}, 1)]
    assert consumed(life, "two") == [(at(13), {"tpm": 1000}, 2)]


# the archive


def expire_events(life: Life, number: int) -> list[Record]:
    for each in range(number):
        life.repository.set_limits(f"key-{each}", list(LIMITS), resource="gpt-4")
    before = len(life.stream)
    life.clock.advance(91 * 24 * HOUR)
    life.table.expire(life.clock.now_ms() // 1000)
    return life.stream[before:]


def test_an_audit_event_that_expired_is_kept_once_however_often_and_in_whatever_batch_it_comes() -> None:
    life = Life()
    removals = expire_events(life, 5)
    assert [life.take(batch).archived for batch in (removals, removals[:2], removals[1:], removals)] == [6, 2, 5, 6]
    assert len(life.kept) == 6  # the system's limits, too
    assert all(re.fullmatch(r"audit/date=2024-01-01/[^/]+/[^/]+/[^/]+\.jsonl\.gz", key) for key in life.kept)


def test_without_an_archive_what_expired_is_gone() -> None:
    life = Life(Settings(stack="demo"))
    account = life.take(expire_events(life, 2))
    assert (account.archived, account.failures, life.puts) == (0, (), 0)


def test_an_event_that_could_not_be_kept_comes_again() -> None:
    life = Life()
    removals = expire_events(life, 2)

    def put(**request: Any) -> None:
        raise OSError("no route")

    upkeep = Upkeep(SyncDriver(SyncMemoryStore(life.table)).run, life.clock)
    account = Aggregator(upkeep, SETTINGS, open_archive=lambda: put).process(removals)
    assert account.archived == 0
    assert [each.sequence for each in account.failures] == [each["dynamodb"]["SequenceNumber"] for each in removals]


# however the stream is delivered


def lived() -> Life:
    """All that a batch may ask for: usage of some hours, an old anchor, a shard to split, audit events to keep."""
    life = Life()
    expire_events(life, 2)
    for number in range(6):
        with life.limiter.acquire(f"key-{number % 2}", RESOURCES[number % 2], {"tpm": 5}) as lease:
            lease.adjust(tpm=number - 3)
        life.clock.advance(20 * 60 if number < 5 else 1)
    with life.limiter.acquire("key-1", RESOURCES[1], {"tpm": 600_000}):
        pass
    hot = Key(BucketId(life.repository.namespace_id, "key-1", RESOURCES[1]).pk, "#STATE")
    life.table.execute(Update(hot, add={"b_wcu_tc": 900_000}))
    return life


def outcome(life: Life) -> Any:
    """What a whole batch leaves, however often it comes: a split in its anchor's millisecond counts from the next."""
    life.clock.advance(0.001)
    buckets = [life.repository.get_bucket(f"key-{number}", RESOURCES[number]) for number in range(2)]
    tokens = [(bucket.shard_count, bucket.available) for bucket in buckets if bucket is not None]
    usage = [consumed(life, f"key-{number}", window) for number in range(2) for window in WINDOW_SECONDS]
    return usage, tokens, len(life.kept)


@pytest.mark.parametrize("writers", [1, 4])
@pytest.mark.parametrize("applied", [False, True])
def test_a_handler_that_is_killed_at_any_request_does_everything_once(writers: int, *, applied: bool) -> None:
    undisturbed = lived()
    store = MortalStore(undisturbed.table)
    account = undisturbed.take(list(undisturbed.stream), store)
    assert min(account.snapshots, account.refills, account.splits, account.archived) > 0
    assert {type(each) for each in store.asked} == {BatchGet, Update, Transact, type(None)}
    expected = outcome(undisturbed)
    for at in range(len(store.asked)):
        life = lived()
        records = list(life.stream)
        with pytest.raises(Killed):
            life.take(records, MortalStore(life.table, at, applied=applied), writers=writers)
        for cut in range(0, len(records), 5):
            life.take(records[cut : cut + 5], writers=writers)
        assert outcome(life) == expected


@pytest.mark.slow
@settings(deadline=None)
@given(st.data(), st.lists(st.tuples(st.lists(leases, max_size=4), pauses, st.booleans()), min_size=1, max_size=5))
def test_usage_equals_what_was_consumed_however_the_stream_is_delivered(data: st.DataObject, course: list[Any]) -> None:
    life, ledger = Life(), Ledger()
    life.repository.create_entity("parent")
    life.repository.create_entity("child", parent_id="parent", cascade=True)
    for deeds, seconds, expiring in course:
        live(life, ledger, deeds)
        life.clock.advance(seconds)
        if expiring:
            life.table.expire(life.clock.now_ms() // 1000)
    deliver(life, data)
    ledger.agree_with(life)
    for entity in ("parent", "child", "other"):
        for resource in RESOURCES:
            bucket = life.repository.get_bucket(entity, resource)
            assert bucket is None or all(tokens <= 1_000_000 for tokens in bucket.available.values())


def deliver(life: Life, data: st.DataObject) -> None:
    """Batches cut anywhere, that come again, overlap, and whose handler is killed at any request."""
    position, kills = 0, 0
    while position < len(life.stream):  # which grows, by what the aggregator writes
        begin = data.draw(st.integers(max(0, position - 5), position))
        end = min(len(life.stream), data.draw(st.integers(position + 1, position + 20)))
        mortal = kills < 5 and data.draw(st.booleans())
        at = data.draw(st.integers(0, 5)) if mortal else None
        store = MortalStore(life.table, at, applied=mortal and data.draw(st.booleans()))
        try:
            account = life.take(life.stream[begin:end], store)
        except Killed:
            kills += 1
        else:
            assert not account.failures
            position = end


def test_an_item_that_is_no_whole_bucket_is_counted_and_its_anchor_left_alone() -> None:
    life = Life()
    ghost = {"PK": "ns/BUCKET#e#r#0", "SK": "#STATE", "rf": START_MS, "shard_count": 1, "b_tpm_tk": 5, "b_tpm_tc": 1000}
    life.table.execute(Put(ghost))
    life.clock.advance(2 * HOUR)
    life.table.execute(Put({**ghost, "b_tpm_tc": 2000}))
    account = life.drain()
    assert (account.snapshots, account.refills, account.failures) == (3, 0, ())


def test_an_amount_that_the_winning_level_does_not_limit_is_usage_too() -> None:
    life = Life()
    life.repository.set_system_defaults([Limit.per_minute("rpm", 100), Limit.per_minute("tpm", 1000)])
    life.repository.set_limits("key-abc", [Limit.per_minute("rpm", 100)], "gpt-4")
    limiter = SyncRateLimiter(life.repository)
    for _ in range(3):
        with limiter.acquire("key-abc", "gpt-4", {"rpm": 1, "tpm": 500}) as lease:
            lease.adjust(tpm=-100)
    life.repository.set_limits("key-abc", [Limit.per_minute("tpm", 1000)], "gpt-4")
    with limiter.acquire("key-abc", "gpt-4", {"rpm": 1, "tpm": 500}):
        pass
    life.drain()
    assert consumed(life, "key-abc") == [(at(13), {"rpm": 4, "tpm": 1700}, 4)]


def test_the_table_of_another_product_is_left_alone_and_said_to_be_one() -> None:
    life = Life()
    with life.limiter.acquire("key-abc", "gpt-4", {"rpm": 1}):
        pass
    strange = [
        json.loads(json.dumps(each).replace(life.repository.namespace_id, "1DMf7y47lpE")) for each in life.stream
    ]
    store = MortalStore(MemoryTable())
    store.perform(Put(FOREIGN))
    account = life.take(strange, store)
    assert [each.problem for each in account.failures if TOLD.partition(", whose")[0] in each.problem]
    assert (account.snapshots, store.writes) == (0, [])


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("prefetch", [0.0, 5.0])
@pytest.mark.parametrize("seed", range(3))
def test_totals_of_four_levels_are_those_of_a_ledger(seed: int, prefetch: float) -> None:
    life = Life()
    make_tree(life.limiter, prefetch=prefetch)
    ledger = use_tree(life.limiter, life.clock, seed)
    life.limiter.close()
    life.drain()
    found = SyncRepository.over(SyncMemoryStore(life.table), Options(stack="demo", clock=life.clock)).get_usage_summary(
        window="daily"
    )
    assert {each.limit_name: each.total for each in found.limits} == {
        each: ledger.total(each) for each in ("rpm", "tpm")
    }
    assert (found.total_events, found.total_refused) == (ledger.admitted.total(), ledger.refused.total())


def test_the_table_says_how_far_usage_is_counted_and_whether_anything_waits() -> None:
    life = Life()

    def state() -> StreamState:
        found: StreamState = life.repository.driver.run(stream_state())
        return found

    def use(entity: str) -> None:
        with life.limiter.acquire(entity, "gpt-4", {"rpm": 1}):
            pass

    assert state() == StreamState(None, None, 0, 0)
    use("key-1")
    used_ms = life.clock.now_ms()
    life.clock.advance(3)
    life.drain()
    counted_ms = life.clock.now_ms()
    assert (state(), state().behind_ms(counted_ms)) == (StreamState(used_ms, counted_ms, 0, 1), 0)
    life.clock.advance(3 * HOUR)
    assert state().behind_ms(life.clock.now_ms()) == 0, "an idle table is not behind"
    for _ in range(2):
        use("key-1")
    assert (state().waiting, state().behind_ms(life.clock.now_ms())) == (2, 3 * HOUR * 1000 + 3000)
    store = MortalStore(life.table)
    life.take(list(life.stream), store)
    assert len(store.writes) == 5, "two windows of each hour, and the old anchor: none for this"
    assert state() == StreamState(life.clock.now_ms(), life.clock.now_ms(), 0, 1)


def test_refused_calls_wait_to_be_counted_as_well() -> None:
    """A key that is refused alone, as one whose budget is gone, has figures that are late."""
    life = Life()
    assert not refuses(life, "key-abc", tpm=1)
    life.drain()
    assert refuses(life, "key-abc", tpm=10**9)
    life.limiter.close()  # which writes it
    table = SyncRepository.over(SyncMemoryStore(life.table), Options(stack="demo", clock=life.clock))
    assert table.driver.run(stream_state()).waiting == 1
    life.drain()
    assert table.driver.run(stream_state()).waiting == 0
