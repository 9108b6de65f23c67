"""Switches of every level: ``disabled`` refuses, ``bypass`` admits and counts, ``cascade`` chooses the path; in both
variants.
"""

import asyncio
import pickle
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.core.owners import maintenance_of
from support.core.shards import split_into
from support.core.worlds import Process, World, again, drain, go_on, passes, stand_still, take, until
from zae_limiter import AccessDisabled, Limit, RateLimitExceeded, Repository, Switches, ValidationError
from zae_limiter.http import headers, problem
from zae_limiter.integrations.answers import Answers
from zae_limiter.operations.errors import Unreachable
from zae_limiter.values import SetSwitch
from zae_limiter.values.provisioner import StoredConfig

RPM = Limit.per_minute("rpm", 60)
FAST: Any = {"writes_per_second": 100_000}
SECOND = {"seconds": 1}


async def warm(world: World, *entities: str, **options: Any) -> tuple[Process, Process]:
    """An administrator's process, and one that has read the limits of the system and written these buckets."""
    admin, user = await world.process(), await world.process(**options)
    await admin.repository.set_system_defaults([RPM])
    for entity in entities or ("e",):
        await take(user.limiter, entity, "r", rpm=1)
    world.clock.advance(seconds=5)
    user.wire.sent()
    return admin, user


async def refusal(process: Process, entity_id: str = "e", resource: str = "r", **consume: int) -> AccessDisabled:
    """The refusal of a disabled acquire."""
    with pytest.raises(AccessDisabled) as caught:
        await take(process.limiter, entity_id, resource, **(consume or {"rpm": 1}))
    return caught.value


async def family(world: World) -> tuple[Process, Process]:
    """A child of a parent, to whose bucket it cascades."""
    admin = await world.process()
    await admin.repository.create_entity("p")
    await admin.repository.create_entity("c", parent_id="p", cascade=True)
    return await warm(world, "c")


async def counts(process: Process, entity_id: str, resource: str = "r") -> int:
    """What was consumed of ``rpm``, as the store has counted it."""
    bucket = await process.repository.get_bucket(entity_id, resource)
    return 0 if bucket is None else bucket.limits[0].consumed


async def test_a_disabled_entity_is_refused_in_the_next_request(world: World) -> None:
    admin, user = await warm(world)
    assert await admin.repository.set_switches("e", "r", disabled=True, reason="unpaid") == 1
    refused = await refusal(user)
    assert user.wire.sent() == ["Update", "BatchGet"]
    assert str(refused) == "e/r: e is disabled on r by its own config (unpaid)"
    assert (refused.refused_by, refused.path, refused.resource) == ("e", ("e",), "r")
    assert (refused.retry_after_header, refused.switch_reason) == (None, "unpaid")
    assert refused.switch == SetSwitch(value=True, source="entity", reason="unpaid")
    assert [status.exceeded for status in refused.violations] == [True]


async def test_refusals_cost_a_read_a_second_at_most_and_no_write(world: World) -> None:
    admin, user = await warm(world)
    await admin.repository.set_switches("e", disabled=True)
    await refusal(user)
    user.wire.sent()
    for _ in range(20):
        await refusal(user)
        world.clock.advance(ms=100)
    assert user.wire.sent() == ["BatchGet", "BatchGet"]


async def test_who_is_enabled_passes_within_the_staleness_of_copies(world: World) -> None:
    admin, user = await warm(world)
    await admin.repository.set_switches("e", "r", disabled=True)
    await refusal(user)
    world.clock.advance(seconds=30)
    await refusal(user)
    await admin.repository.set_switches("e", "r", disabled=None)
    world.clock.advance(**SECOND)
    assert await passes(user.limiter, "e", "r", rpm=1)


async def test_who_never_had_a_bucket_is_let_in_again_as_soon(world: World) -> None:
    admin, user = await world.process(), await world.process(default_limits=[RPM])
    await admin.repository.set_switches("new", disabled=True)
    await refusal(user, "new")
    assert await admin.repository.set_switches("new", disabled=False) == 0
    world.clock.advance(**SECOND)
    assert await passes(user.limiter, "new", "r", rpm=1)


async def test_who_was_taken_from_a_path_in_time_is_not_refused_by_what_is_disabled_above_it(world: World) -> None:
    admin, user = await family(world)
    await admin.repository.create_entity("other", parent_id="p", cascade=True)
    await admin.repository.set_switches("c", "r", cascade="off")
    await admin.repository.set_switches("p", disabled=True)
    assert (await refusal(user, "other")).disabled_id == "p"
    assert await passes(user.limiter, "c", "r", rpm=1)


@pytest.mark.parametrize("level", ["entity", "entity_default", "resource", "system"])
async def test_each_level_disables_and_the_most_specific_one_wins(world: World, level: str) -> None:
    admin, user = await world.process(), await world.process(default_limits=[RPM])
    levels: dict[str, tuple[Any, tuple[str, ...]]] = {
        "system": (admin.repository.set_system_switches, ()),
        "resource": (admin.repository.set_resource_switches, ("r",)),
        "entity_default": (admin.repository.set_switches, ("e",)),
        "entity": (admin.repository.set_switches, ("e", "r")),
    }
    order = [*levels]
    method, place = levels[level]
    await method(*place, disabled=True, reason=f"by {level}")
    refused = await refusal(user)
    assert refused.switch is not None
    assert (refused.switch.source, refused.switch_reason) == (level, f"by {level}")
    for stronger in order[order.index(level) + 1 :]:
        method, place = levels[stronger]
        await method(*place, disabled=False)
        world.clock.advance(**SECOND)
        assert await passes(user.limiter, "e", "r", rpm=1)
        await method(*place, disabled=True)
        await refusal(await world.process(default_limits=[RPM]))


async def test_a_switch_that_is_not_named_stays(world: World) -> None:
    admin = await world.process()
    repository = admin.repository
    await repository.set_switches("e", "r", cascade="off", reason="free of charge")
    await repository.set_switches("e", "r", disabled=True, reason="unpaid")
    assert await repository.get_switches("e", "r") == Switches(disabled=True, cascade="off", reason="unpaid")
    await repository.set_switches("e", "r", disabled=None)
    assert await repository.get_switches("e", "r") == Switches(cascade="off")
    await repository.set_switches("e", "r", cascade="inherit")
    assert not await repository.get_switches("e", "r")
    assert await maintenance_of(repository).get_configs([("e", "r")]) == {}


async def test_limits_and_switches_of_a_level_leave_each_other_alone(world: World) -> None:
    admin = await world.process()
    repository, clock = admin.repository, world.clock
    ends = datetime.fromtimestamp(clock.now_ms() / 1000, UTC) + timedelta(minutes=1)
    await repository.set_switches("e", "r", disabled=True, reason="unpaid")
    await repository.set_limits("e", [RPM], "r")
    await repository.set_limits("e", [Limit.per_minute("rpm", 5)], "r", override_until=ends)
    await repository.delete_limits("e", "r")
    clock.advance(seconds=3600)
    world.expire()
    assert await repository.get_switches("e", "r") == Switches(disabled=True, reason="unpaid")
    assert await repository.get_limits("e", "r") == []
    await repository.set_limits("e", [RPM], "r")
    await repository.set_switches("e", "r", disabled=None)
    assert await repository.get_limits("e", "r") == [RPM]


async def test_switches_alone_are_no_limits_in_lists_and_for_levels(world: World) -> None:
    admin, _ = await warm(world)
    repository = admin.repository
    await repository.set_switches("e", "r", cascade="off")
    await repository.set_resource_switches("r", cascade="off")
    assert await repository.list_entities_with_custom_limits("r") == []
    assert await repository.list_resources_with_entity_configs() == []
    assert await repository.list_resources_with_defaults() == []
    assert {("e", "r"), (None, "r")} <= {*await maintenance_of(repository).list_config_places()}
    assert (await maintenance_of(repository).count_live_buckets()).buckets == 1
    assert (await repository.resolve_limits("e", "r"))[2] == "system"
    await repository.set_limits("e", [RPM], "r")
    assert await repository.list_entities_with_custom_limits("r") == ["e"]


async def test_an_entity_that_is_deleted_leaves_no_switch(world: World) -> None:
    admin = await world.process()
    await admin.repository.create_entity("e")
    await admin.repository.set_switches("e", disabled=True)
    await admin.repository.set_switches("e", "r", disabled=True)
    await admin.repository.set_limits("e", [RPM], "s")
    await admin.repository.set_switches("e", "s", bypass=True)
    await admin.repository.delete_entity("e")
    assert await maintenance_of(admin.repository).get_configs([("e", place) for place in ("_default_", "r", "s")]) == {}


async def test_what_is_set_is_audited_with_its_reason(world: World) -> None:
    admin = await world.process()
    await admin.repository.set_switches("e", "r", disabled=True, reason="unpaid", principal="ops")
    await admin.repository.set_switches("e", "r", disabled=True, reason="unpaid", principal="again")
    await admin.repository.set_switches("e", "r", disabled=None)
    cleared, event = (await admin.repository.get_audit_events("e")).events
    assert (event.action, event.principal, event.before) == ("switches_set", "ops", None)
    assert event.after is not None
    assert event.after["switches"] == {"disabled": True, "reason": "unpaid"}
    assert (cleared.before, cleared.after) == (event.after, None)


async def test_a_disabled_parent_refuses_its_children_and_is_named(world: World) -> None:
    admin, user = await family(world)
    assert await admin.repository.set_switches("p", disabled=True, reason="closed") == 1
    refused = await refusal(user, "c")
    assert str(refused) == "c > p/r: p is disabled on r by its own config on all resources (closed)"
    assert (refused.refused_by, refused.path) == ("p", ("c", "p"))
    assert [status.entity_id for status in refused.violations] == ["p"]
    bucket = await user.repository.get_bucket("c", "r")
    assert bucket is not None
    assert bucket.available == {"rpm": 60}


async def test_a_disabled_parent_without_the_limit_refuses_all_the_same(world: World) -> None:
    admin = await world.process()
    await admin.repository.create_entity("p")
    await admin.repository.create_entity("c", parent_id="p", cascade=True)
    await admin.repository.set_limits("p", [Limit.per_minute("usd", 5)])
    await admin.repository.set_switches("p", disabled=True)
    refused = await refusal(await world.process(default_limits=[RPM]), "c")
    assert (refused.refused_by, refused.primary_violation.limit_name) == ("p", "usd")


async def test_refusals_are_counted_for_who_asked_and_for_who_is_disabled(world: World) -> None:
    admin, user = await family(world)
    await admin.repository.set_switches("p", "r", disabled=True)
    for _ in range(3):
        await refusal(user, "c")
    await user.repository.close()
    explained = await admin.limiter.explain("c", "r", {"rpm": 1})
    assert [each.refused for each in explained.buckets] == [3, 3]
    assert {str(each): n for each, n in explained.buckets[0].refused_by.items()} == {"p/disabled": 3}


async def test_bypass_admits_everything_and_counts_it_exactly(world: World) -> None:
    admin, user = await warm(world)
    await admin.repository.set_switches("e", "r", bypass=True)
    for _ in range(10):
        async with user.limiter.acquire("e", "r", {"rpm": 50}) as lease:
            await lease.consume(rpm=5)
            await lease.adjust(rpm=5)
    assert all(status.limit.shadow for status in lease.shadowed)
    assert lease.shadowed
    assert await counts(admin, "e") == 1 + 10 * 60
    await admin.repository.set_switches("e", "r", bypass=None)
    assert not await passes(user.limiter, "e", "r", rpm=60)
    world.clock.advance(seconds=60)
    assert await drain(user.limiter, "e", "r", "rpm") == 60  # who bypassed owes nothing


async def test_a_refusal_by_a_parents_copy_says_nothing_of_a_child_by_a_copy_that_may_be_old(world: World) -> None:
    admin, user = await family(world)
    await admin.repository.set_switches("c", "r", bypass=True)
    await take(user.limiter, "p", "r", rpm=1)
    with pytest.raises(RateLimitExceeded) as caught:
        await take(user.limiter, "c", "r", rpm=61)
    assert [status.entity_id for status in caught.value.violations] == ["p"]
    user.wire.sent()
    assert not await passes(user.limiter, "c", "r", rpm=61)
    assert user.wire.sent() == []  # both copies are fresh now


async def test_bypass_counts_exactly_on_shards_and_prefetched(world: World) -> None:
    admin, user = await warm(world)
    split_into(world, user.limiter, 4)
    await admin.repository.set_switches("e", bypass=True)
    for _ in range(20):
        await take(user.limiter, "e", "r", rpm=40)
    assert await counts(admin, "e") == 1 + 20 * 40
    await admin.repository.set_limits("a", [Limit.per_minute("rpm", 600, prefetch=1)], "r")
    await admin.repository.set_switches("a", "r", bypass=True)
    for number in range(150):
        await take(user.limiter, "a", "r", rpm=1 if number % 10 else 700)
        world.clock.advance(ms=20)
    await user.repository.close()
    assert await counts(admin, "a") == 15 * 700 + 135


async def test_of_a_bypassed_child_the_parent_still_binds(world: World) -> None:
    admin, user = await family(world)
    await admin.repository.set_switches("c", bypass=True)
    assert await drain(user.limiter, "c", "r", "rpm", step=20) == 60
    await admin.repository.set_switches("p", bypass=True)
    world.clock.advance(**SECOND)  # copies refuse as long, as after a raised limit
    assert await passes(user.limiter, "c", "r", rpm=1000)


async def test_disabled_comes_before_bypass(world: World) -> None:
    admin, user = await warm(world)
    await admin.repository.set_switches("e", "r", bypass=True)
    await admin.repository.set_resource_switches("r", disabled=True)
    await maintenance_of(admin.repository).invalidate_live_buckets("r", for_switches=True, **FAST)
    await refusal(user)
    resolved = await admin.repository.resolve_switches("e", "r")
    assert (resolved.disables, resolved.bypasses) == (True, False)


async def test_cascade_is_switched_for_a_resource_on_warm_processes(world: World) -> None:
    admin, user = await family(world)
    assert await counts(user, "p") == 1
    await admin.repository.set_switches("c", "r", cascade="off")
    await take(user.limiter, "c", "r", rpm=2)
    assert (await counts(user, "c"), await counts(user, "p")) == (3, 1)
    await take(user.limiter, "c", "other", rpm=4)
    assert await counts(user, "p", "other") == 4
    world.clock.advance(seconds=2)
    await admin.repository.set_switches("c", "r", cascade="on")
    await take(user.limiter, "c", "r", rpm=8)
    assert (await counts(user, "c"), await counts(user, "p")) == (11, 9)


async def test_cascade_on_holds_for_who_does_not_cascade_and_off_for_the_word_of_a_call(world: World) -> None:
    admin, user = await world.process(), await world.process(default_limits=[RPM])
    await admin.repository.create_entity("p")
    await admin.repository.create_entity("c", parent_id="p")
    await admin.repository.set_system_switches(cascade="on")
    await take(user.limiter, "c", "r", rpm=1)
    assert await counts(user, "p") == 1
    await admin.repository.set_resource_switches("r", cascade="off")
    other = await world.process(default_limits=[RPM])
    async with other.limiter.acquire("c", "r", {"rpm": 1}, cascade=True):
        pass
    assert await counts(user, "p") == 1
    await take(other.limiter, "orphan", "s", rpm=1)  # without parents there is nothing to draw on


async def test_a_disabled_parent_is_no_matter_for_who_does_not_cascade(world: World) -> None:
    admin, user = await family(world)
    await admin.repository.set_switches("p", disabled=True)
    await refusal(user, "c")
    await admin.repository.set_switches("c", "r", cascade="off")
    world.clock.advance(**SECOND)
    assert await passes(user.limiter, "c", "r", rpm=1)


@pytest.mark.parametrize("place", ["resource", "system"])
async def test_a_level_keeps_the_life_of_the_cache_until_it_is_told(world: World, place: str) -> None:
    admin, user = await warm(world, "e", "own")
    await admin.repository.set_limits("own", [RPM], "r")
    world.clock.advance(seconds=5)
    await take(user.limiter, "own", "r", rpm=1)
    level = "r" if place == "resource" else None
    if level:
        await admin.repository.set_resource_switches(level, disabled=True)
    else:
        await admin.repository.set_system_switches(disabled=True)
    assert await passes(user.limiter, "e", "r", rpm=1)
    assert (await maintenance_of(admin.repository).count_live_buckets(level, for_switches=True)).buckets == 2
    assert (
        await maintenance_of(admin.repository).invalidate_live_buckets(level, for_switches=True, **FAST)
    ).invalidated == 2
    for entity in ("e", "own"):
        await refusal(user, entity)


@pytest.mark.parametrize("shards", [2, 8])
async def test_every_shard_refuses_at_once(world: World, shards: int) -> None:
    admin, user = await warm(world)
    split_into(world, user.limiter, shards)
    assert await passes(user.limiter, "e", "r", rpm=10)
    world.clock.advance(seconds=2)
    await admin.repository.set_switches("e", disabled=True)
    for _ in range(shards):
        await refusal(user)


async def test_prefetched_tokens_end_within_their_time(world: World) -> None:
    admin, user = await world.process(), await world.process()
    await admin.repository.set_limits("e", [Limit.per_minute("rpm", 6000, prefetch=1)], "r")
    for _ in range(150):
        await take(user.limiter, "e", "r", rpm=1)
        world.clock.advance(ms=20)
    await admin.repository.set_switches("e", "r", disabled=True)
    admitted = 0
    for _ in range(100):
        admitted += await passes(user.limiter, "e", "r", rpm=1)
        world.clock.advance(ms=20)
    assert admitted <= 50  # a second of them
    await refusal(user)


async def test_a_child_with_prefetch_leaves_and_joins_its_parent(world: World) -> None:
    admin, user = await world.process(), await world.process()
    await admin.repository.create_entity("p")
    await admin.repository.create_entity("c", parent_id="p", cascade=True)
    await admin.repository.set_system_defaults([Limit.per_minute("rpm", 6000, prefetch=1)])

    async def use(acquires: int) -> None:
        for _ in range(acquires):
            await take(user.limiter, "c", "r", rpm=1)
            world.clock.advance(ms=20)

    await use(150)
    await admin.repository.set_switches("c", "r", cascade="off")
    await use(55)  # within the life of a block
    await user.repository.close()
    settled = await counts(admin, "p")
    assert 150 <= settled <= 205
    user = await world.process()
    await use(100)
    await user.repository.close()
    assert await counts(admin, "p") == settled
    assert await counts(admin, "c") == 305


async def wait_for(process: Process, entity_id: str, amount: int) -> None:
    async with process.limiter.acquire(entity_id, "r", {"rpm": amount}, max_wait=600):
        pass


async def test_who_waits_is_refused_when_its_tokens_are_due(world: World) -> None:
    stand_still(world)
    admin, user = await warm(world)
    assert await drain(user.limiter, "e", "r", "rpm") == 60
    waiting = asyncio.create_task(wait_for(user, "e", 30))
    await until(lambda: world.clock.waiting == 1)
    await admin.repository.set_switches("e", "r", disabled=True)
    world.clock.advance(seconds=31)
    await until(waiting.done)
    assert isinstance(waiting.exception(), AccessDisabled)
    with pytest.raises(AccessDisabled):
        await wait_for(user, "e", 30)


async def test_all_who_wait_are_refused_at_their_next_look_once_their_process_knows(world: World) -> None:
    stand_still(world)
    admin, user = await warm(world)
    assert await drain(user.limiter, "e", "r", "rpm") == 60
    waiting = [asyncio.create_task(wait_for(user, "e", 50)) for _ in range(6)]
    await until(lambda: world.clock.waiting == 6)
    await admin.repository.set_switches("e", "r", disabled=True)
    world.clock.advance(seconds=2)
    await refusal(user)
    assert await go_on(world, waiting, 3)  # each looks once a second; its tokens are due in minutes
    assert {type(each.exception()) for each in waiting} == {AccessDisabled}


async def test_a_disabled_entity_leaves_its_parents_line(world: World) -> None:
    stand_still(world)
    admin, user = await family(world)
    await admin.repository.create_entity("first", parent_id="p", cascade=True)
    for entity in ("first", "c"):  # the parent is short, not they
        await admin.repository.set_limits(entity, [Limit.per_minute("rpm", 6000)])
    assert await drain(user.limiter, "first", "r", "rpm", step=10) == 60
    waiting = [asyncio.create_task(wait_for(user, "first", 50))]
    await until(lambda: world.clock.waiting == 1)
    waiting.append(asyncio.create_task(wait_for(user, "c", 50)))
    await until(lambda: world.clock.waiting == 2)
    await admin.repository.set_switches("c", disabled=True)
    world.clock.advance(seconds=2)
    await refusal(user, "c")
    await go_on(world, waiting, 3)
    assert isinstance(waiting[1].exception(), AccessDisabled)
    assert not waiting[0].done()
    world.clock.advance(seconds=60)
    await until(waiting[0].done)
    assert waiting[0].exception() is None


async def test_a_lease_that_takes_more_is_refused_and_ends_as_it_is(world: World) -> None:
    admin, user = await warm(world)
    async with user.limiter.acquire("e", "r", {"rpm": 5}) as lease:
        await admin.repository.set_switches("e", "r", disabled=True)
        with pytest.raises(AccessDisabled):
            await lease.consume(rpm=1)
        await lease.adjust(rpm=2)
    assert await counts(admin, "e") == 1 + 7


async def test_a_limiter_in_shadow_refuses_nobody(world: World) -> None:
    admin, user = await warm(world)
    await admin.repository.set_switches("e", "r", disabled=True)
    shadow = again(user.limiter, shadow=True)
    for _ in range(3):
        assert await passes(shadow, "e", "r", rpm=1)
        world.clock.advance(seconds=2)


@pytest.mark.parametrize("policy", ["allow", "share", "block"])
async def test_an_outage_lets_nobody_through_who_was_disabled(world: World, policy: Any) -> None:
    admin, user = await warm(world, on_unavailable=policy)
    await admin.repository.set_switches("e", "r", disabled=True)
    await refusal(user)
    world.clock.advance(seconds=300)
    user.wire.break_down(Unreachable("connection refused"))
    await refusal(user)


async def test_an_outage_lets_through_who_bypasses(world: World) -> None:
    admin, user = await warm(world, on_unavailable="block")
    await admin.repository.set_switches("e", "r", bypass=True)
    await take(user.limiter, "e", "r", rpm=1)
    user.wire.break_down(Unreachable("connection refused"))
    async with user.limiter.acquire("e", "r", {"rpm": 1000}) as lease:
        assert lease.degraded


async def test_explain_and_the_wait_name_the_switch(world: World) -> None:
    admin, user = await family(world)
    await admin.repository.set_switches("p", disabled=True, reason="closed")
    await admin.repository.set_switches("c", "r", bypass=True)
    explained = await user.limiter.explain("c", "r", {"rpm": 1})
    assert explained.disabled is explained.buckets[1]
    assert (explained.passes, explained.passes_at, explained.wait_seconds) == (False, None, float("inf"))
    switches = explained.buckets[1].switches
    assert switches is not None
    assert switches.disabled == SetSwitch(value=True, source="entity_default", reason="closed")
    own = explained.buckets[0]
    assert own.switches is not None
    assert own.switches.bypasses
    assert own.limits[0].limit.shadow
    assert await (await world.process()).limiter.time_until_available("c", "r", {"rpm": 1}) == float("inf")
    await admin.repository.set_switches("c", "r", bypass=None, cascade="off")
    assert (await user.limiter.explain("c", "r", {"rpm": 1})).passes


async def test_over_http_a_disabled_entity_is_forbidden_and_not_named(world: World) -> None:
    admin, user = await warm(world)
    await admin.repository.set_switches("e", "r", disabled=True, reason="unpaid")
    refused = await refusal(user)
    answer = Answers().to(refused, "/v1")
    assert answer.status == 403
    assert "retry-after" not in {name.lower() for name in answer.headers}
    assert b"unpaid" not in answer.body
    assert headers(refused, legacy=True) == {"x-should-retry": "false"}
    assert problem(refused, instance="/v1")["instance"] == "/v1"
    assert refused.as_dict()["disabled_by"] == "entity"


async def test_a_refusal_survives_pickle(world: World) -> None:
    admin, user = await warm(world)
    await admin.repository.set_switches("e", "r", disabled=True, reason="unpaid")
    refused = await refusal(user)
    copy = pickle.loads(pickle.dumps(refused))
    assert (type(copy), str(copy), copy.switch_reason) == (AccessDisabled, str(refused), "unpaid")
    assert isinstance(copy, RateLimitExceeded)


async def test_the_provisioner_owns_the_switches_of_what_it_writes(world: World) -> None:
    admin, user = await warm(world)
    stored = StoredConfig((), switches=Switches(disabled=True, reason="unpaid"))
    await maintenance_of(admin.repository).put_configs({("e", "r"): stored})
    await refusal(user)
    assert await maintenance_of(admin.repository).get_configs([("e", "r")]) == {("e", "r"): stored}
    await maintenance_of(admin.repository).put_configs({("e", "r"): StoredConfig((RPM,))})
    assert not await admin.repository.get_switches("e", "r")
    await maintenance_of(admin.repository).put_configs({("e", "r"): stored})
    await maintenance_of(admin.repository).put_configs({("e", "r"): None})
    assert await maintenance_of(admin.repository).get_configs([("e", "r")]) == {}


BAD: list[tuple[dict[str, Any], str]] = [
    ({}, "name at least one of disabled, bypass and cascade"),
    ({"disabled": 1}, "disabled 1: must be True or False"),
    ({"bypass": "yes"}, "bypass 'yes': must be True or False"),
    ({"cascade": True}, "cascade True: must be 'on', 'off' or 'inherit'"),
    ({"cascade": "maybe"}, "cascade 'maybe'"),
    ({"disabled": True, "bypass": True}, "contradicts disabled"),
    ({"disabled": True, "reason": ""}, "reason ''"),
    ({"disabled": True, "reason": "a\nb"}, "one line"),
    ({"disabled": True, "reason": "x" * 201}, "1 to 200 characters"),
    ({"disabled": True, "reason": 5}, "reason 5"),
    ({"disabled": None, "reason": "why"}, "is that of a switch"),
]


@pytest.mark.parametrize(("given", "problem"), BAD)
async def test_bad_switches_are_refused_before_any_request(world: World, given: dict[str, Any], problem: str) -> None:
    admin = await world.process()
    repository: Repository = admin.repository
    for call in (
        repository.set_system_switches(**given),
        repository.set_resource_switches("r", **given),
        repository.set_switches("e", "r", **given),
    ):
        with pytest.raises(ValidationError, match=problem):
            await call
    assert admin.wire.sent() == []


async def test_a_contradiction_with_what_is_stored_is_refused(world: World) -> None:
    admin = await world.process()
    await admin.repository.set_switches("e", disabled=True)
    with pytest.raises(ValidationError, match="contradicts disabled"):
        await admin.repository.set_switches("e", bypass=True)
    await admin.repository.set_switches("e", bypass=True, disabled=None)
    assert await admin.repository.get_switches("e") == Switches(bypass=True)
