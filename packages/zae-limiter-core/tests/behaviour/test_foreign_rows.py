"""Rows that another namespace, or a mistake, places in the indexes of a namespace change nothing; in both variants."""

import logging
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from support.core.owners import maintenance_of
from support.core.snapshots import usage_item
from support.core.worlds import Process, World, take
from zae_limiter import EntityNotFoundError, Limit, Repository
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.maintenance import ProvisionerState
from zae_limiter.operations.values import Get, Item, Key, Put, Query
from zae_limiter.schema import keys
from zae_limiter.values.usage import UsageSnapshot

RPM, TPM = Limit.per_minute("rpm", 60), Limit.per_minute("tpm", 1000)
SECRET = "a-value-of-the-intruder"
INTRUDER = "intruder-id"
LINE = " rows of an index: "

Reader = Callable[[Repository], Awaitable[Any]]
Forge = Callable[[list[Item], str], Iterator[Item]]


async def pages_of_usage(repository: Repository) -> list[UsageSnapshot]:
    """The snapshots of a resource, page by page, each of one."""
    found: list[UsageSnapshot] = []
    following: str | None = None
    while True:
        page = await repository.get_usage_snapshots(resource="gpt-4", limit=1, next=following)
        found += page.snapshots
        following = page.next
        if following is None:
            return found


READERS: dict[str, Reader] = {
    "entities": lambda repository: repository.list_entities(),
    "all buckets": lambda repository: repository.list_buckets(),
    "buckets of a resource": lambda repository: repository.list_buckets("gpt-4"),
    "children": lambda repository: repository.get_children("project"),
    "buckets": lambda repository: repository.get_buckets("key-0"),
    "capacity": lambda repository: repository.get_resource_capacity("gpt-4"),
    "live buckets": lambda repository: maintenance_of(repository).count_live_buckets("gpt-4"),
    "live buckets of the system": lambda repository: maintenance_of(repository).count_live_buckets(),
    "usage pages": pages_of_usage,
    "usage sums": lambda repository: repository.get_usage_summary(resource="gpt-4"),
    "top usage": lambda repository: repository.get_top_usage("gpt-4", by="rpm"),
    "top usage of the namespace": lambda repository: repository.get_top_usage(by="rpm"),
    "resources with defaults": lambda repository: repository.list_resources_with_defaults(),
    "tiers": lambda repository: repository.list_tiers(),
    "entities of a tier": lambda repository: repository.list_entities_of_tier("gold"),
    "entities with limits": lambda repository: repository.list_entities_with_custom_limits("gpt-4"),
    "resources with entity configs": lambda repository: repository.list_resources_with_entity_configs(),
    "audit events": lambda repository: repository.get_namespace_audit_events(datetime(2020, 1, 1, tzinfo=UTC)),
    "config places": lambda repository: maintenance_of(repository).list_config_places(),
}


def with_the_same_shape(own: list[Item], _: str) -> Iterator[Item]:
    """Each item once more under another namespace's key."""
    for item in own:
        yield {**item, "PK": f"{INTRUDER}/" + item["PK"].partition("/")[2], "name": SECRET}


def junk_of_another(own: list[Item], _: str) -> Iterator[Item]:
    """Rows beside each item, under another namespace's key, that are like no record."""
    for number, item in enumerate(own):
        yield {"PK": f"{INTRUDER}/{number}", "SK": "#", "name": SECRET} | beside(item)


def junk_of_its_own(own: list[Item], namespace_id: str) -> Iterator[Item]:
    """Rows beside each item, under keys of the namespace, that are like no record."""
    for number, item in enumerate(own):
        yield {"PK": f"{namespace_id}/JUNK#{number}", "SK": "#", "name": SECRET} | beside(item)


def broken_of_its_own(own: list[Item], _: str) -> Iterator[Item]:
    """Records under the right keys whose attributes are not what they should be, or not there."""
    for item in own:
        renamed = {name: rename(value) if is_key(name) else value for name, value in item.items()}
        if item["SK"] == "#META":
            yield {**renamed, "entity_id": "key-9", "version": SECRET}
        elif item["SK"] == "#STATE":
            yield {**renamed, "entity_id": "key-9", "b_rpm_tk": SECRET}
            yield {**item, "SK": "#OTHER"}
        elif item["SK"].startswith("#USAGE"):
            yield {**renamed, "entity_id": "key-9", "l_rpm": SECRET}
            yield {name: value for name, value in renamed.items() if is_key(name)} | {"PK": item["PK"] + "8"}
        elif item["SK"].startswith("#AUDIT"):
            yield {**item, "SK": item["SK"] + "1"}
        elif "#CONFIG" in item["SK"]:
            yield {**item, "SK": item["SK"] + "#OTHER"}


def beside(item: Item) -> Item:
    keys_of = {name: value for name, value in item.items() if name.startswith("GSI")}
    return {name: value + "#~" if name.endswith("SK") else value for name, value in keys_of.items()}


def is_key(name: str) -> bool:
    return name.endswith(("PK", "SK"))


def rename(key: str) -> str:
    return key.replace("key-0", "key-9").replace("key-1", "key-9")


FORGERIES = [with_the_same_shape, junk_of_another, junk_of_its_own, broken_of_its_own]


async def filled(world: World, name: str = "default") -> Process:
    """A namespace that has something for each reader."""
    process = await world.process(name)
    limiter, repository = process.limiter, process.repository
    await limiter.set_system_defaults([RPM])
    await limiter.set_resource_defaults("gpt-4", [RPM])
    await limiter.repository.set_tier_limits("gold", [RPM])
    await limiter.create_entity("project", tier="gold")
    for number in range(2):
        await limiter.create_entity(f"key-{number}", parent_id="project")
        await limiter.set_limits(f"key-{number}", [RPM], "gpt-4")
        await take(limiter, f"key-{number}", "gpt-4", rpm=1)
        for hour in range(3):
            start = datetime(2026, 1, 1, hour, tzinfo=UTC)
            usage = UsageSnapshot(f"key-{number}", "gpt-4", "hourly", start, {"rpm": 1}, 1)
            world.table.execute(Put(usage_item(repository.namespace_id, usage)))
    process.wire.sent()
    return process


def indexed(table: MemoryTable, namespace_id: str) -> list[Item]:
    """The items in the index of the namespace, whole."""
    rows = table.execute(Query(namespace_id, index="GSI4")).items
    return [table.execute(Get(Key(row["PK"], row["SK"]))) for row in rows]


def put(table: MemoryTable, *items: Item) -> None:
    for item in items:
        table.execute(Put(item))


def forged(item: Item) -> Item:
    """The item once more under another namespace's key."""
    [copy] = with_the_same_shape([item], "")
    return copy


def dropped(process: Process) -> tuple[int, int]:
    stats = process.repository.get_store_stats()
    return stats.foreign_rows, stats.unreadable_rows


def touched(process: Process) -> str:
    """All operations but queries, in which a foreign row's key may say where the next page begins."""
    return repr([operation for operation in process.wire.seen if not isinstance(operation, Query)])


@pytest.mark.long(keep=17)
@pytest.mark.parametrize(
    ("reader", "forge"),
    [
        pytest.param(reader, forge, id=f"{name}-{forge.__name__}")
        for name, reader in READERS.items()
        for forge in FORGERIES
        if not (name.startswith(("live buckets", "entities")) and forge is broken_of_its_own)  # these read keys alone
    ],
)
async def test_a_reader_of_an_index_drops_counts_and_logs_what_is_not_for_it(
    world: World, reader: Reader, forge: Forge, caplog: pytest.LogCaptureFixture
) -> None:
    process = await filled(world)
    namespace_id, before = process.repository.namespace_id, await reader(process.repository)
    assert dropped(process) == (0, 0)
    put(world.table, *forge(indexed(world.table, namespace_id), namespace_id))
    process.wire.sent()
    with caplog.at_level(logging.WARNING):
        assert await reader(process.repository) == before
    foreign, unreadable = dropped(process)
    is_foreign = forge in (with_the_same_shape, junk_of_another)
    assert (foreign > 0, unreadable > 0) == (is_foreign, not is_foreign)
    lines = [record for record in caplog.records if LINE in record.message]
    assert sum(line.__dict__["fields"]["foreign_rows"] for line in lines) == foreign
    assert sum(line.__dict__["fields"]["unreadable_rows"] for line in lines) == unreadable
    assert SECRET not in caplog.text
    assert INTRUDER not in touched(process)


async def test_one_call_is_one_line_that_names_the_first_key_and_no_value(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    process = await filled(world)
    namespace_id = process.repository.namespace_id
    own = indexed(world.table, namespace_id)
    put(world.table, *with_the_same_shape(own, namespace_id), *junk_of_its_own(own, namespace_id))
    await maintenance_of(process.repository).list_config_places()
    [line] = [record for record in caplog.records if LINE in record.message]
    foreign, unreadable = dropped(process)
    assert line.message.startswith(f"dropped foreign{LINE}foreign_rows={foreign} unreadable_rows={unreadable} ")
    assert f"first_pk='{INTRUDER}/RESOURCE#gpt-4'" in line.message
    assert SECRET not in line.message


async def test_a_key_that_would_break_the_log_is_written_in_one_line(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    process = await filled(world)
    [bucket, *_] = [row for row in indexed(world.table, process.repository.namespace_id) if row["SK"] == "#STATE"]
    put(world.table, {**bucket, "PK": f"{INTRUDER}/\nERROR " + 1000 * "x"})
    await process.repository.get_resource_capacity("gpt-4")
    [line] = [record for record in caplog.records if LINE in record.message]
    assert "\n" not in line.message
    assert len(line.message) < 800


async def test_pages_full_of_foreign_rows_are_passed_over(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zae_limiter.flows.records.listing.ENTRIES_OF_FIRST_PAGE", 3)
    monkeypatch.setattr("zae_limiter.flows.records.listing.ENTRIES_PER_PAGE", 2)
    process = await filled(world)
    await process.limiter.set_limits("key-0", [RPM], "z-last")
    ns = process.repository.namespace_id
    for resource in ("a-first", "gpt-4", "gpt-4o", "z", "z-z"):
        for number in range(7):
            sk = keys.gsi4_sk_entity_config(resource, f"a-{number}")
            put(world.table, {"PK": f"{INTRUDER}/{resource}{number}", "SK": "#", "GSI4PK": ns, "GSI4SK": sk})
    assert await process.repository.list_resources_with_entity_configs() == ["gpt-4", "z-last"]


async def test_pages_of_usage_are_whole_behind_foreign_rows(world: World) -> None:
    process = await filled(world)
    before = await pages_of_usage(process.repository)
    ns = process.repository.namespace_id
    for number in range(30):
        row = {"GSI2PK": keys.gsi2_pk_resource(ns, "gpt-4"), "GSI2SK": f"USAGE#2026-01-01T01:00:00Z#a b {number}"}
        put(world.table, {"PK": f"{INTRUDER}/{number}", "SK": "#"} | row)
    assert await pages_of_usage(process.repository) == before
    assert len(before) == 6


async def test_the_delete_of_an_entity_deletes_no_item_but_its_buckets(world: World) -> None:
    process = await filled(world)
    ns = process.repository.namespace_id
    bucket = next(row for row in indexed(world.table, ns) if row["PK"] == keys.pk_bucket(ns, "key-0", "gpt-4", 0))
    other_bucket = {**bucket, "PK": keys.pk_bucket(ns, "precious", "gpt-4", 0)}
    other_kind = {**bucket, "SK": "#PRECIOUS"}
    kept = [forged(bucket), other_bucket, other_kind]
    put(world.table, *kept)
    await process.limiter.delete_entity("key-0")
    assert [world.table.execute(Get(Key(item["PK"], item["SK"]))) for item in kept] == kept
    assert await process.repository.get_bucket("key-0", "gpt-4") is None
    assert dropped(process) == (1, 2)
    assert INTRUDER not in touched(process)
    with pytest.raises(EntityNotFoundError):
        await process.limiter.delete_entity("key-0")
    assert dropped(process) == (2, 4)


async def test_a_state_of_the_provisioner_is_stored_and_swept_beside_forged_parts(world: World) -> None:
    process = await filled(world)
    repository, ns = process.repository, process.repository.namespace_id
    large = [f"resource-{number:05}" for number in range(1000)]
    serial = (
        await maintenance_of(repository).put_provisioner_state(
            ProvisionerState(managed_resources=large), expected_serial=0
        )
    ).serial
    parts = [row for row in indexed(world.table, ns) if row["SK"].startswith("#PROVISIONER#")]
    assert parts
    junk = {**parts[0], "PK": f"{INTRUDER}/SYSTEM#", "SK": "#PROVISIONER#junk"}
    odd = {**parts[0], "SK": "#PROVISIONER#junk"}
    put(world.table, *map(forged, parts), junk, odd)
    await maintenance_of(repository).put_provisioner_state(ProvisionerState(), expected_serial=serial)
    left = [row for row in indexed(world.table, ns) if row["SK"].startswith("#PROVISIONER#")]
    assert sorted(row["PK"] for row in left) == sorted([odd["PK"], *[junk["PK"]] * (len(parts) + 1)])
    assert dropped(process) == (len(parts) + 1, 1)
    assert INTRUDER not in touched(process)


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """The index of a table in memory does not lag."""
    monkeypatch.setattr("zae_limiter.flows.records.registry.SETTLE_SECONDS", 0)


@pytest.mark.usefixtures("quick")
async def test_a_purge_leaves_what_has_another_namespaces_key_and_ends(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    victim, operator = await filled(world, "victim"), await world.process()
    ns = victim.repository.namespace_id
    own = indexed(world.table, ns)
    strangers = [*with_the_same_shape(own, ns), *junk_of_another(own, ns)]
    put(world.table, *strangers, *junk_of_its_own(own, ns))
    await victim.repository.delete_namespace("victim")
    assert await maintenance_of(operator.repository).purge_namespace(ns) == 2 * len(own)
    assert {row["PK"].partition("/")[0] for row in indexed(world.table, ns)} == {INTRUDER}
    assert len(indexed(world.table, ns)) == len(strangers)
    assert INTRUDER not in touched(operator)
    assert dropped(operator) == (len(strangers), 0)
    assert len([record for record in caplog.records if LINE in record.message]) == 1


@pytest.mark.usefixtures("quick")
async def test_a_purged_namespace_with_only_foreign_rows_is_no_orphan(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    victim, operator = await filled(world, "victim"), await world.process()
    ns = victim.repository.namespace_id
    own = indexed(world.table, ns)
    await victim.repository.delete_namespace("victim")
    await maintenance_of(operator.repository).purge_namespace(ns)
    put(world.table, *with_the_same_shape(own, ns))
    assert await maintenance_of(operator.repository).list_orphan_namespaces() == []
    assert dropped(operator) == (len(own), 0)
    assert len([record for record in caplog.records if LINE in record.message]) == 1
    put(world.table, max(own, key=lambda item: str(item["GSI4SK"])))
    assert [each.namespace_id for each in await maintenance_of(operator.repository).list_orphan_namespaces()] == [ns]
