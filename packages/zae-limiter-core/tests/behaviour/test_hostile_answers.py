"""Every answer of a store, of whatever shape, is a value or an error of ours, in both variants."""

import asyncio
from random import Random
from typing import Any

import pytest

from support.core.hostile import HostileTable, SyncHostileStore, answer_of
from support.core.hostile_calls import CALLS, SETTINGS, Variant, filled, lines, public_methods, trial
from support.core.owners import maintenance_of
from support.core.worlds import World, take
from zae_limiter import Limit, RateLimiter, RateLimiterUnavailable, SyncRateLimiter, SyncRepository, ZAELimiterError
from zae_limiter.engines.dynamodb.render import read_answer
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.exceptions import StoreRefusedError
from zae_limiter.operations.values import Get, Item, Key, Operation, Put, Query, Scan, Update
from zae_limiter.schema import keys

SHAPES = 15  # of each call, for each variant
RPM = Limit.per_minute("rpm", 60)


@pytest.fixture(scope="module")
def items() -> list[Item]:
    return filled()


def test_there_is_a_call_of_each_method_that_asks_the_store() -> None:
    assert public_methods().keys() <= {name.partition(" ")[0] for name in CALLS}


@pytest.mark.long(keep=30)
@pytest.mark.slow
@pytest.mark.parametrize("variant", ["async", "sync"])
@pytest.mark.parametrize("name", CALLS)
def test_an_answer_of_any_shape_is_an_answer_or_an_error_of_ours(
    items: list[Item], name: str, variant: Variant
) -> None:
    async def shape(number: int) -> str:
        try:
            await trial(items, name, variant, Random(f"{name} {number}"))
        except ZAELimiterError as error:
            return str(error)
        return "an answer"

    async def shapes() -> list[str]:
        return [await shape(number) for number in range(SHAPES)]

    with lines() as logged:
        told = asyncio.run(shapes())
    assert all(text.isprintable() and len(text) < 2000 for text in [*told, *(line.getMessage() for line in logged)])
    assert not [line for line in logged if line.exc_info]  # which a fault of ours would have


CHANGING = {
    "a balance is text": {"b_rpm_tk": "many"},
    "a number beyond all": {"b_rpm_tc": 10**400},
    "an expiry is text": {"ttl": "soon"},
}
FIXED = {
    "a number of forty digits": {"b_rpm_tc": 10**40},
    "the anchor is text": {"rf": "now"},
    "the anchor is missing": {"rf": None},
    "a count of shards that no bucket has": {"shard_count": 10**9},
    "a period of nothing": {"b_rpm_rp": 0},
    "a capacity is missing": {"b_rpm_cp": None},
    "writes that are a list": {"b_wcu_tc": [1]},
    "a parent that is a number": {"parent_id": 1},
}


@pytest.mark.parametrize("on_unavailable", ["allow", "block"])
@pytest.mark.parametrize("broken", [*CHANGING.values(), *FIXED.values()], ids=[*CHANGING, *FIXED])
async def test_a_bucket_that_cannot_be_read_is_refused_by_its_key(
    world: World, broken: Item, on_unavailable: str
) -> None:
    """It is not an outage: nobody passes uncounted, whatever the policy."""
    limiter, _ = await world.process(on_unavailable=on_unavailable)
    await refuses(world, limiter, (await world.process()).limiter, broken)


@pytest.mark.parametrize("broken", [*CHANGING.values(), {"b_rpm_tk": None}], ids=[*CHANGING, "a balance is missing"])
async def test_a_bucket_that_was_seen_before_is_read_as_strictly(world: World, broken: Item) -> None:
    limiter, _ = await world.process(on_unavailable="allow")
    await refuses(world, limiter, limiter, broken)


async def refuses(world: World, limiter: RateLimiter, first: RateLimiter, broken: Item) -> None:
    """Break a bucket that ``first`` has made."""
    await limiter.set_resource_defaults("r", [RPM])
    await take(first, "e", "r", rpm=1)
    key = Key(keys.pk_bucket(limiter.repository.namespace_id, "e", "r", 0), keys.sk_state())
    sound = world.table.execute(Get(key))
    assert sound is not None
    kept = {name: value for name, value in sound.items() if broken.get(name, value) is not None}
    world.table.execute(Put(kept | {name: value for name, value in broken.items() if value is not None}))
    for _ in range(2):
        with pytest.raises(StoreRefusedError, match=rf"{key.pk}.*cannot be read.*correct it, or delete it"):
            await take(limiter, "e", "r", rpm=1)
    world.table.execute(Put(sound))
    await take(limiter, "e", "r", rpm=1)


async def test_a_config_that_cannot_be_read_is_refused_by_its_key_and_not_remembered(world: World) -> None:
    limiter, _ = await world.process(on_unavailable="allow")
    await limiter.set_limits("e", [RPM], "r")
    key = Key(keys.pk_entity(limiter.repository.namespace_id, "e"), keys.sk_config("r"))
    sound = world.table.execute(Get(key))
    assert sound is not None
    for broken in ({"l_rpm_cp": "x"}, {"config_version": "1"}, {"override_until": 10**20, "o_rpm_cp": 5}):
        world.table.execute(Put(sound | broken))
        with pytest.raises(StoreRefusedError, match=r"ENTITY#e.*#CONFIG#r.*cannot be read"):
            await take(limiter, "e", "r", rpm=1)
    world.table.execute(Put(sound))
    await take(limiter, "e", "r", rpm=1)


async def test_lists_drop_what_they_cannot_read_and_count_it(world: World) -> None:
    repository = (await world.process()).repository
    await repository.register_namespace("other")
    await repository.set_limits("e", [RPM], "r")
    broken = Key(keys.pk_system(keys.REGISTRY), keys.sk_namespace("broken"))
    world.table.execute(Update(broken, set={"name": "broken", "namespace_id": 5}))
    event = Key(keys.pk_audit(repository.namespace_id, "e"), keys.sk_audit("2026"))
    world.table.execute(Update(event, set={"action": ["x"]}))
    assert {each.name for each in await repository.list_namespaces()} == {"default", "other"}
    assert len((await repository.get_audit_events("e")).events) == 1
    assert repository.get_store_stats().unreadable_rows == 2
    with pytest.raises(StoreRefusedError, match="#NAMESPACE#broken"):  # whoever purges by this list is not misled
        await maintenance_of(repository).list_orphan_namespaces()


@pytest.mark.parametrize("body", [{}, {"Attributes": {}}, {"Attributes": {"PK": {"S": "another"}, "SK": {"S": "s"}}}])
def test_a_damaged_answer_to_a_write_leaves_its_outcome_unknown(body: Item) -> None:
    """As one that was lost: the write may have been done."""
    items = filled()
    table = MemoryTable()
    for item in items:
        table.execute(Put(item))

    class Damaged(SyncHostileStore):
        def perform(self, operation: Operation[Any]) -> Any:
            return read_answer(operation, body) if isinstance(operation, Update) else super().perform(operation)

    limiter = SyncRateLimiter(SyncRepository.over(Damaged(HostileTable(table)), SETTINGS))
    with pytest.raises(RateLimiterUnavailable, match="the answer has"), limiter.acquire("child", "r", {"rpm": 1}):
        pass


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_a_row_with_a_value_that_no_record_has_hides_no_other_row_of_an_index(size: int) -> None:
    """Of such a row, the key in the table alone is known, and not its place in the partition of the index."""

    class Marked(SyncHostileStore):
        """Adds bytes to the rows of intruders, in what DynamoDB answers."""

        def perform(self, operation: Operation[Any]) -> Any:
            if not isinstance(operation, Query):
                return super().perform(operation)
            _, answer = answer_of(self.table.table, operation)
            for row in answer["Items"]:
                if row["PK"]["S"].startswith("intruder/"):
                    row["mark"] = {"B": b"x"}
            return read_answer(operation, answer)

    table = MemoryTable()
    repository = SyncRepository.over(Marked(HostileTable(table)), SETTINGS)
    limiter = SyncRateLimiter(repository)
    repository.set_system_defaults([RPM])
    entities = [f"e{number:02}" for number in range(24)]
    for entity in entities:
        with limiter.acquire(entity, "r", {"rpm": 1}):
            pass
    for number, item in enumerate(table.execute(Scan(1000)).items):
        if "/BUCKET#" in item["PK"]:  # one behind each, and one before all of its partition
            for place in (item["GSI4SK"] + "~", keys.pk_buckets_of_namespace(repository.namespace_id)):
                table.execute(Put(item | {"PK": f"intruder/BUCKET#{number}#{place}", "GSI4SK": place}))
    assert listed(repository.list_buckets, "buckets", size) == entities
    assert listed(repository.list_entities, "entities", size) == entities
    assert repository.get_store_stats().foreign_rows > 0


def listed(method: Any, rows: str, size: int) -> list[str]:
    """The ids in all pages of a list."""
    found: list[str] = []
    page = method(limit=size)
    while True:
        found += [each.entity_id for each in getattr(page, rows)]
        if page.next is None:
            return found
        page = method(limit=size, next=page.next)
