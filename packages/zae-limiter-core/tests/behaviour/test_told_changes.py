"""A change of an entity's limits tells its live buckets, so that every process obeys it at once; in both variants."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.core.owners import maintenance_of
from support.core.shards import split_into
from support.core.wires import Wire
from support.core.worlds import Process, World, drain, passes, take
from zae_limiter import Limit, RateLimitExceeded
from zae_limiter.flows.bucket import telling
from zae_limiter.operations.errors import Denied, Throttled
from zae_limiter.operations.values import Operation, Query
from zae_limiter.testing import ManualClock
from zae_limiter.values.provisioner import StoredConfig, StoredEntity

OLD = Limit.per_minute("rpm", 60)
LOWERED = Limit.per_minute("rpm", 5)
BLOCKED = Limit.per_minute("rpm", 0)
TPM = Limit.per_minute("tpm", 6000)


async def warm(world: World, **options: Any) -> tuple[Process, Process]:
    """An administrator's process, and one that has read the limits and written the bucket."""
    admin, user = await world.process(), await world.process(**options)
    await admin.repository.set_limits("e", [OLD], "r")
    await take(user.limiter, "e", "r", rpm=1)
    world.clock.advance(seconds=5)
    await take(user.limiter, "e", "r", rpm=1)
    user.wire.sent()
    return admin, user


async def passes_again(world: World, user: Process) -> bool:
    """Whether a bucket that a limit of 0 has emptied refills from the first request on, a second after the change."""
    world.clock.advance(seconds=1)
    assert not await passes(user.limiter, "e", "r", rpm=1)
    world.clock.advance(seconds=1, ms=1)
    return await passes(user.limiter, "e", "r", rpm=1)


async def test_a_block_bites_in_the_next_request(world: World) -> None:
    admin, user = await warm(world)
    assert await admin.repository.set_limits("e", [BLOCKED], "r") == 1
    assert not await passes(user.limiter, "e", "r", rpm=1)
    assert user.wire.sent() == ["Update", "BatchGet", "Update"]  # the last one gives the bucket its new shape


async def test_a_lowered_limit_bites_in_the_next_request(world: World) -> None:
    admin, user = await warm(world)
    await admin.repository.set_limits("e", [LOWERED], "r")
    world.clock.advance(ms=10)  # the change moved the anchor on by a millisecond, while the clock stood still
    assert await drain(user.limiter, "e", "r", "rpm") == 5


async def test_a_change_costs_one_write_for_each_live_bucket(world: World) -> None:
    admin, _ = await warm(world)
    admin.wire.sent()
    await admin.repository.set_limits("e", [LOWERED], "r")
    assert admin.wire.sent() == ["Get", "Transact", "BatchGet", "Update"]


@pytest.mark.parametrize("resource", ["r", "_default_"])
async def test_an_entity_without_buckets_costs_no_write(world: World, resource: str) -> None:
    admin = await world.process()
    assert await admin.repository.set_limits("new", [OLD], resource) == 0
    assert "Update" not in admin.wire.sent()


async def test_a_change_leaves_the_tokens_of_a_bucket_as_they_are(world: World) -> None:
    admin, user = await warm(world)
    await take(user.limiter, "e", "r", rpm=40)
    world.clock.advance(seconds=3)
    before = await user.repository.get_bucket("e", "r")
    await admin.repository.set_limits("e", [OLD, TPM], "r")
    after = await user.repository.get_bucket("e", "r")
    assert before is not None
    assert after is not None
    assert after.available == {**before.available, "tpm": TPM.burst}  # which the next write brings
    world.clock.advance(seconds=7)
    assert await drain(user.limiter, "e", "r", "rpm") == before.available["rpm"] + 7


async def test_limits_for_all_resources_are_told_to_every_bucket(world: World) -> None:
    admin, user = await world.process(), await world.process()
    await admin.repository.set_limits("e", [OLD])
    for resource in ("r", "s"):
        await take(user.limiter, "e", resource, rpm=1)
    assert await admin.repository.set_limits("e", [BLOCKED]) == 2
    world.clock.advance(seconds=1)
    for resource in ("r", "s"):
        assert not await passes(user.limiter, "e", resource, rpm=1)


async def test_an_override_and_its_end_are_obeyed_at_once(world: World) -> None:
    admin, user = await warm(world)
    until = datetime.fromtimestamp(world.clock.now_ms() / 1000, UTC) + timedelta(hours=2)
    assert await admin.repository.set_limits("e", [BLOCKED], "r", override_until=until) == 1
    assert not await passes(user.limiter, "e", "r", rpm=1)
    assert await admin.repository.delete_override("e", "r") == 1
    assert await passes_again(world, user)


async def test_a_raised_limit_is_obeyed_within_the_staleness_of_copies(world: World) -> None:
    admin, user = await warm(world)
    await admin.repository.set_limits("e", [BLOCKED], "r")
    assert not await passes(user.limiter, "e", "r", rpm=1)
    world.clock.advance(seconds=30)
    assert not await passes(user.limiter, "e", "r", rpm=1)
    await admin.repository.set_limits("e", [OLD], "r")
    assert await passes_again(world, user)


async def test_a_raised_limit_is_obeyed_at_once_by_who_reads_the_limits_with_each_call(world: World) -> None:
    limiter, _ = await world.process(config_cache_ttl=0)
    other, _ = await world.process()
    await other.set_limits("e", [Limit.per_minute("rpm", 500)], "r")
    await take(limiter, "e", "r", rpm=500)
    world.clock.advance(ms=20)
    await other.set_limits("e", [Limit.per_minute("rpm", 600)], "r")
    with pytest.raises(RateLimitExceeded) as refused:  # decided by the new limits, which the same call has read
        await take(limiter, "e", "r", rpm=600)
    assert [status.limit.capacity for status in refused.value.violations] == [600]


async def test_a_refusal_of_what_the_bucket_never_holds_costs_a_read_a_second_at_most(world: World) -> None:
    _, user = await warm(world)
    world.clock.advance(seconds=2)
    for _ in range(5):
        assert not await passes(user.limiter, "e", "r", rpm=61)
        world.clock.advance(ms=100)
    assert len(user.wire.sent()) == 1


async def test_a_limit_that_is_added_is_held_at_once(world: World) -> None:
    admin, user = await warm(world)
    await admin.repository.set_limits("e", [OLD, TPM], "r")
    await take(user.limiter, "e", "r", rpm=1)
    world.clock.advance(ms=1)
    await take(user.limiter, "e", "r", rpm=1, tpm=6000)
    assert not await passes(user.limiter, "e", "r", tpm=1)


async def test_limits_that_are_deleted_give_way_to_those_of_the_resource(world: World) -> None:
    admin, user = await warm(world)
    await admin.repository.set_resource_defaults("r", [LOWERED])
    assert await admin.repository.delete_limits("e", "r") == 1
    world.clock.advance(ms=10)  # the change moved the anchor on by a millisecond, while the clock stood still
    assert await drain(user.limiter, "e", "r", "rpm") == 5


async def test_limits_in_shadow_refuse_at_once_when_they_leave_it(world: World) -> None:
    admin, user = await world.process(), await world.process()
    shadow = Limit.per_minute("rpm", 5, shadow=True)
    await admin.repository.set_limits("e", [shadow], "r")
    await take(user.limiter, "e", "r", rpm=3)
    await admin.repository.set_limits("e", [LOWERED], "r")
    assert not await passes(user.limiter, "e", "r", rpm=3)


@pytest.mark.parametrize("fast_ms", [-900, 900])
async def test_a_process_whose_clock_differs_obeys_as_well(world: World, fast_ms: int) -> None:
    other = await world.process(clock=ManualClock(world.clock.now_ms() + fast_ms))
    admin, _ = await warm(world)
    await take(other.limiter, "e", "r", rpm=1)  # reads the limits just before they change
    await admin.repository.set_limits("e", [BLOCKED], "r")
    assert not await passes(other.limiter, "e", "r", rpm=1)


async def test_two_changes_in_one_millisecond_are_both_obeyed(world: World) -> None:
    admin, user = await warm(world)
    for limit, most in ((LOWERED, 5), (Limit.per_minute("rpm", 3), 3), (Limit.per_minute("rpm", 2), 2)):
        await admin.repository.set_limits("e", [limit], "r")
        assert not await passes(user.limiter, "e", "r", rpm=most + 1)


async def test_a_parent_that_is_blocked_blocks_its_children_at_once(world: World) -> None:
    admin, user = await world.process(), await world.process()
    await admin.repository.create_entity("p")
    await admin.repository.create_entity("c", parent_id="p", cascade=True)
    await admin.repository.set_system_defaults([OLD])
    await take(user.limiter, "c", "r", rpm=1)
    world.clock.advance(seconds=2)
    assert await admin.repository.set_limits("p", [BLOCKED]) == 1
    assert not await passes(user.limiter, "c", "r", rpm=1)
    bucket = await user.repository.get_bucket("c", "r")
    assert bucket is not None
    assert bucket.available == {"rpm": 60}


async def test_a_lease_that_takes_more_obeys_the_changed_limits(world: World) -> None:
    admin, user = await warm(world)
    async with user.limiter.acquire("e", "r", {"rpm": 1}) as lease:
        await admin.repository.set_limits("e", [Limit.per_minute("rpm", 100)], "r")
        world.clock.advance(ms=10)
        await lease.consume(rpm=40)
        await admin.repository.set_limits("e", [OLD], "r")
        world.clock.advance(ms=10)
        with pytest.raises(RateLimitExceeded):
            await lease.consume(rpm=20)
        await lease.adjust(rpm=-40)
    bucket = await user.repository.get_bucket("e", "r")
    assert bucket is not None
    assert bucket.available["rpm"] == 58


@pytest.mark.parametrize("shards", [2, 8])
async def test_every_shard_is_told(world: World, shards: int) -> None:
    admin, user = await warm(world)
    split_into(world, user.limiter, shards)
    assert await passes(user.limiter, "e", "r", rpm=10)
    await admin.repository.set_limits("e", [BLOCKED], "r")
    for _ in range(shards):
        assert not await passes(user.limiter, "e", "r", rpm=1)


async def test_many_limits_are_told_together(world: World) -> None:
    admin, user = await world.process(), await world.process()
    entities = [f"e{number}" for number in range(30)]
    await admin.repository.set_many_limits({(entity, "r"): [OLD] for entity in entities})
    for entity in entities:
        await take(user.limiter, entity, "r", rpm=1)
    done = await admin.repository.set_many_limits({(entity, "r"): [BLOCKED] for entity in entities})
    assert len(done.done) == 30
    assert not any([await passes(user.limiter, entity, "r", rpm=1) for entity in entities])


async def test_what_the_provisioner_applies_is_obeyed_at_once(world: World) -> None:
    admin, user = await warm(world)
    await maintenance_of(admin.repository).put_configs({("e", "r"): StoredConfig((BLOCKED,))})
    assert not await passes(user.limiter, "e", "r", rpm=1)


@pytest.mark.parametrize("few", [1_000, 30, 3], ids=["one page", "exactly one page", "more than a page"])
async def test_what_the_provisioner_applies_to_many_is_obeyed_at_once(
    world: World, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(telling, "FEW_BUCKETS", few)
    admin, user = await world.process(), await world.process()
    entities = [f"e{number}" for number in range(30)]
    await admin.repository.set_many_limits({(entity, "_default_"): [OLD] for entity in entities})
    await admin.repository.set_tier_limits("gold", [BLOCKED])
    for entity in entities:
        await take(user.limiter, entity, "r", rpm=1)
    admin.wire.sent()
    blocked = StoredConfig((BLOCKED,))
    await maintenance_of(admin.repository).put_configs({(entity, "_default_"): blocked for entity in entities})
    queries = admin.wire.sent().count("Query")
    assert queries == (1 if few > 30 else 31)  # a page that is full may not be the last one
    assert not any([await passes(user.limiter, entity, "r", rpm=1) for entity in entities])
    await maintenance_of(admin.repository).put_configs({(entity, "_default_"): None for entity in entities})
    await maintenance_of(admin.repository).put_entity_records(
        {entity: StoredEntity(tier="gold") for entity in entities}
    )
    assert not any([await passes(user.limiter, entity, "r", rpm=1) for entity in entities])


class Gates(Wire):
    """A store that lets nobody read the index of the namespace, and throttles a query once."""

    throttled = False

    def answer(self, operation: Operation[Any]) -> Any:
        if isinstance(operation, Query) and operation.index == "GSI4":
            raise Denied("no query of GSI4")
        if isinstance(operation, Query) and not self.throttled:
            self.throttled = True
            raise Throttled("slow down")
        return super().answer(operation)


async def test_who_may_not_read_the_index_of_the_namespace_tells_entity_by_entity(world: World) -> None:
    admin, user = await world.process(wire=Gates(world.table)), await world.process()
    entities = [f"e{number}" for number in range(20)]
    for entity in entities:
        await admin.repository.set_limits(entity, [OLD])
        await take(user.limiter, entity, "r", rpm=1)
    await maintenance_of(admin.repository).put_configs(
        {(entity, "_default_"): StoredConfig((BLOCKED,)) for entity in entities}
    )
    assert not any([await passes(user.limiter, entity, "r", rpm=1) for entity in entities])


async def test_an_entity_that_has_no_bucket_yet_costs_no_query_where_many_are_applied(world: World) -> None:
    admin, user = await warm(world)
    admin.wire.sent()
    await maintenance_of(admin.repository).put_entity_records(
        {f"new-{each}": StoredEntity(tier="gold") for each in range(200)}
    )
    assert admin.wire.sent().count("Query") == 1
    assert await passes(user.limiter, "e", "r", rpm=1)
    assert user.wire.sent() == ["Update"]  # nobody told the bucket of another entity


async def _at(admin: Process, level: str, limit: Limit) -> None:
    if level == "resource":
        await admin.repository.set_resource_defaults("r", [limit])
    elif level == "system":
        await admin.repository.set_system_defaults([limit])
    else:
        await admin.repository.set_tier_limits("gold", [limit])


@pytest.mark.parametrize("level", ["resource", "system", "tier"])
@pytest.mark.parametrize("per", [Limit.per_minute, Limit.per_month])
async def test_a_level_that_is_raised_lets_pass_who_was_refused_within_a_second(
    world: World, level: str, per: Any
) -> None:
    admin, user = await world.process(), await world.process()
    await _at(admin, level, per("n", 5))
    if level == "tier":
        await admin.repository.create_entity("e", tier="gold")
    assert await drain(user.limiter, "e", "r", "n") == 5
    await _at(admin, level, per("n", 600))
    world.clock.advance(ms=870)
    user.wire.sent()
    passed = 0
    for _ in range(20):
        passed += await passes(user.limiter, "e", "r", n=1)
        world.clock.advance(ms=100)
    assert passed >= 19  # a rate refills from the change on
    assert user.wire.sent().count("BatchGet") <= 3


async def test_limits_that_refuse_are_read_beside_a_request_a_second(world: World) -> None:
    admin, user = await world.process(), await world.process()
    await admin.repository.set_resource_defaults("r", [Limit.per_month("n", 5)])
    assert await drain(user.limiter, "e", "r", "n") == 5
    user.wire.sent()
    for _ in range(50):
        world.clock.advance(ms=100)
        assert not await passes(user.limiter, "e", "r", n=1)
    assert user.wire.sent().count("BatchGet") <= 6
