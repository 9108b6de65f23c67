"""Who was refused, and who consumed, the most on a resource; in both variants."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.core.snapshots import usage_item
from support.core.worlds import Process, World
from zae_limiter import Repository, ValidationError
from zae_limiter.operations.values import Put
from zae_limiter.schema.usage import rest_attribute
from zae_limiter.values import EntityUsage
from zae_limiter.values.usage import UsageSnapshot, Window

DAY = datetime(2024, 1, 1, tzinfo=UTC)


def hour(number: int) -> datetime:
    return DAY + timedelta(hours=number)


@pytest.fixture
async def process(world: World) -> Process:
    """Two hours of three entities on a resource; others do more, elsewhere."""
    process = await world.process()
    rows: list[tuple[str, str, Window, int, dict[str, int], int, int, int]] = [
        ("a", "gpt-4", "hourly", 0, {"tpm": 100, "rpm": 1}, 1, 5, 0),
        ("a", "gpt-4", "hourly", 1, {"tpm": 50}, 2, 6, 1),
        ("b", "gpt-4", "hourly", 1, {"tpm": 300}, 1, 0, 0),
        ("c", "gpt-4", "hourly", 1, {"rpm": 2}, 7, 11, 0),
        ("a", "gpt-4", "daily", 0, {"tpm": 150, "rpm": 1}, 3, 11, 1),
        ("b", "gpt-4o", "hourly", 0, {"tpm": 999}, 9, 99, 9),
    ]
    for entity, resource, window, number, consumed, events, refused, shadowed in rows:
        usage = UsageSnapshot(entity, resource, window, hour(number), consumed, events, refused, shadowed)
        world.table.execute(Put(usage_item(process.repository.namespace_id, usage)))
    return process


async def top(repository: Repository, **asked: Any) -> list[str]:
    return [each.entity_id for each in await repository.get_top_usage("gpt-4", **asked)]


async def test_each_entity_has_its_sums_and_who_was_refused_most_is_first(process: Process) -> None:
    assert await process.repository.get_top_usage("gpt-4") == (
        EntityUsage("a", "gpt-4", {"rpm": 1, "tpm": 150}, 3, 11, 1),
        EntityUsage("c", "gpt-4", {"rpm": 2}, 7, 11, 0),
    )


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ({"by": "total_refused", "limit": 1}, ["a"]),
        ({"by": "total_shadowed"}, ["a"]),
        ({"by": "total_events"}, ["c", "a", "b"]),
        ({"by": "tpm"}, ["b", "a"]),
        ({"by": "rpm"}, ["c", "a"]),
        ({"by": "other"}, []),
        ({"window": "daily"}, ["a"]),
        ({"start": hour(1)}, ["c", "a"]),
        ({"end": hour(1)}, ["a"]),
    ],
    ids=str,
)
async def test_it_is_by_what_was_asked_for(process: Process, asked: dict[str, Any], expected: list[str]) -> None:
    assert await top(process.repository, **asked) == expected


async def test_without_a_resource_each_entity_has_a_place_on_each_one_of_the_namespace(process: Process) -> None:
    found = await process.repository.get_top_usage()
    assert [(each.entity_id, each.resource, each.total_refused) for each in found] == [
        ("b", "gpt-4o", 99),
        ("a", "gpt-4", 11),
        ("c", "gpt-4", 11),
    ]
    found = await process.repository.get_top_usage(by="tpm", start=hour(1), limit=1)
    assert [(each.entity_id, each.resource, each.consumed) for each in found] == [("b", "gpt-4", {"tpm": 300})]
    assert [each.entity_id for each in await process.repository.get_top_usage(window="daily")] == ["a"]


async def test_without_a_resource_it_reads_the_snapshots_of_the_windows_alone(world: World, process: Process) -> None:
    for day in range(1, 30):
        usage = UsageSnapshot("a", "gpt-4", "hourly", hour(24 * day), {}, 1, 1)
        world.table.execute(Put(usage_item(process.repository.namespace_id, usage)))
    process.wire.sent()
    world.meter.reset()
    await process.repository.get_top_usage(start=hour(1), end=hour(2))
    assert process.wire.sent() == ["Query", "BatchGet"]
    assert world.meter.read_units == pytest.approx(3 + 0.5), "three snapshots, and a page of keys"


async def test_parts_of_tokens_add_up_before_entities_are_compared(world: World) -> None:
    repository = (await world.process()).repository
    for entity, tokens, rest in (("a", 4, 0), ("b", 3, 600)):
        for number in range(2):
            usage = UsageSnapshot(entity, "gpt-4", "hourly", hour(number), {"tpm": tokens}, 1)
            world.table.execute(Put({**usage_item(repository.namespace_id, usage), rest_attribute("tpm"): rest}))
    assert [(e.entity_id, e.consumed) for e in await repository.get_top_usage("gpt-4", by="tpm")] == [
        ("a", {"tpm": 8}),
        ("b", {"tpm": 7}),
    ]


async def test_it_reads_each_snapshot_of_the_resource_once(process: Process) -> None:
    process.wire.sent()
    await top(process.repository, window="hourly", limit=1)
    assert process.wire.sent() == ["Query", "BatchGet"]


async def test_it_reads_to_the_end(world: World) -> None:
    repository = (await world.process()).repository
    for number in range(1_100):
        usage = UsageSnapshot(f"e-{number:04}", "gpt-4", "hourly", DAY, {}, 0, number)
        world.table.execute(Put(usage_item(repository.namespace_id, usage)))
    assert await top(repository, limit=3) == ["e-1099", "e-1098", "e-1097"]
    assert len(await top(repository, limit=1000)) == 1000


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"resource": ""}, "resource"),
        ({"resource": 7}, "resource"),
        ({"by": "wcu"}, "by"),
        ({"by": "a b"}, "by"),
        ({"by": None}, "by"),
        ({"by": ["rpm"]}, "by"),
        ({"window": "weekly"}, "window"),
        ({"start": hour(1), "end": hour(1)}, "end"),
        ({"limit": 0}, "limit"),
        ({"limit": 1001}, "limit"),
    ],
    ids=str,
)
async def test_bad_input_is_refused_before_any_request(world: World, wrong: dict[str, Any], field: str) -> None:
    process = await world.process()
    with pytest.raises(ValidationError) as refused:
        await process.repository.get_top_usage(**{"resource": "gpt-4", **wrong})
    assert refused.value.field == field
    assert process.wire.sent() == []
