"""When entities were last called, by their usage; in both variants."""

from datetime import UTC, datetime, timedelta

from support.core.owners import maintenance_of
from support.core.snapshots import usage_item
from support.core.worlds import World
from zae_limiter.operations.values import Put
from zae_limiter.values.usage import UsageSnapshot, Window

DAY = datetime(2024, 1, 1, tzinfo=UTC)


def used(
    world: World, ns: str, entity: str, resource: str, hours: float, events: int = 1, window: Window = "hourly"
) -> None:
    start = DAY + timedelta(hours=hours)
    world.table.execute(Put(usage_item(ns, UsageSnapshot(entity, resource, window, start, {"rpm": 1}, events, 1))))


async def test_it_is_the_newest_window_with_a_call_of_any_resource(world: World) -> None:
    limiter, wire = await world.process()
    ns = (await world.process()).repository.namespace_id
    for hour in range(30):
        for resource in ("gpt-4", "gpt-4o", "zephyr"):
            used(world, ns, "key", resource, hour)
    used(world, ns, "key", "gpt-4o", 40)
    for hour in range(31, 200):  # it is refused there since
        used(world, ns, "key", "zephyr", hour, events=0)
    used(world, ns, "old", "gpt-4", 0, window="daily")
    used(world, ns, "refused", "gpt-4", 5, events=0)
    used(world, ns, "team", "gpt-4", 24, window="daily")
    used(world, ns, "team", "gpt-4", 40)
    wire.sent()
    found = await maintenance_of(limiter.repository).get_last_calls(["key", "old", "refused", "team", "unknown", "key"])
    assert {each: (call.resource, call.window, call.window_start) for each, call in found.items()} == {
        "key": ("gpt-4o", "hourly", DAY + timedelta(hours=40)),
        "old": ("gpt-4", "daily", DAY),
        "team": ("gpt-4", "hourly", DAY + timedelta(hours=40)),
    }


async def test_it_jumps_over_the_windows_of_a_resource(world: World) -> None:
    limiter, wire = await world.process()
    for hour in range(150):
        for resource in ("a", "b"):
            used(world, limiter.repository.namespace_id, "key", resource, hour)
    wire.sent()
    assert await maintenance_of(limiter.repository).get_last_calls(["key"])
    sent = wire.sent()
    assert sent == ["Query"] * len(sent)
    assert len(sent) <= 3
