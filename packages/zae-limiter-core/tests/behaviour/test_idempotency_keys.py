"""A credit or a reset with an idempotency key is made once, in both variants."""

from typing import Any

import pytest

from support.core.worlds import World, outcomes, take
from zae_limiter import Limit, RateLimiterUnavailable, ValidationError
from zae_limiter.operations.errors import OutcomeUnknown
from zae_limiter.operations.values import Get, Item, Key, Transact
from zae_limiter.schema import keys

CREDITS = Limit.total("credits", 500, burst=10_000)
RPM = Limit.per_minute("rpm", 60)
DAY = 24 * 3600


def stored(world: World, namespace_id: str, key: str) -> Item | None:
    pk, sk = keys.pk_idempotency(namespace_id, "acme"), keys.sk_idempotency("gpt-4", key)
    found: Item | None = world.table.execute(Get(Key(pk, sk)))
    return found


async def opened(world: World, *limits: Limit) -> Any:
    limiter, _ = await world.process(default_limits=[*(limits or (CREDITS,))])
    await take(limiter, "acme", "gpt-4", **{(limits or (CREDITS,))[0].name: 50})
    return limiter


async def test_a_repeat_changes_nothing_and_returns_what_the_first_returned(world: World) -> None:
    limiter = await opened(world)
    for _ in range(3):
        assert await limiter.repository.credit_bucket("acme", "gpt-4", {"credits": 100}, idempotency_key="invoice-77")
    assert await limiter.available("acme", "gpt-4") == {"credits": 550}
    events = (await limiter.repository.get_audit_events("acme")).events
    after = {"credited": {"credits": 100}, "available": {"credits": 550}, "idempotency_key": "invoice-77"}
    assert [event.after for event in events] == [after]


async def test_a_reset_is_made_once_too(world: World) -> None:
    limiter = await opened(world, RPM)
    assert await limiter.repository.reset_bucket("acme", "gpt-4", idempotency_key="ticket-1")
    await take(limiter, "acme", "gpt-4", rpm=20)
    assert await limiter.repository.reset_bucket("acme", "gpt-4", idempotency_key="ticket-1")
    assert await limiter.available("acme", "gpt-4") == {"rpm": 40}
    [event] = (await limiter.repository.get_audit_events("acme")).events
    assert event.after == {"available": {"rpm": 60}, "idempotency_key": "ticket-1"}


async def test_a_key_that_stands_for_something_else_is_one_error_and_nothing_is_written(world: World) -> None:
    limiter, wire = await world.process(default_limits=[CREDITS])
    await take(limiter, "acme", "gpt-4", credits=50)
    repository = limiter.repository
    await repository.credit_bucket("acme", "gpt-4", {"credits": 100}, idempotency_key="invoice-77")
    wire.sent()
    said = "idempotency_key 'invoice-77': stands for a credit of 100 credits of acme/gpt-4, not for {}: take another"
    with pytest.raises(ValidationError) as other_amount:
        await repository.credit_bucket("acme", "gpt-4", {"credits": 101}, idempotency_key="invoice-77")
    assert str(other_amount.value) == said.format("a credit of 101 credits") + " key"
    with pytest.raises(ValidationError) as other_change:
        await repository.reset_bucket("acme", "gpt-4", idempotency_key="invoice-77")
    assert str(other_change.value) == said.format("a reset") + " key"
    assert wire.sent() == ["Get", "Get"]


async def test_a_key_is_of_one_bucket(world: World) -> None:
    limiter = await opened(world)
    await take(limiter, "acme", "gpt-5", credits=50)
    for resource in ("gpt-4", "gpt-5"):
        assert await limiter.repository.credit_bucket("acme", resource, {"credits": 1}, idempotency_key="k")
        assert await limiter.available("acme", resource) == {"credits": 451}


async def test_a_credit_without_a_bucket_leaves_the_key_free(world: World) -> None:
    limiter, _ = await world.process(default_limits=[CREDITS])
    assert not await limiter.repository.credit_bucket("acme", "gpt-4", {"credits": 5}, idempotency_key="k")
    assert stored(world, limiter.repository.namespace_id, "k") is None
    await take(limiter, "acme", "gpt-4", credits=50)
    assert await limiter.repository.credit_bucket("acme", "gpt-4", {"credits": 6}, idempotency_key="k")
    assert await limiter.available("acme", "gpt-4") == {"credits": 456}


@pytest.mark.parametrize("removed", [True, False], ids=["removed", "still in the table"])
async def test_a_key_is_kept_for_30_days(world: World, *, removed: bool) -> None:
    limiter = await opened(world)
    repository = limiter.repository
    for day, left in ((0, 460), (29.9, 460), (0.2, 470), (0.2, 470)):
        world.clock.advance(seconds=day * DAY)
        if removed:
            world.expire()
        assert await repository.credit_bucket("acme", "gpt-4", {"credits": 10}, idempotency_key="k")
        assert await limiter.available("acme", "gpt-4") == {"credits": left}


async def test_repeats_at_the_same_time_make_the_change_once(world: World) -> None:
    processes = [await world.process(default_limits=[CREDITS]) for _ in range(4)]
    await take(processes[0].limiter, "acme", "gpt-4", credits=50)
    repeats = [
        each.repository.credit_bucket("acme", "gpt-4", {"credits": 10}, idempotency_key="k") for each in processes * 5
    ]
    assert await outcomes(*repeats) == [True] * 20
    assert await processes[0].limiter.available("acme", "gpt-4") == {"credits": 460}


async def test_a_caller_who_never_got_the_answer_repeats_without_harm(world: World) -> None:
    limiter, wire = await world.process(default_limits=[CREDITS])
    await take(limiter, "acme", "gpt-4", credits=50)
    wire.break_down(OutcomeUnknown("lost"), on=Transact, applied=True)
    with pytest.raises(RateLimiterUnavailable):
        await limiter.repository.credit_bucket("acme", "gpt-4", {"credits": 10}, idempotency_key="k")
    wire.repair()
    assert await limiter.repository.credit_bucket("acme", "gpt-4", {"credits": 10}, idempotency_key="k")
    assert await limiter.available("acme", "gpt-4") == {"credits": 460}


async def test_every_shard_gets_its_part_once(world: World) -> None:
    from support.core.shards import split

    limiter = await opened(world)
    split(world, limiter, "acme", "gpt-4")
    for _ in range(2):
        assert await limiter.repository.credit_bucket("acme", "gpt-4", {"credits": 11}, idempotency_key="k")
    assert await limiter.available("acme", "gpt-4") == {"credits": 461}


@pytest.mark.parametrize("key", ["", " ", "a b", "a\n", "x" * 257, "ü" * 200, 7, b"k", True], ids=repr)
async def test_a_bad_key_is_refused_before_any_request(world: World, key: Any) -> None:
    limiter, wire = await world.process(default_limits=[CREDITS])
    for call in (
        limiter.repository.credit_bucket("acme", "gpt-4", {"credits": 1}, idempotency_key=key),
        limiter.repository.reset_bucket("acme", "gpt-4", idempotency_key=key),
    ):
        with pytest.raises(ValidationError, match=r"^idempotency_key"):
            await call
    assert wire.sent() == []


@pytest.mark.parametrize("key", ["a#b", "gpt-4#k", "../x", "$SYSTEM", "é", "e\u0301", "%23", "x" * 256], ids=repr)
async def test_untrusted_text_makes_a_key_of_its_own(world: World, key: str) -> None:
    limiter = await opened(world)
    for _ in range(2):
        assert await limiter.repository.credit_bucket("acme", "gpt-4", {"credits": 1}, idempotency_key=key)
    assert await limiter.repository.credit_bucket("acme", "gpt-4", {"credits": 1}, idempotency_key="another")
    assert await limiter.available("acme", "gpt-4") == {"credits": 452}


async def test_without_a_key_nothing_is_new(world: World) -> None:
    limiter, wire = await world.process(default_limits=[CREDITS])
    await take(limiter, "acme", "gpt-4", credits=50)
    wire.sent()
    for _ in range(2):
        await limiter.repository.credit_bucket("acme", "gpt-4", {"credits": 1})
    assert wire.sent() == ["BatchGet", "Transact"] * 2
    assert await limiter.available("acme", "gpt-4") == {"credits": 452}
