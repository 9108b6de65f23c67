"""The live buckets of a resource or of the namespace are told of changed limits, when asked to; in both variants."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.core.owners import maintenance_of
from support.core.shards import split_into
from support.core.worlds import Process, World, drain, passes, take
from zae_limiter import Limit, ValidationError
from zae_limiter.exceptions import InfrastructureError
from zae_limiter.maintenance import InvalidatedBuckets, LiveBuckets
from zae_limiter.operations.errors import Invalid
from zae_limiter.operations.values import Update

OLD, LOWERED, BLOCKED = (Limit.per_minute("rpm", capacity) for capacity in (60, 5, 0))
FAST: Any = {"writes_per_second": 100_000}


async def two(world: World, *entities: str, resource: str = "r") -> tuple[Process, Process]:
    """An administrator's process, and one that has read the limits of the resource and written these buckets."""
    admin, user = await world.process(), await world.process()
    await admin.repository.set_resource_defaults(resource, [OLD])
    for entity in entities:
        await take(user.limiter, entity, resource, rpm=1)
    admin.wire.sent()
    return admin, user


async def test_without_a_word_a_resource_keeps_the_life_of_the_cache(world: World) -> None:
    admin, user = await two(world, "e")
    await admin.repository.set_resource_defaults("r", [BLOCKED])
    assert await passes(user.limiter, "e", "r", rpm=1)


async def test_a_blocked_resource_bites_in_the_next_request(world: World) -> None:
    admin, user = await two(world, "e", "f")
    await admin.repository.set_resource_defaults("r", [BLOCKED])
    assert await maintenance_of(admin.repository).invalidate_live_buckets("r", **FAST) == InvalidatedBuckets(2, 0, {})
    user.wire.sent()
    assert not await passes(user.limiter, "e", "r", rpm=1)
    assert user.wire.sent()[:2] == ["Update", "BatchGet"]
    assert not await passes(user.limiter, "f", "r", rpm=1)


async def test_a_lowered_system_limit_bites_in_the_next_request(world: World) -> None:
    admin, user = await world.process(), await world.process()
    await admin.repository.set_system_defaults([OLD])
    await take(user.limiter, "e", "r", rpm=1)
    await admin.repository.set_system_defaults([LOWERED])
    assert (await maintenance_of(admin.repository).invalidate_live_buckets(**FAST)).invalidated == 1
    world.clock.advance(ms=10)  # the change moved the anchor on by a millisecond, while the clock stood still
    assert await drain(user.limiter, "e", "r", "rpm") == 5


async def test_deleted_limits_of_a_resource_are_told(world: World) -> None:
    admin, user = await two(world, "e")
    await admin.repository.set_system_defaults([LOWERED])
    await admin.repository.delete_resource_defaults("r")
    assert (await maintenance_of(admin.repository).invalidate_live_buckets("r", **FAST)).invalidated == 1
    world.clock.advance(ms=10)  # the change moved the anchor on by a millisecond, while the clock stood still
    assert await drain(user.limiter, "e", "r", "rpm") == 5


async def test_entities_with_limits_of_their_own_are_left_alone(world: World) -> None:
    admin, user = await two(world, "plain")
    await admin.repository.set_limits("own", [OLD], "r")
    await admin.repository.set_limits("everywhere", [OLD])
    await admin.repository.set_limits("elsewhere", [OLD], "s")
    for entity in ("own", "everywhere", "elsewhere"):
        await take(user.limiter, entity, "r", rpm=1)
    assert await maintenance_of(admin.repository).count_live_buckets("r") == LiveBuckets(2, 2, 2)
    before = {entity: world.bucket_of(user.limiter, entity, "r") for entity in ("own", "everywhere")}
    assert (await maintenance_of(admin.repository).invalidate_live_buckets("r", **FAST)).invalidated == 2
    assert {entity: world.bucket_of(user.limiter, entity, "r") for entity in before} == before


async def test_an_entity_with_nothing_but_an_override_is_told(world: World) -> None:
    admin, user = await two(world)
    until = datetime.fromtimestamp(world.clock.now_ms() / 1000, UTC) + timedelta(hours=2)
    await admin.repository.set_limits("e", [LOWERED], "r", override_until=until)
    await take(user.limiter, "e", "r", rpm=1)
    assert await maintenance_of(admin.repository).count_live_buckets("r") == LiveBuckets(1, 1, 0)


async def test_the_system_leaves_resources_and_entities_with_limits_alone(world: World) -> None:
    admin, user = await two(world)
    await admin.repository.set_system_defaults([OLD])
    await admin.repository.set_limits("own", [OLD], "s")
    for entity in ("e", "f"):
        await take(user.limiter, entity, "r", rpm=1)
    for entity in ("e", "f", "own"):
        await take(user.limiter, entity, "s", rpm=1)
    assert await maintenance_of(admin.repository).count_live_buckets() == LiveBuckets(2, 2, 3)
    assert (await maintenance_of(admin.repository).invalidate_live_buckets(**FAST)).invalidated == 2


async def test_other_namespaces_are_left_alone(world: World) -> None:
    admin, _ = await two(world, "e")
    other = await world.process("other")
    await other.repository.set_system_defaults([OLD])
    await take(other.limiter, "e", "r", rpm=1)
    assert await maintenance_of(admin.repository).count_live_buckets("r") == LiveBuckets(1, 1, 0)
    await admin.repository.delete_resource_defaults("r")
    assert await maintenance_of(admin.repository).count_live_buckets() == LiveBuckets(1, 1, 0)


async def test_each_shard_is_a_write(world: World) -> None:
    admin, user = await two(world, "e", "f")
    split_into(world, user.limiter, 4)
    assert await maintenance_of(admin.repository).count_live_buckets("r") == LiveBuckets(2, 5, 0)
    admin.wire.sent()
    assert (await maintenance_of(admin.repository).invalidate_live_buckets("r", **FAST)).invalidated == 2
    assert admin.wire.sent().count("Update") == 5


async def test_told_tokens_stay_as_they_are(world: World) -> None:
    admin, _ = await two(world, "e")
    world.clock.advance(ms=500)
    before = await admin.repository.get_bucket("e", "r")
    await maintenance_of(admin.repository).invalidate_live_buckets("r", **FAST)
    after = await admin.repository.get_bucket("e", "r")
    assert before is not None
    assert after is not None
    assert (after.available, after.limits) == (before.available, before.limits)


async def test_the_same_call_goes_on_where_it_was_interrupted(world: World) -> None:
    admin, user = await two(world, "a", "b", "c")
    await admin.repository.set_resource_defaults("r", [BLOCKED])
    world.clock.advance(seconds=10)

    class Interrupted(Exception): ...

    def interrupt(_: int) -> None:
        raise Interrupted

    with pytest.raises(Interrupted):
        await maintenance_of(admin.repository).invalidate_live_buckets("r", on_progress=interrupt, **FAST)
    await take(user.limiter, "d", "r", rpm=1)
    again = await maintenance_of(admin.repository).invalidate_live_buckets("r", **FAST)
    assert (again.invalidated, again.invalidated_before) == (1, 3)
    await admin.repository.set_resource_defaults("r", [OLD])
    world.clock.advance(seconds=10)
    assert (await maintenance_of(admin.repository).invalidate_live_buckets("r", **FAST)).invalidated == 4


async def test_progress_counts_buckets(world: World) -> None:
    admin, _ = await two(world, *(f"e{number}" for number in range(120)))
    seen: list[int] = []
    await maintenance_of(admin.repository).invalidate_live_buckets("r", on_progress=seen.append, **FAST)
    assert seen == [100, 120]


async def test_writes_are_bounded_by_the_second(world: World) -> None:
    admin, _ = await two(world, *(f"e{number}" for number in range(30)))
    began = world.clock.now_ms()
    await maintenance_of(admin.repository).invalidate_live_buckets("r", writes_per_second=100)
    assert world.clock.now_ms() - began == 300


async def test_a_bucket_that_was_not_told_is_named(world: World) -> None:
    admin, _ = await two(world, "e", "f")
    admin.wire.break_once(Invalid("refused"), on=Update)
    told = await maintenance_of(admin.repository).invalidate_live_buckets("r", **FAST)
    [(place, error)] = told.failed.items()
    assert told.invalidated == 1
    assert place in {("e", "r"), ("f", "r")}
    assert isinstance(error, InfrastructureError)


@pytest.mark.parametrize("rate", [0, 0.5, -1, True, "fast", float("inf"), float("nan")])
async def test_a_rate_is_checked_before_anything_is_read(world: World, rate: Any) -> None:
    admin, _ = await two(world, "e")
    with pytest.raises(ValidationError, match="writes_per_second"):
        await maintenance_of(admin.repository).invalidate_live_buckets("r", writes_per_second=rate)
    with pytest.raises(ValidationError, match="resource"):
        await maintenance_of(admin.repository).count_live_buckets("not a resource")
    assert admin.wire.sent() == []
