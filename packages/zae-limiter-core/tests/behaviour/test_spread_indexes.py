"""Rows of buckets and usage in several partitions of an index: a table of before, upgraded while processes acquire.

Each list is compared with a ledger: what the processes consumed, by entity and resource.
"""

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

import pytest

from support.core.owners import maintenance_of
from support.core.rehearsal import Killed, Life
from support.core.shards import split, split_into
from support.core.snapshots import usage_item
from support.core.worlds import Process, World, take
from zae_limiter import Limit, UsageSnapshot
from zae_limiter.flows.records.migrating import MIGRATIONS
from zae_limiter.flows.records.registry import get_version_record
from zae_limiter.flows.steps import play
from zae_limiter.maintenance import VersionRecord
from zae_limiter.operations.errors import Throttled
from zae_limiter.operations.values import Item, Operation, Put, Query, Scan
from zae_limiter.schema import keys
from zae_limiter.schema.partitions import INDEX_SUFFIXES, every_gsi4_pk, index_suffix, is_spread
from zae_limiter.schema.registry import version_item
from zae_limiter.values.versions import SCHEMA_VERSION

RPM = Limit.custom("rpm", 100_000, refill_amount=1, refill_period=24 * 3600)  # stands still
DAY = datetime(2024, 1, 1, tzinfo=UTC)
OLD, NEW, LATE = ("old", 20), ("new", 40), ("late", 6)
SIZES = (1, 7, 1000)
Places = Counter[tuple[str, str]]


@pytest.fixture(params=["async", "sync"])
def world(request: pytest.FixtureRequest) -> World:
    """A table of schema 1, with processes that know of suffixes."""
    world = World(request.param, spread=True)
    world.table.execute(Put(version_item(VersionRecord(1, "0.1.0", "0.1.0"))))
    return world


async def opened(world: World) -> Process:
    return await world.process(default_limits=[RPM])


async def acquire(process: Process, ledger: Places, what: tuple[str, int]) -> None:
    """Consume from a number of buckets, each on one of two resources."""
    name, count = what
    for number in range(count):
        entity, resource = f"{name}|{number}", ("r", "r/2")[number % 2]
        await take(process.limiter, entity, resource, rpm=number + 1)
        ledger[entity, resource] += number + 1


def migrate(world: World) -> None:
    Life(world.table).migrate(*MIGRATIONS)


async def every(method: Any, size: int, rows: str, *arguments: Any, **named: Any) -> list[Any]:
    found: list[Any] = []
    following = None
    while True:
        page = await method(*arguments, limit=size, next=following, **named)
        found += getattr(page, rows)
        if page.next is None:
            return found
        assert len(getattr(page, rows)) == size
        following = page.next


async def check(process: Process, ledger: Places) -> None:
    """Every list has what the ledger has, once and in order, whatever the size of its pages."""
    repository = process.repository
    in_order = sorted(ledger, key=lambda place: tuple(map(keys.encode, place)))
    for size in SIZES:
        buckets = await every(repository.list_buckets, size, "buckets")
        assert [(each.entity_id, each.resource) for each in buckets] == in_order
        assert [each.limits[0].consumed for each in buckets] == [ledger[place] for place in in_order]
        on_one = await every(repository.list_buckets, size, "buckets", "r")
        assert [(each.entity_id, each.resource) for each in on_one] == [each for each in in_order if each[1] == "r"]
        entities = await every(repository.list_entities, size, "entities")
        assert [each.entity_id for each in entities] == [entity for entity, _ in in_order]
    for resource in ("r", "r/2"):
        consumed = [amount for place, amount in ledger.items() if place[1] == resource]
        capacity = await repository.get_resource_capacity(resource)
        assert capacity.entities == len(consumed)
        left = 100_000 * len(consumed) - sum(consumed)
        assert left - 1 <= capacity.limits[0].available <= left  # a split rounds down
    assert (await maintenance_of(repository).count_live_buckets()).buckets == len(ledger)


def bucket_items(world: World) -> dict[str, Item]:
    items: list[Item] = world.table.execute(Scan(100_000)).items
    return {item["PK"]: item for item in items if item["SK"] == keys.sk_state()}


async def test_lists_are_exact_before_during_and_behind_an_upgrade(world: World) -> None:
    old, ledger = await opened(world), Places()
    await acquire(old, ledger, OLD)
    split_into(world, old.limiter, 4, "old|2", "r")
    await check(old, ledger)
    before = {pk: (item["GSI2PK"], item["GSI4PK"]) for pk, item in bucket_items(world).items()}
    migrate(world)
    assert play(get_version_record("test"), world.table.execute) == VersionRecord(SCHEMA_VERSION, "0.1.0", "0.1.0")
    new = await opened(world)
    await acquire(new, ledger, NEW)
    await acquire(new, ledger, OLD)
    await acquire(old, ledger, LATE)  # it was opened before, and writes the old form until it ends
    split(world, new.limiter, "new|2", "r")
    split(world, new.limiter, "old|4", "r")
    for process in (old, new):
        await check(process, ledger)
    after = bucket_items(world)
    assert {pk: (after[pk]["GSI2PK"], after[pk]["GSI4PK"]) for pk in before} == before, "no row moves"
    ns = new.repository.namespace_id
    for item in after.values():
        entity = item["entity_id"]
        assert is_spread(item) is entity.startswith("new"), item
        if is_spread(item):
            suffix = index_suffix(entity)
            assert item["GSI2PK"] == keys.gsi2_pk_resource(ns, item["resource"], suffix)
            assert item["GSI4PK"] == keys.gsi4_pk(ns, suffix)
    assert len({item["GSI4PK"] for item in after.values()}) > INDEX_SUFFIXES // 2


async def test_a_killed_upgrade_is_continued() -> None:
    world = World("async", spread=True)
    old, ledger = await opened(world), Places()
    await acquire(old, ledger, OLD)
    lives = 0
    while True:
        left = iter(range(lives))

        def before(operation: Operation[Any], left: Iterator[int] = left) -> None:
            if not isinstance(operation, (Query, Scan)) and next(left, None) is None:
                raise Killed

        world.table.execute(Put(version_item(VersionRecord(1, "0.1.0", "0.1.0"))))
        try:
            Life(world.table, before).migrate(*MIGRATIONS)
        except Killed:
            migrate(world)
        else:
            break
        lives += 1
        await acquire(await opened(world), ledger, NEW)
        record = play(get_version_record("test"), world.table.execute)
        assert record is not None
        assert record.schema_version == SCHEMA_VERSION
    await check(old, ledger)
    assert lives > 3


async def test_a_purge_removes_rows_of_every_partition(world: World) -> None:
    old, ledger = await opened(world), Places()
    await acquire(old, ledger, OLD)
    migrate(world)
    new = await opened(world)
    await acquire(new, ledger, NEW)
    ns = new.repository.namespace_id
    other = await world.process("other", default_limits=[RPM])
    await acquire(other, Places(), NEW)
    await new.repository.delete_namespace("default")
    await maintenance_of(other.repository).purge_namespace(ns)
    assert not [item for item in world.table.execute(Scan(100_000)).items if item["PK"].startswith(f"{ns}/")]
    assert [each.namespace_id for each in await maintenance_of(other.repository).list_orphan_namespaces()] == []
    await check(other, Places({(f"new|{number}", ("r", "r/2")[number % 2]): number + 1 for number in range(40)}))
    await acquire(new, Places(), ("again", 1))  # by a process that still has it open
    assert [each.namespace_id for each in await maintenance_of(other.repository).list_orphan_namespaces()] == [ns]


@pytest.mark.parametrize("size", SIZES)
async def test_usage_is_paged_by_time_over_all_partitions(world: World, size: int) -> None:
    repository = (await opened(world)).repository
    expected: list[UsageSnapshot] = []
    for number in range(6):
        for entity in ("a", "b|", "c"):
            for resource in ("r", "s"):
                start = DAY + timedelta(hours=number)
                usage = UsageSnapshot(entity, resource, "hourly", start, {"rpm": number}, 1)
                item = usage_item(repository.namespace_id, usage, spread=number > 2)
                world.table.execute(Put(item))
                expected.append(usage)
    on_r = [each for each in expected if each.resource == "r"]
    method = repository.get_usage_snapshots
    assert await every(method, size, "snapshots", resource="r") == on_r
    in_order = sorted(expected, key=lambda each: (each.window_start, each.resource, keys.encode(each.entity_id)))
    assert await every(method, size, "snapshots") == in_order
    from_two = [each for each in in_order if each.window_start >= DAY + timedelta(hours=2)]
    assert await every(method, size, "snapshots", start=DAY + timedelta(hours=2)) == from_two
    [first, *_] = await repository.get_top_usage("r", by="rpm", window="hourly")
    assert first.consumed == {"rpm": sum(range(6))}


async def test_live_buckets_are_told_in_every_partition(world: World) -> None:
    old, ledger = await opened(world), Places()
    await acquire(old, ledger, OLD)
    migrate(world)
    new = await opened(world)
    await acquire(new, ledger, NEW)
    await new.repository.set_resource_defaults("r", [RPM])
    world.clock.advance(seconds=10)
    told = await maintenance_of(new.repository).invalidate_live_buckets("r", writes_per_second=100_000)
    assert (told.invalidated, told.invalidated_before, told.failed) == (30, 0, {})
    world.clock.advance(seconds=10)
    told = await maintenance_of(new.repository).invalidate_live_buckets("r", writes_per_second=100_000)
    assert (told.invalidated, told.invalidated_before) == (0, 30)


async def test_a_query_that_is_throttled_beside_others_is_asked_again(world: World) -> None:
    process, ledger = await opened(world), Places()
    migrate(world)
    process = await opened(world)
    await acquire(process, ledger, NEW)
    for _ in range(9):
        process.wire.break_once(Throttled(), on=Query)
    await check(process, ledger)


async def test_a_row_in_the_partition_of_another_suffix_is_dropped(world: World) -> None:
    migrate(world)
    process, ledger = await opened(world), Places()
    await acquire(process, ledger, NEW)
    ns = process.repository.namespace_id
    own = next(iter(bucket_items(world).values()))
    for number, pk in enumerate(every_gsi4_pk(ns)):
        row = {**own, "PK": f"intruder/BUCKET#e#r#{number}", "GSI4PK": pk, "GSI2PK": f"{pk}/RESOURCE#r"}
        world.table.execute(Put(row))
    await check(process, ledger)
    wrong = {**own, "GSI4PK": keys.gsi4_pk(ns, (index_suffix(own["entity_id"]) + 1) % INDEX_SUFFIXES)}
    world.table.execute(Put(wrong))
    listed = await every(process.repository.list_buckets, 1000, "buckets")
    assert own["entity_id"] not in {each.entity_id for each in listed}


@pytest.mark.parametrize("variant", ["async", "sync"])
async def test_an_engine_without_hot_keys_is_asked_once_and_has_no_suffixes(variant: Literal["async", "sync"]) -> None:
    world = World(variant)
    world.table.execute(Put(version_item(VersionRecord(SCHEMA_VERSION, "0.1.0", "0.1.0"))))
    process, ledger = await opened(world), Places()
    await acquire(process, ledger, NEW)
    process.wire.sent()
    await process.repository.get_resource_capacity("r")
    assert process.wire.sent() == ["Query", "BatchGet"]
    assert not any(map(is_spread, bucket_items(world).values()))
