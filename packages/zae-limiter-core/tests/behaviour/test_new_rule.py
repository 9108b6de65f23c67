"""What another kind of limit needs: a rule in ``rules``, and its name in ``Kind``. No flow knows the difference.

The rule of this test gives the whole burst back at each full hour.
"""

from dataclasses import dataclass
from typing import cast

import pytest

from support.core.shards import shard_items, split_into
from support.core.worlds import World, drain, passes, take
from zae_limiter import Limit, RateLimiter, RateLimitExceeded, http
from zae_limiter.engines.dynamodb.images import BucketImages
from zae_limiter.engines.dynamodb.marshal import write_item
from zae_limiter.rules.registry import RULES
from zae_limiter.rules.rule import Rule
from zae_limiter.values import limits
from zae_limiter.values.limits import MILLI
from zae_limiter.values.named_limits import KINDS, Kind

HOURLY = cast("Kind", "hourly")
HOUR_MS = 3_600_000


@dataclass(frozen=True, slots=True)
class Steps(Rule):
    """The whole burst at each full hour."""

    burst_milli: int

    def minted(self, t_ms: int) -> int:
        return self.burst_milli * (t_ms // HOUR_MS)

    def reached(self, minted_milli: int) -> int:
        return -(-minted_milli // self.burst_milli) * HOUR_MS


@pytest.fixture(autouse=True)
def a_new_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """Register the rule: what a developer would write into ``named_limits.Kind`` and ``rules.registry``."""
    monkeypatch.setattr(limits, "KINDS", (*KINDS, HOURLY))
    monkeypatch.setitem(RULES, HOURLY, lambda limit: Steps(limit._ceiling_milli))


@pytest.fixture
def rpm() -> Limit:
    return Limit.custom("rpm", 12, refill_period=3600, kind=HOURLY)


def left_of_hour(world: World) -> float:
    """Seconds to the next full hour."""
    return (HOUR_MS - world.clock.now_ms() % HOUR_MS) / 1000


async def refusal(limiter: RateLimiter, amount: int = 1) -> RateLimitExceeded:
    with pytest.raises(RateLimitExceeded) as caught:
        await take(limiter, "e", "r", rpm=amount)
    return caught.value


async def test_the_burst_comes_back_at_the_full_hour_and_not_before(world: World, rpm: Limit) -> None:
    limiter, _ = await world.process(default_limits=[rpm])
    world.clock.advance(left_of_hour(world) - 600)
    assert await drain(limiter, "e", "r", "rpm") == 12
    world.clock.advance(599)
    assert not await passes(limiter, "e", "r", rpm=1)
    world.clock.advance(1)
    assert await limiter.available("e", "r") == {"rpm": 12}
    assert await drain(limiter, "e", "r", "rpm") == 12
    world.clock.advance(30 * 3600)
    assert await drain(limiter, "e", "r", "rpm") == 12


async def test_a_refusal_and_its_headers_name_the_full_hour(world: World, rpm: Limit) -> None:
    limiter, _ = await world.process(default_limits=[rpm])
    await take(limiter, "e", "r", rpm=11)
    refused, left = await refusal(limiter, 5), left_of_hour(world)
    [status] = refused.statuses
    assert (status.limit, status.available, status.exceeded) == (rpm, 1, True)
    assert status.retry_after_seconds == refused.retry_after_seconds == status.next_token_seconds == left
    assert await limiter.time_until_available("e", "r", {"rpm": 5}) == left
    assert http.headers(refused) == {
        "RateLimit-Policy": '"rpm";q=12;w=3600',
        "RateLimit": f'"rpm";r=1;t={-(-left // 1):.0f}',
        "Retry-After": f"{-(-left // 1):.0f}",
        "x-should-retry": "false",
    }
    assert (await refusal(limiter, 13)).retry_after_header is None


async def test_a_lease_tells_how_the_limit_stands(world: World, rpm: Limit) -> None:
    limiter, _ = await world.process(default_limits=[rpm])
    async with limiter.acquire("e", "r", {"rpm": 2}) as lease:
        [status] = lease.statuses
        assert (status.available, status.next_token_seconds) == (10, left_of_hour(world))
        await lease.adjust(rpm=3)
    assert await limiter.available("e", "r") == {"rpm": 7}


async def test_a_caller_that_waits_is_served_at_the_full_hour(world: World, rpm: Limit) -> None:
    limiter, _ = await world.process(default_limits=[rpm])
    await take(limiter, "e", "r", rpm=12)
    left = left_of_hour(world)
    async with limiter.acquire("e", "r", {"rpm": 1}, max_wait=7200) as lease:
        assert left <= lease.waited < left + 1


async def test_the_shards_have_their_shares_of_each_hour(world: World, rpm: Limit) -> None:
    limiter, _ = await world.process(default_limits=[rpm])
    world.clock.advance(left_of_hour(world) - 600)
    await take(limiter, "e", "r", rpm=4)
    split_into(world, limiter, 4)
    assert await drain(limiter, "e", "r", "rpm") == 8
    assert (await refusal(limiter)).retry_after_seconds == left_of_hour(world) == 600
    world.clock.advance(600)
    assert await drain(limiter, "e", "r", "rpm") == 12


async def test_stored_limits_and_buckets_keep_their_kind(world: World, rpm: Limit) -> None:
    writer, reader = await world.process(), await world.process()
    await writer.repository.set_limits("e", [rpm], "r")
    await take(writer.limiter, "e", "r", rpm=1)
    assert await reader.repository.get_limits("e", "r") == [rpm]
    bucket = await reader.repository.get_bucket("e", "r")
    assert bucket is not None
    assert [each.limit for each in bucket.limits] == [rpm]
    assert await drain(reader.limiter, "e", "r", "rpm") == 11
    [item] = shard_items(world, reader.limiter).values()
    assert BucketImages().read("", write_item(item)) == item


async def test_a_bucket_changes_its_kind_with_its_config(world: World, rpm: Limit) -> None:
    limiter, _ = await world.process()
    even = Limit.per_hour("rpm", 12)
    for limit, left in ((rpm, 12), (even, 0), (rpm, 0)):
        assert await _drained(limiter, [limit]) == left
        [item] = shard_items(world, limiter).values()
        assert item.get("b_rpm_kd") == (HOURLY if limit is rpm else None)


async def test_an_idle_bucket_lives_until_it_is_full(world: World, rpm: Limit) -> None:
    limiter, _ = await world.process(default_limits=[rpm], bucket_ttl_multiplier=1)
    await take(limiter, "e", "r", rpm=12)
    [item] = shard_items(world, limiter).values()
    assert item["ttl"] * MILLI >= world.clock.now_ms() + left_of_hour(world) * MILLI


def test_a_limit_is_what_its_plain_values_say(rpm: Limit) -> None:
    assert rpm.to_dict()["kind"] == HOURLY
    assert Limit.from_dict(rpm.to_dict()) == rpm


async def _drained(limiter: RateLimiter, given: list[Limit]) -> int:
    admitted = 0
    try:
        while True:
            async with limiter.acquire("e", "r", {"rpm": 1}, given):
                admitted += 1
    except RateLimitExceeded:
        return admitted
