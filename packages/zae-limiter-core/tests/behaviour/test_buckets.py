"""How buckets stand: what a read of them says, over all shards and all entities; in both variants."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.core.owners import maintenance_of, owner_of
from support.core.shards import split
from support.core.worlds import World, passes, take
from zae_limiter import Limit, RateLimiter, ValidationError
from zae_limiter.flows.bucket.reading import get_buckets, get_resource_capacity
from zae_limiter.flows.steps import play
from zae_limiter.operations.values import BatchGet, Delete, Key, Operation, Query
from zae_limiter.schema import keys
from zae_limiter.values.buckets import Bucket, BucketLimit, LimitCapacity

RPM = Limit.per_minute("rpm", 60)
TPM = Limit.per_minute("tpm", 6_000, burst=9_000)


async def test_a_bucket_tells_what_is_left_what_was_consumed_and_when_it_goes(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM, TPM])
    await take(limiter, "e", "r", rpm=20, tpm=500)
    made_ms = world.clock.now_ms()
    world.clock.advance(seconds=5)
    bucket = await limiter.repository.get_bucket("e", "r")
    assert bucket is not None
    assert (bucket.entity_id, bucket.resource, bucket.shard_count, bucket.anchor_ms) == ("e", "r", 1, made_ms)
    assert bucket.limits == (BucketLimit(RPM, 45, 20), BucketLimit(TPM, 9_000, 500))
    assert bucket.available == await limiter.available("e", "r")
    item = world.bucket_of(limiter, "e", "r")
    assert item is not None
    assert bucket.expires_at_ms == item["ttl"] * 1000


async def test_debt_is_negative(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        await lease.adjust(rpm=99)
    bucket = await limiter.repository.get_bucket("e", "r")
    assert bucket is not None
    assert bucket.limits == (BucketLimit(RPM, -40, 100),)


async def test_where_there_is_no_bucket_there_is_nothing(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    repository = limiter.repository
    await take(limiter, "e", "r", rpm=1)
    assert await repository.get_bucket("e", "other") is None
    assert await repository.get_bucket("other", "r") is None
    assert await repository.get_buckets("other") == []
    assert await repository.get_buckets("e", "other") == []
    capacity = await repository.get_resource_capacity("other")
    assert (capacity.limits, capacity.entities) == ((), 0)


async def test_a_bucket_with_limits_of_the_entitys_own_does_not_expire(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_limits("e", [RPM])
    await take(limiter, "e", "r", rpm=1)
    bucket = await limiter.repository.get_bucket("e", "r")
    assert bucket is not None
    assert bucket.expires_at_ms is None


async def test_the_shards_of_a_bucket_are_summed(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM, TPM])
    await take(limiter, "e", "r", rpm=21, tpm=501)
    split(world, limiter, "e", "r")
    bucket = await limiter.repository.get_bucket("e", "r")
    assert bucket is not None
    assert bucket.shard_count == 2
    assert bucket.limits == (BucketLimit(RPM, 39, 21), BucketLimit(TPM, 8_499, 501))
    assert await limiter.repository.get_buckets("e") == [bucket]
    assert await maintenance_of(limiter.repository).get_buckets_at([("nobody", "r"), ("e", "r")]) == [bucket]
    capacity = await limiter.repository.get_resource_capacity("r")
    assert capacity.limits == (LimitCapacity("rpm", 60, 39, 1), LimitCapacity("tpm", 6_000, 8_499, 1))
    assert capacity.entities == 1


async def test_the_buckets_of_an_entity_are_listed_by_resource_or_for_one(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    for resource in ("r-2", "r", "r-1"):
        await take(limiter, "e", resource, rpm=len(resource))
    await take(limiter, "e2", "r", rpm=1)
    buckets = await limiter.repository.get_buckets("e")
    assert [(bucket.resource, bucket.available) for bucket in buckets] == [
        ("r", {"rpm": 59}),
        ("r-1", {"rpm": 57}),
        ("r-2", {"rpm": 57}),
    ]
    assert await limiter.repository.get_buckets("e", "r-1") == buckets[1:2]


async def test_a_resources_capacity_is_that_of_all_entities_and_of_no_other_resource_or_namespace(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    elsewhere, _ = await world.process("elsewhere", default_limits=[RPM])
    await limiter.set_limits("rich", [Limit.per_minute("rpm", 600), TPM])
    for number in range(250):
        await take(limiter, f"e-{number}", "r", rpm=2)
    await take(limiter, "rich", "r", rpm=100, tpm=1_000)
    await take(limiter, "e-1", "r2", rpm=50)
    await take(elsewhere, "e-1", "r", rpm=50)
    capacity = await limiter.repository.get_resource_capacity("r")
    assert capacity.resource == "r"
    assert capacity.entities == 251
    assert capacity.limits == (
        LimitCapacity("rpm", 250 * 60 + 600, 250 * 58 + 500, 251),
        LimitCapacity("tpm", 6_000, 8_000, 1),
    )


async def test_one_bucket_is_one_read_and_the_others_are_read_a_hundred_at_a_time(world: World) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    for number in range(150):
        await take(limiter, f"e-{number}", "r", rpm=1)
    wire.sent()
    await limiter.repository.get_bucket("e-1", "r")
    assert wire.sent() == ["BatchGet"]
    await limiter.repository.get_buckets("e-1", "r")
    assert wire.sent() == ["BatchGet"]
    await limiter.repository.get_buckets("e-1")
    assert wire.sent() == ["Query", "BatchGet"]
    await limiter.repository.get_resource_capacity("r")
    assert wire.sent() == ["Query", "BatchGet", "BatchGet"]


async def test_a_bucket_that_goes_while_the_others_are_read_does_not_count(async_world: World) -> None:
    limiter, _ = await async_world.process(default_limits=[RPM])
    for entity in ("stays", "goes"):
        await take(limiter, entity, "r", rpm=1)
    gone = Key(keys.pk_bucket(limiter.repository.namespace_id, "goes", "r", 0), keys.sk_state())

    def perform(operation: Operation[Any]) -> object:
        if isinstance(operation, BatchGet):
            async_world.table.execute(Delete(gone))
        return async_world.table.execute(operation)

    capacity = play(get_resource_capacity(limiter.repository.namespace_state, "r"), perform)
    assert (capacity.entities, capacity.limits) == (1, (LimitCapacity("rpm", 60, 59, 1),))


async def test_pages_are_followed_to_the_end(async_world: World) -> None:
    limiter, _ = await async_world.process(default_limits=[RPM])
    for number in range(7):
        await take(limiter, f"e-{number}", "r", rpm=1)
        await take(limiter, "e", f"r-{number}", rpm=1)
    pages: list[Query] = []

    def perform(operation: Operation[Any]) -> object:
        if isinstance(operation, Query):
            pages.append(operation)
            operation = replace(operation, limit=3)
        return async_world.table.execute(operation)

    namespace_state = limiter.repository.namespace_state
    assert play(get_resource_capacity(namespace_state, "r"), perform).entities == 7
    assert len(play(get_buckets(namespace_state, "e", None), perform)) == 7
    assert len(pages) == 6


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("get_bucket", ("", "r")),
        ("get_bucket", ("e", "_default_")),
        ("get_buckets", ("e ", None)),
        ("get_buckets", ("e", "")),
        ("get_buckets_at", ([("e", "r"), ("e", "_default_")],)),
        ("get_buckets_at", ([("e",)],)),
        ("get_buckets_at", ([("e", f"r-{number}") for number in range(1001)],)),
        ("get_resource_capacity", ("1 ",)),
    ],
)
async def test_bad_names_are_refused_before_any_request(world: World, method: str, arguments: tuple[Any, ...]) -> None:
    limiter, wire = await world.process()
    with pytest.raises(ValidationError):
        await getattr(owner_of(method, limiter.repository), method)(*arguments)
    assert wire.sent() == []


def at(world: World, **later: float) -> datetime:
    return datetime.fromtimestamp(world.clock.now_ms() / 1000, UTC) + timedelta(**later)


async def shown(limiter: RateLimiter, entity: str, resource: str) -> list[Bucket]:
    """Return a bucket as each of the reads shows it."""
    repository = limiter.repository
    listed = [each for each in (await repository.list_buckets(resource)).buckets if each.entity_id == entity]
    one = await repository.get_bucket(entity, resource)
    assert one is not None
    return [
        one,
        *await repository.get_buckets(entity),
        *await maintenance_of(repository).get_buckets_at([(entity, resource)]),
        *listed,
    ]


async def test_a_bucket_that_was_told_of_other_limits_shows_those_before_the_next_call(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    operator, _ = await world.process()
    await limiter.set_limits("e", [RPM, TPM], "r")
    await take(limiter, "e", "r", rpm=15, tpm=500)
    await shown(operator, "e", "r")  # which this process remembers for a minute
    await limiter.set_limits("e", [Limit.per_minute("rpm", 30), TPM], "r")
    smaller = await shown(operator, "e", "r")
    assert [each.limits[0] for each in smaller] == [BucketLimit(Limit.per_minute("rpm", 30), 30, 15)] * 4
    assert [each.limits[1].limit for each in smaller] == [TPM] * 4
    await limiter.set_limits("e", [Limit.per_minute("rpm", 0)], "r", override_until=at(world, hours=1))
    blocked = await shown(operator, "e", "r")
    assert [each.limits for each in blocked] == [(BucketLimit(Limit.per_minute("rpm", 0), 0, 15),)] * 4


async def test_a_block_that_has_ended_and_a_limit_that_was_taken_away_are_not_shown(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_limits("e", [RPM, TPM], "r")
    await limiter.set_limits("e", [Limit.per_minute("rpm", 0), TPM], "r", override_until=at(world, minutes=1))
    await take(limiter, "e", "r", tpm=1)
    world.clock.advance(seconds=10)
    await take(limiter, "e", "r", tpm=1)
    assert [each.available["rpm"] for each in await shown(limiter, "e", "r")] == [0] * 4
    world.clock.advance(seconds=61)
    assert [each.limits[0].limit for each in await shown(limiter, "e", "r")] == [RPM] * 4
    assert [each.available for each in await shown(limiter, "e", "r")] == [await limiter.available("e", "r")] * 4
    assert not await passes(limiter, "e", "r", rpm=1)  # the bucket begins empty
    world.clock.advance(seconds=2)
    await take(limiter, "e", "r", rpm=1, tpm=1)
    await limiter.set_limits("e", [RPM], "r")
    assert [{*each.available} for each in await shown(limiter, "e", "r")] == [{"rpm"}] * 4


async def test_limits_that_a_call_passes_are_shown_whatever_the_levels_have(world: World) -> None:
    limiter, wire = await world.process()
    await limiter.set_resource_defaults("r", [RPM])
    async with limiter.acquire("e", "r", {"rpm": 1}, limits=[Limit.per_minute("rpm", 600)]):
        pass
    assert [each.available for each in await shown(limiter, "e", "r")] == [{"rpm": 599}] * 4
    wire.sent()
    await limiter.repository.get_bucket("e", "r")
    assert wire.sent() == ["BatchGet"]


async def test_a_bucket_of_several_shards_that_was_told_shows_the_sum(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_limits("e", [RPM, TPM], "r")
    await take(limiter, "e", "r", rpm=21, tpm=501)
    split(world, limiter, "e", "r")
    await limiter.set_limits("e", [Limit.per_minute("rpm", 31), TPM], "r")
    [one, *others] = await shown(limiter, "e", "r")
    assert others == [one] * 3
    assert one.available == await limiter.available("e", "r")
    assert (one.shard_count, one.limits[0].limit.burst, one.limits[0].consumed) == (2, 31, 21)


async def test_a_told_bucket_costs_one_read_more_which_is_remembered(world: World) -> None:
    limiter, _ = await world.process()
    operator, wire = await world.process()
    await limiter.set_limits("e", [RPM], "r")
    await take(limiter, "e", "r", rpm=1)
    await limiter.set_limits("e", [TPM], "r")
    world.clock.advance(seconds=3)
    wire.sent()
    for requests in (["BatchGet", "BatchGet"], ["BatchGet"], ["BatchGet"]):
        await operator.repository.get_bucket("e", "r")
        assert wire.sent() == requests
    world.clock.advance(seconds=61)
    await operator.repository.get_bucket("e", "r")
    assert wire.sent() == ["BatchGet", "BatchGet"]
