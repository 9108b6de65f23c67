"""What lives here: the store away, slow or throttling at each step, and what `block` and `allow` make of it.
What never does: a store that answers (test_leases).
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

import pytest

from support.integration.clocks import START_MS
from support.integration.harness import Harness
from support.integration.proxy import Fault, Kind, Proxy
from zae_limiter import Lease, Limit, OnUnavailable, RateLimiter, RateLimiterUnavailable
from zae_limiter.testing import ManualClock

pytestmark = pytest.mark.needs("endpoint", "atomic")

TIMEOUT = 2.0  # a store that is well answers in time on a busy machine, too; two of them are within a call's budget
KINDS: tuple[Kind, ...] = ("drop", "throttle", "late")
POLICIES = (OnUnavailable.BLOCK, OnUnavailable.ALLOW)
ONE = {"rpm": 1}


@dataclass(frozen=True, slots=True)
class ApiCase:
    """One entity for whom one request fails in one way, under one policy."""

    limiter: RateLimiter
    proxy: Proxy
    kind: Kind
    policy: OnUnavailable

    @property
    def entity(self) -> str:
        """An id that no other api_case's begins with."""
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
async def healthy(harness: Harness) -> RateLimiter:
    """A limiter with nothing between it and the store."""
    limiter = await harness.open()
    await limiter.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 100)])
    return limiter


@pytest.fixture
async def api_cases(harness: Harness, proxy: Proxy, healthy: RateLimiter) -> list[ApiCase]:
    """Every kind of failure, under both policies; a process for each, so that no breaker knows of another's."""
    return [
        ApiCase(await harness.open(endpoint_url=proxy.url, read_timeout=TIMEOUT), proxy, kind, policy)
        for kind in KINDS
        for policy in POLICIES
    ]


async def in_each(api_cases: list[ApiCase], act: Callable[[ApiCase], Awaitable[None]]) -> None:
    """All at once; then the store is well again, and each process knows it."""
    await asyncio.gather(*(act(api_case) for api_case in api_cases))
    api_cases[0].proxy.clear()
    async with asyncio.timeout(60):
        for api_case in api_cases:
            while api_case.limiter.repository.get_store_stats().breaker == "open":  # noqa: ASYNC110 - no event tells it
                await asyncio.sleep(0.01)


def tokens_consumed(harness: Harness, entity: str) -> int:
    return harness.consumed(entity, "gpt-4", "rpm") // 1000


async def test_the_first_read_fails(harness: Harness, api_cases: list[ApiCase]) -> None:
    async def act(api_case: ApiCase) -> None:
        api_case.fail("BatchGetItem")
        await api_case.follows_its_policy()

    await in_each(api_cases, act)
    for api_case in api_cases:
        assert harness.bucket(api_case.entity, "gpt-4") is None, api_case


async def test_the_creation_fails(harness: Harness, api_cases: list[ApiCase]) -> None:
    async def act(api_case: ApiCase) -> None:
        api_case.fail("PutItem")
        await api_case.follows_its_policy()

    await in_each(api_cases, act)
    for api_case in api_cases:
        assert tokens_consumed(harness, api_case.entity) == (api_case.kind == "late"), api_case
        await api_case.warm_up()
        assert tokens_consumed(harness, api_case.entity) == (api_case.kind == "late") + 1, api_case


async def test_the_write_fails_and_is_not_repeated_where_its_answer_was_lost(
    harness: Harness, api_cases: list[ApiCase]
) -> None:
    async def act(api_case: ApiCase) -> None:
        await api_case.warm_up()
        api_case.fail("UpdateItem")
        await api_case.follows_its_policy()

    await in_each(api_cases, act)
    for api_case in api_cases:
        assert tokens_consumed(harness, api_case.entity) == 1 + (api_case.kind == "late"), api_case


@pytest.fixture
async def families(api_cases: list[ApiCase], healthy: RateLimiter) -> list[ApiCase]:
    """The api_cases, each with a parent that its entity cascades to; nobody has a bucket."""
    for api_case in api_cases:
        await healthy.create_entity(api_case.parent)
        await healthy.create_entity(api_case.entity, parent_id=api_case.parent, cascade=True)
    return api_cases


async def test_the_creation_of_a_child_and_its_parent_fails(harness: Harness, families: list[ApiCase]) -> None:
    async def act(api_case: ApiCase) -> None:
        api_case.fail("TransactWriteItems")
        api_case.fail("PutItem")  # where the transaction certainly was not applied, each side is tried by itself
        await api_case.follows_its_policy()

    await in_each(families, act)
    for api_case in families:
        counts = [tokens_consumed(harness, entity) for entity in (api_case.entity, api_case.parent)]
        assert counts == [api_case.kind == "late"] * 2, api_case


@pytest.mark.parametrize("failing", ["child", "parent"])
async def test_one_side_of_a_cascade_fails_and_the_other_is_given_back(
    harness: Harness, families: list[ApiCase], failing: str
) -> None:
    async def act(api_case: ApiCase) -> None:
        await api_case.warm_up()
        api_case.fail("UpdateItem", f"BUCKET#{api_case.entity if failing == 'child' else api_case.parent}#")
        await api_case.follows_its_policy()

    await in_each(families, act)
    for api_case in families:
        sides = {"child": api_case.entity, "parent": api_case.parent}
        counts = {side: tokens_consumed(harness, entity) for side, entity in sides.items()}
        assert counts.pop(failing) == 1 + (api_case.kind == "late"), api_case
        # three copies of a write without an answer open the breaker; what comes back meanwhile is lost
        assert list(counts.values()) in ([[1], [2]] if api_case.kind == "drop" else [[1]]), api_case


async def test_a_consume_in_the_block_fails(harness: Harness, api_cases: list[ApiCase]) -> None:
    async def act(api_case: ApiCase) -> None:
        async def body(lease: Lease) -> None:
            api_case.fail("UpdateItem")
            lease.keep()
            await lease.consume(rpm=5)

        await api_case.follows_its_policy(body)

    await in_each(api_cases, act)
    for api_case in api_cases:
        assert tokens_consumed(harness, api_case.entity) == 1 + 5 * (api_case.kind == "late"), api_case


@pytest.mark.parametrize("amount", [5, -1])
async def test_an_adjust_fails(harness: Harness, api_cases: list[ApiCase], amount: int) -> None:
    async def act(api_case: ApiCase) -> None:
        async def body(lease: Lease) -> None:
            api_case.fail("UpdateItem")
            await lease.adjust(rpm=amount)

        await api_case.follows_its_policy(body)

    await in_each(api_cases, act)
    for api_case in api_cases:
        assert tokens_consumed(harness, api_case.entity) == 1 + amount * (api_case.kind == "late"), api_case


async def test_a_rollback_fails_and_the_error_of_the_block_goes_on(harness: Harness, api_cases: list[ApiCase]) -> None:
    async def act(api_case: ApiCase) -> None:
        async def body(lease: Lease) -> None:
            api_case.fail("UpdateItem")
            raise KeyError("the block's own")

        with pytest.raises(KeyError, match="the block's own"):
            await api_case.take(body)

    await in_each(api_cases, act)
    for api_case in api_cases:
        assert tokens_consumed(harness, api_case.entity) == (api_case.kind != "late"), api_case


async def test_one_throttled_request_is_asked_again_and_nobody_notices(
    harness: Harness, api_cases: list[ApiCase]
) -> None:
    api_case, proxy = api_cases[0], api_cases[0].proxy
    for request in ("BatchGetItem", "PutItem"):
        proxy.faults.append(Fault("throttle", request, times=1))
    await api_case.warm_up()
    proxy.faults.append(Fault("throttle", "UpdateItem", times=2))
    await api_case.warm_up()
    assert all(fault.times == 0 for fault in proxy.faults)
    assert tokens_consumed(harness, api_case.entity) == 2


async def test_a_read_whose_answer_was_lost_is_asked_again_once(harness: Harness, api_cases: list[ApiCase]) -> None:
    api_case = api_cases[0]
    opened = len(api_case.proxy.calls)
    api_case.proxy.faults.append(Fault("drop", "BatchGetItem", times=1))
    await api_case.warm_up()
    assert [call.request for call in api_case.proxy.calls[opened:]].count("BatchGetItem") == 2


async def test_limits_that_cannot_be_read_again_hold_while_the_bucket_answers(
    harness: Harness, healthy: RateLimiter, proxy: Proxy
) -> None:
    clock = ManualClock(START_MS)
    limiter = await harness.open(endpoint_url=proxy.url, read_timeout=TIMEOUT, clock=clock, config_cache_ttl=5)
    api_case = ApiCase(limiter, proxy, "drop", OnUnavailable.BLOCK)
    await api_case.warm_up()
    clock.advance(6)
    api_case.fail("BatchGetItem")
    await api_case.warm_up()
    assert tokens_consumed(harness, api_case.entity) == 2


@pytest.mark.parametrize("policy", POLICIES)
async def test_nobody_listens(harness: Harness, api_cases: list[ApiCase], policy: OnUnavailable) -> None:
    api_case = replace(api_cases[0], policy=policy)
    await api_case.warm_up()
    api_case.proxy.stop()
    await api_case.follows_its_policy()
    with pytest.raises(RateLimiterUnavailable):
        await api_case.limiter.available(api_case.entity, "gpt-4")
    assert tokens_consumed(harness, api_case.entity) == 1


async def test_the_call_then_the_system_then_the_repository_says_what_to_do(
    harness: Harness, healthy: RateLimiter, proxy: Proxy
) -> None:
    told = await harness.open(endpoint_url=proxy.url, read_timeout=TIMEOUT, on_unavailable="allow")
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
