"""What lives here: the store away, slow or throttling at each step, and what `block` and `allow` make of it.
What never does: a store that answers (test_leases).
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import pytest

from clocks import ManualClock
from proxy import Fault, Kind, Proxy
from stage import Stage
from zae_limiter import Lease, Limit, OnUnavailable, RateLimiter, RateLimiterUnavailable

pytestmark = pytest.mark.needs("endpoint", "atomic")

TIMEOUT = 1.0
KINDS: tuple[Kind, ...] = ("drop", "throttle", "late")
POLICIES: tuple[OnUnavailable, ...] = ("block", "allow")
ONE = {"rpm": 1}


@dataclass(frozen=True, slots=True)
class Scene:
    """One entity for whom one request fails in one way, under one policy."""

    limiter: RateLimiter
    proxy: Proxy
    kind: Kind
    policy: OnUnavailable

    @property
    def entity(self) -> str:
        """An id that no other scene's begins with."""
        return f"{self.kind}-{self.policy}."

    @property
    def parent(self) -> str:
        """The parent's id, where there is one."""
        return f"parent-{self.entity}"

    def fail(self, request: str, about: str | None = None) -> None:
        """From now on the request fails, where it is about the entity."""
        self.proxy.faults.append(Fault(self.kind, request, about or self.entity, seconds=2 * TIMEOUT))

    async def take(self, body: Callable[[Lease], Awaitable[None]] | None = None) -> bool:
        """Whether the lease was degraded; ``body`` runs in its block."""
        async with self.limiter.acquire(self.entity, "gpt-4", ONE, on_unavailable=self.policy) as lease:
            if body is not None:
                await body(lease)
        return lease.degraded

    async def warm_up(self) -> None:
        """Take one token while the store is well."""
        assert await self.take() is False

    async def follows_its_policy(self, body: Callable[[Lease], Awaitable[None]] | None = None) -> None:
        """`block` raises, and says why; `allow` lets pass, and says that it was not counted."""
        if self.policy == "allow":
            assert await self.take(body) is True
            return
        with pytest.raises(RateLimiterUnavailable) as caught:
            await self.take(body)
        assert caught.value.__cause__ is not None


@pytest.fixture
async def healthy(stage: Stage) -> RateLimiter:
    """A limiter with nothing between it and the store."""
    limiter = await stage.open()
    await limiter.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 100)])
    return limiter


@pytest.fixture
async def scenes(stage: Stage, proxy: Proxy, healthy: RateLimiter) -> list[Scene]:
    """Every kind of failure, under both policies; a process for each, so that no breaker knows of another's."""
    options = {"endpoint_url": proxy.url, "read_timeout": TIMEOUT}
    return [Scene(await stage.open(**options), proxy, kind, policy) for kind in KINDS for policy in POLICIES]


async def in_each(scenes: list[Scene], act: Callable[[Scene], Awaitable[None]]) -> None:
    """All at once; then the store is well again."""
    await asyncio.gather(*(act(scene) for scene in scenes))
    scenes[0].proxy.clear()


def tokens_consumed(stage: Stage, entity: str) -> int:
    return stage.consumed(entity, "gpt-4", "rpm") // 1000


async def test_the_first_read_fails(stage: Stage, scenes: list[Scene]) -> None:
    async def act(scene: Scene) -> None:
        scene.fail("BatchGetItem")
        await scene.follows_its_policy()

    await in_each(scenes, act)
    for scene in scenes:
        assert stage.bucket(scene.entity, "gpt-4") is None, scene


async def test_the_creation_fails(stage: Stage, scenes: list[Scene]) -> None:
    async def act(scene: Scene) -> None:
        scene.fail("PutItem")
        await scene.follows_its_policy()

    await in_each(scenes, act)
    for scene in scenes:
        assert tokens_consumed(stage, scene.entity) == (scene.kind == "late"), scene
        await scene.warm_up()
        assert tokens_consumed(stage, scene.entity) == (scene.kind == "late") + 1, scene


async def test_the_write_fails_and_is_not_repeated_where_its_answer_was_lost(stage: Stage, scenes: list[Scene]) -> None:
    async def act(scene: Scene) -> None:
        await scene.warm_up()
        scene.fail("UpdateItem")
        await scene.follows_its_policy()

    await in_each(scenes, act)
    for scene in scenes:
        assert tokens_consumed(stage, scene.entity) == 1 + (scene.kind == "late"), scene


@pytest.fixture
async def families(scenes: list[Scene], healthy: RateLimiter) -> list[Scene]:
    """The scenes, each with a parent that its entity cascades to; nobody has a bucket."""
    for scene in scenes:
        await healthy.create_entity(scene.parent)
        await healthy.create_entity(scene.entity, parent_id=scene.parent, cascade=True)
    return scenes


async def test_the_creation_of_a_child_and_its_parent_fails(stage: Stage, families: list[Scene]) -> None:
    async def act(scene: Scene) -> None:
        scene.fail("TransactWriteItems")
        scene.fail("PutItem")  # where the transaction certainly was not applied, each side is tried by itself
        await scene.follows_its_policy()

    await in_each(families, act)
    for scene in families:
        counts = [tokens_consumed(stage, entity) for entity in (scene.entity, scene.parent)]
        assert counts == [scene.kind == "late"] * 2, scene


@pytest.mark.parametrize("failing", ["child", "parent"])
async def test_one_side_of_a_cascade_fails_and_the_other_is_given_back(
    stage: Stage, families: list[Scene], failing: str
) -> None:
    async def act(scene: Scene) -> None:
        await scene.warm_up()
        scene.fail("UpdateItem", f"BUCKET#{scene.entity if failing == 'child' else scene.parent}#")
        await scene.follows_its_policy()

    await in_each(families, act)
    for scene in families:
        sides = {"child": scene.entity, "parent": scene.parent}
        counts = {side: tokens_consumed(stage, entity) for side, entity in sides.items()}
        assert counts.pop(failing) == 1 + (scene.kind == "late"), scene
        assert list(counts.values()) == [1], scene


async def test_a_consume_in_the_block_fails(stage: Stage, scenes: list[Scene]) -> None:
    async def act(scene: Scene) -> None:
        async def body(lease: Lease) -> None:
            scene.fail("UpdateItem")
            lease.keep()
            await lease.consume(rpm=5)

        await scene.follows_its_policy(body)

    await in_each(scenes, act)
    for scene in scenes:
        assert tokens_consumed(stage, scene.entity) == 1 + 5 * (scene.kind == "late"), scene


@pytest.mark.parametrize("amount", [5, -1])
async def test_an_adjust_fails(stage: Stage, scenes: list[Scene], amount: int) -> None:
    async def act(scene: Scene) -> None:
        async def body(lease: Lease) -> None:
            scene.fail("UpdateItem")
            await lease.adjust(rpm=amount)

        await scene.follows_its_policy(body)

    await in_each(scenes, act)
    for scene in scenes:
        assert tokens_consumed(stage, scene.entity) == 1 + amount * (scene.kind == "late"), scene


async def test_a_rollback_fails_and_the_error_of_the_block_goes_on(stage: Stage, scenes: list[Scene]) -> None:
    async def act(scene: Scene) -> None:
        async def body(lease: Lease) -> None:
            scene.fail("UpdateItem")
            raise KeyError("the block's own")

        with pytest.raises(KeyError, match="the block's own"):
            await scene.take(body)

    await in_each(scenes, act)
    for scene in scenes:
        assert tokens_consumed(stage, scene.entity) == (scene.kind != "late"), scene


async def test_one_throttled_request_is_asked_again_and_nobody_notices(stage: Stage, scenes: list[Scene]) -> None:
    scene, proxy = scenes[0], scenes[0].proxy
    for request in ("BatchGetItem", "PutItem"):
        proxy.faults.append(Fault("throttle", request, times=1))
    await scene.warm_up()
    proxy.faults.append(Fault("throttle", "UpdateItem", times=2))
    await scene.warm_up()
    assert all(fault.times == 0 for fault in proxy.faults)
    assert tokens_consumed(stage, scene.entity) == 2


async def test_a_read_whose_answer_was_lost_is_asked_again_once(stage: Stage, scenes: list[Scene]) -> None:
    scene = scenes[0]
    opened = len(scene.proxy.calls)
    scene.proxy.faults.append(Fault("drop", "BatchGetItem", times=1))
    await scene.warm_up()
    assert [call.request for call in scene.proxy.calls[opened:]].count("BatchGetItem") == 2


async def test_limits_that_cannot_be_read_again_hold_while_the_bucket_answers(
    stage: Stage, healthy: RateLimiter, proxy: Proxy
) -> None:
    clock = ManualClock()
    limiter = await stage.open(endpoint_url=proxy.url, read_timeout=TIMEOUT, clock=clock, config_cache_ttl=5)
    scene = Scene(limiter, proxy, "drop", "block")
    await scene.warm_up()
    clock.advance(6)
    scene.fail("BatchGetItem")
    await scene.warm_up()
    assert tokens_consumed(stage, scene.entity) == 2


@pytest.mark.parametrize("policy", POLICIES)
async def test_nobody_listens(stage: Stage, scenes: list[Scene], policy: OnUnavailable) -> None:
    scene = replace(scenes[0], policy=policy)
    await scene.warm_up()
    scene.proxy.stop()
    await scene.follows_its_policy()
    with pytest.raises(RateLimiterUnavailable):
        await scene.limiter.available(scene.entity, "gpt-4")
    assert tokens_consumed(stage, scene.entity) == 1


async def test_the_call_then_the_system_then_the_repository_says_what_to_do(
    stage: Stage, healthy: RateLimiter, proxy: Proxy
) -> None:
    told = await stage.open(endpoint_url=proxy.url, read_timeout=TIMEOUT, on_unavailable="allow")
    proxy.faults = [Fault("drop", "BatchGetItem")]
    async with told.acquire("key", "gpt-4", ONE) as lease:
        assert lease.degraded
    proxy.clear()
    await healthy.set_system_defaults([Limit.per_minute("rpm", 100)], on_unavailable="block")
    async with told.acquire("key", "gpt-4", ONE) as lease:
        assert not lease.degraded
    proxy.faults = [Fault("drop", "UpdateItem")]
    with pytest.raises(RateLimiterUnavailable):
        async with told.acquire("key", "gpt-4", ONE):
            pytest.fail("the system config says block")
    async with told.acquire("key", "gpt-4", ONE, on_unavailable="allow") as lease:
        assert (lease.degraded, lease.statuses, lease.consumed) == (True, [], ONE)
