"""What lives here: what stays consumed when an acquire or its block does not go well, on a store that does.
What never does: a store that fails (test_failures).
"""

import asyncio

import pytest

from support.integration.harness import Harness
from support.integration.proxy import Fault, Proxy
from zae_limiter import Limit, RateLimiter, RateLimitExceeded
from zae_limiter.operations.values import Delete

pytestmark = pytest.mark.needs("atomic")

A_DAY = 86_400
RPM = Limit.custom("rpm", 10, refill_amount=1, refill_period=A_DAY)


async def limits(limiter: RateLimiter) -> RateLimiter:
    await limiter.set_resource_defaults("gpt-4", [RPM])
    return limiter


@pytest.fixture
async def limiter(harness: Harness) -> RateLimiter:
    """Ten tokens for everybody, and none comes back while a test looks; a child of a parent."""
    limiter = await limits(await harness.open())
    await limiter.create_entity("project")
    await limiter.create_entity("key", parent_id="project", cascade=True)
    return limiter


async def take(limiter: RateLimiter, entity: str, amount: int = 1) -> None:
    async with limiter.acquire(entity, "gpt-4", {"rpm": amount}):
        pass


def consumed(harness: Harness, *entities: str) -> list[int]:
    return [harness.consumed(entity, "gpt-4", "rpm") // 1000 for entity in entities]


@pytest.mark.parametrize("warm", [True, False])
async def test_a_child_whose_parent_is_exhausted_keeps_its_tokens(
    harness: Harness, limiter: RateLimiter, *, warm: bool
) -> None:
    if warm:
        await take(limiter, "key", 3)
    used = 3 if warm else 0
    await take(await harness.open(), "project", 10 - used)
    with pytest.raises(RateLimitExceeded) as caught:
        await take(limiter, "key")
    assert [(status.entity_id, status.exceeded) for status in caught.value.statuses] == [
        ("key", False),
        ("project", True),
    ]
    assert consumed(harness, "key", "project") == [used, 10]
    assert await limiter.available("key", "gpt-4") == {"rpm": 10 - used}


async def test_a_parent_whose_child_is_exhausted_keeps_its_tokens(harness: Harness, limiter: RateLimiter) -> None:
    await take(limiter, "key", 4)
    other = await harness.open()
    await other.set_limits("key", [RPM], "gpt-4")
    await take(other, "key", 6)
    await other.set_limits("project", [Limit.custom("rpm", 50, refill_amount=1, refill_period=A_DAY)], "gpt-4")
    with pytest.raises(RateLimitExceeded):
        await take(await harness.open(), "key")
    assert consumed(harness, "key", "project") == [10, 10]


async def test_a_body_that_fails_gives_back_all_it_took_and_drops_its_adjusts(
    harness: Harness, limiter: RateLimiter
) -> None:
    async def body() -> None:
        async with limiter.acquire("key", "gpt-4", {"rpm": 2}) as lease:
            await lease.consume(rpm=3)
            await lease.adjust(rpm=4)
            assert consumed(harness, "key", "project") == [5, 5]
            raise KeyError

    with pytest.raises(KeyError):
        await body()
    assert consumed(harness, "key", "project") == [0, 0]
    assert await limiter.available("project", "gpt-4") == {"rpm": 10}


async def test_a_body_that_is_cancelled_gives_back(harness: Harness, limiter: RateLimiter) -> None:
    inside = asyncio.Event()

    async def body() -> None:
        async with limiter.acquire("key", "gpt-4", {"rpm": 2}):
            inside.set()
            await asyncio.sleep(60)

    task = asyncio.create_task(body())
    await inside.wait()
    assert consumed(harness, "key", "project") == [2, 2]
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert consumed(harness, "key", "project") == [0, 0]


async def test_a_lease_that_is_kept_keeps_what_it_took_when_its_body_fails(
    harness: Harness, limiter: RateLimiter
) -> None:
    async def body() -> None:
        async with limiter.acquire("key", "gpt-4", {"rpm": 2}) as lease:
            lease.keep()
            await lease.adjust(rpm=1)
            raise KeyError

    with pytest.raises(KeyError):
        await body()
    with pytest.raises(KeyError):
        async with limiter.acquire("key", "gpt-4", {"rpm": 4}, rollback=False):
            raise KeyError
    assert consumed(harness, "key", "project") == [7, 7]


@pytest.mark.parametrize("ending", ["release", "adjust down", "failure"])
async def test_giving_back_to_a_bucket_that_expired_creates_no_item(
    harness: Harness, limiter: RateLimiter, ending: str
) -> None:
    try:
        async with limiter.acquire("user", "gpt-4", {"rpm": 5}) as lease:
            harness.perform(Delete(harness.key("user", "gpt-4")))
            if ending == "failure":
                raise KeyError
            await (lease.release(rpm=2) if ending == "release" else lease.adjust(rpm=-2))
    except KeyError:
        assert ending == "failure"
    assert harness.bucket("user", "gpt-4") is None
    await take(limiter, "user", 10)


@pytest.mark.needs("endpoint")
@pytest.mark.parametrize("variant", ["async"], indirect=True)
@pytest.mark.parametrize("others", [0, 3])
async def test_an_acquire_that_is_cancelled_under_its_write_gives_back(
    harness: Harness, limiter: RateLimiter, proxy: Proxy, others: int
) -> None:
    await take(limiter, "user")
    slow = await harness.open(endpoint_url=proxy.url)
    await take(slow, "user")
    fault = Fault("late", "UpdateItem", times=1, seconds=1)
    proxy.faults = [fault]
    tasks = [asyncio.create_task(take(slow, "user", 2)) for _ in range(1 + others)]
    while fault.times:  # noqa: ASYNC110 - until the write is there
        await asyncio.sleep(0.01)
    tasks[0].cancel()
    done = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(done[0], asyncio.CancelledError)
    assert done[1:] == [None] * others
    await slow.close()
    assert consumed(harness, "user") == [2 + 2 * others]
