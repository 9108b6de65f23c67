"""Tokens given by hand: a bucket reset, or credited; in both variants."""

import asyncio
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from support.core.shards import shard_items, split, split_into
from support.core.worlds import World, drain, outcomes, passes, take, until
from zae_limiter import Limit, RateLimiter, RateLimiterUnavailable, ValidationError
from zae_limiter.operations.errors import OutcomeUnknown, Reason, Throttled, TransactionCancelled
from zae_limiter.operations.values import Delete, Key, Transact, Update
from zae_limiter.schema import keys
from zae_limiter.schema.attributes import bucket_attributes
from zae_limiter.schema.items import ONE_WRITE, WRITES
from zae_limiter.values.audit import AuditEvent

RPM = Limit.per_minute("rpm", 60)
TPM = Limit.per_minute("tpm", 6_000, burst=9_000)
GIVERS: list[tuple[str, tuple[Any, ...]]] = [("reset_bucket", ()), ("credit_bucket", ({"rpm": 60},))]
giver = pytest.mark.parametrize(("method", "arguments"), GIVERS, ids=lambda part: part if isinstance(part, str) else "")


def in_an_hour(world: World) -> datetime:
    return datetime.fromtimestamp(world.clock.now_ms() / 1000 + 3600, UTC)


async def newest_event(limiter: RateLimiter, entity_id: str = "e") -> AuditEvent:
    return (await limiter.repository.get_audit_events(entity_id)).events[0]


@giver
async def test_who_was_refused_passes_at_once_and_takes_no_more_than_there_is(
    world: World, method: str, arguments: tuple[Any, ...]
) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    assert await drain(limiter, "e", "r", "rpm") == 60
    assert not await passes(limiter, "e", "r", rpm=1)
    assert await getattr(limiter.repository, method)("e", "r", *arguments)
    assert await drain(limiter, "e", "r", "rpm") == 60
    world.clock.advance(seconds=1)
    assert await drain(limiter, "e", "r", "rpm") == 1


async def test_another_process_obeys_when_it_asks_the_store_again(world: World) -> None:
    here, elsewhere = [(await world.process(default_limits=[RPM])).limiter for _ in range(2)]
    assert await drain(elsewhere, "e", "r", "rpm") == 60
    await here.repository.credit_bucket("e", "r", {"rpm": 30})
    assert not await passes(elsewhere, "e", "r", rpm=1)
    world.clock.advance(seconds=1)
    assert await drain(elsewhere, "e", "r", "rpm") == 31
    await here.repository.reset_bucket("e", "r")
    world.clock.advance(seconds=1)
    assert 57 <= await drain(elsewhere, "e", "r", "rpm") <= 60  # at the ceiling, others being active: 5 % of slack


@giver
@pytest.mark.parametrize("shards", [1, 4])
async def test_a_credit_to_a_bucket_anchored_in_the_future_is_there(
    world: World, method: str, arguments: tuple[Any, ...], shards: int
) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    assert await drain(limiter, "e", "r", "rpm") == 60
    split_into(world, limiter, shards)
    for item in shard_items(world, limiter).values():
        world.table.execute(Update(Key(item["PK"], item["SK"]), set={"rf": world.clock.now_ms() + 7_200_000}))
    assert await getattr(limiter.repository, method)("e", "r", *arguments)
    assert await limiter.available("e", "r") == {"rpm": 60}
    assert await drain(limiter, "e", "r", "rpm") == 60


async def test_a_credit_meets_a_split_and_reaches_both_halves(world: World) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    await take(limiter, "e", "r", rpm=50)
    wire.hold(Transact)
    credit = asyncio.create_task(limiter.repository.credit_bucket("e", "r", {"rpm": 40}))
    await until(lambda: wire.in_flight == 1)
    split(world, limiter, "e", "r")
    wire.let_go()
    assert await credit
    assert await limiter.available("e", "r") == {"rpm": 50}


@giver
async def test_a_full_bucket_gets_no_fuller(world: World, method: str, arguments: tuple[Any, ...]) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    await take(limiter, "e", "r", rpm=1)
    world.clock.advance(seconds=3600)
    for _ in range(3):
        await getattr(limiter.repository, method)("e", "r", *arguments)
    assert await limiter.available("e", "r") == {"rpm": 60}
    assert await drain(limiter, "e", "r", "rpm") == 60


@giver
async def test_where_there_is_no_bucket_nothing_is_written(
    world: World, method: str, arguments: tuple[Any, ...]
) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    assert not await getattr(limiter.repository, method)("e", "r", *arguments)
    assert wire.sent() == ["BatchGet"]
    assert (await limiter.repository.get_audit_events("e")).events == ()


@giver
async def test_it_is_one_read_and_one_transaction_that_count_one_write_and_no_consumption(
    world: World, method: str, arguments: tuple[Any, ...]
) -> None:
    limiter, wire = await world.process(default_limits=[RPM, TPM])
    await take(limiter, "e", "r", rpm=40, tpm=5)
    before = world.bucket_of(limiter, "e", "r")
    wire.sent()
    assert await getattr(limiter.repository, method)("e", "r", *arguments)
    assert wire.sent() == ["BatchGet", "Transact"]
    after = world.bucket_of(limiter, "e", "r")
    assert before is not None
    assert after is not None
    assert after[WRITES] == before[WRITES] + 1000
    unchanged = (*(bucket_attributes(name).consumed for name in ("rpm", "tpm")), "ev", "cv", "ttl", "shard_count")
    assert [after[name] for name in unchanged] == [before[name] for name in unchanged]


async def test_a_reset_forgets_debt_and_moves_the_anchor(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM, TPM])
    async with limiter.acquire("e", "r", {"rpm": 1, "tpm": 1}) as lease:
        await lease.adjust(rpm=500)
    before = await limiter.repository.get_bucket("e", "r")
    await limiter.repository.reset_bucket("e", "r")
    after = await limiter.repository.get_bucket("e", "r")
    assert before is not None
    assert after is not None
    assert before.available == {"rpm": -441, "tpm": 8_999}
    assert after.available == {"rpm": 60, "tpm": 9_000}
    assert after.anchor_ms == before.anchor_ms + 1
    world.clock.advance(seconds=9)
    await limiter.repository.reset_bucket("e", "r")
    moved = await limiter.repository.get_bucket("e", "r")
    assert moved is not None
    assert moved.anchor_ms == world.clock.now_ms()


async def test_a_credit_gives_what_it_says_to_the_limits_that_it_names(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM, TPM])
    await take(limiter, "e", "r", rpm=50, tpm=9_000)
    assert await limiter.repository.credit_bucket("e", "r", {"rpm": 7})
    assert await limiter.available("e", "r") == {"rpm": 17, "tpm": 0}
    assert await limiter.repository.credit_bucket("e", "r", {"rpm": 70, "tpm": 1})
    assert await limiter.available("e", "r") == {"rpm": 60, "tpm": 1}


@giver
async def test_the_parents_bucket_is_left_alone(world: World, method: str, arguments: tuple[Any, ...]) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    await limiter.create_entity("p")
    await limiter.create_entity("e", parent_id="p", cascade=True)
    await take(limiter, "e", "r", rpm=60)
    await getattr(limiter.repository, method)("e", "r", *arguments)
    assert await limiter.available("e", "r") == {"rpm": 60}
    assert await limiter.available("p", "r") == {"rpm": 0}


async def test_the_audit_events_tell_who_gave_what(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM, TPM])
    await take(limiter, "e", "r", rpm=50, tpm=9_000)
    await limiter.repository.credit_bucket("e", "r", {"rpm": 7}, principal="alice")
    told = await newest_event(limiter)
    assert (told.action, told.principal, told.entity_id, told.resource) == ("bucket_credited", "alice", "e", "r")
    assert told.before == {"available": {"rpm": 10, "tpm": 0}}
    assert told.after == {"credited": {"rpm": 7}, "available": {"rpm": 17, "tpm": 0}}
    world.clock.advance(seconds=1)
    await limiter.repository.reset_bucket("e", "r", principal="bob")
    told = await newest_event(limiter)
    assert (told.action, told.principal, told.entity_id, told.resource) == ("bucket_reset", "bob", "e", "r")
    assert told.before == {"available": {"rpm": 18, "tpm": 100}}
    assert told.after == {"available": {"rpm": 60, "tpm": 9_000}}


async def test_the_audit_event_of_a_reset_has_what_the_bucket_has_then(world: World) -> None:
    limits = [
        Limit.per_month("usd", 250, carry_over=50),
        Limit.total("credits", 5, burst=100),
        Limit.concurrent("p", 2),
    ]
    limiter, _ = await world.process(default_limits=limits)
    async with limiter.acquire("e", "r", {"usd": 3, "credits": 1, "p": 1}):
        await limiter.repository.reset_bucket("e", "r")
        told = await newest_event(limiter)
        assert told.before == {"available": {"credits": 4, "p": 1, "usd": 247}}
        assert told.after == {"available": {"credits": 5, "p": 1, "usd": 250}}
        bucket = await limiter.repository.get_bucket("e", "r")
        assert bucket is not None
        assert bucket.available == told.after["available"]


async def test_every_shard_is_filled_to_its_share_in_one_transaction(world: World) -> None:
    limiter, wire = await world.process(default_limits=[RPM, TPM])
    await take(limiter, "e", "r", rpm=60, tpm=9_000)
    split(world, limiter, "e", "r")
    wire.sent()
    await limiter.repository.reset_bucket("e", "r")
    assert wire.sent() == ["BatchGet", "BatchGet", "Transact"]
    bucket = await limiter.repository.get_bucket("e", "r")
    assert bucket is not None
    assert bucket.available == {"rpm": 60, "tpm": 9_000}


async def test_a_credit_is_shared_among_the_shards_to_the_millitoken(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM, TPM])
    await take(limiter, "e", "r", rpm=60, tpm=9_000)
    split(world, limiter, "e", "r")
    for credit in ({"rpm": 1}, {"rpm": 4, "tpm": 3}):
        await limiter.repository.credit_bucket("e", "r", credit)
    bucket = await limiter.repository.get_bucket("e", "r")
    assert bucket is not None
    assert bucket.available == {"rpm": 5, "tpm": 3}


MONTHLY = Limit.money("usd", 250, per="month")


async def test_a_credit_without_room_is_refused_with_the_way_out(world: World) -> None:
    limiter, wire = await world.process(default_limits=[MONTHLY, Limit.total("credits", 5)])
    await take(limiter, "e", "r", usd=225_000_000, credits=1)
    credit = limiter.repository.credit_bucket
    wire.sent()
    told = r"no room for \$500 more, it holds at most \$250: credit \$225 at most, .* lift .*'usd:\$750' --until"
    with pytest.raises(ValidationError, match=told):
        await credit("e", "r", {"usd": Decimal(500)}, idempotency_key="inv-1")
    with pytest.raises(ValidationError, match="credit 1 at most, or raise its burst"):
        await credit("e", "r", {"usd": Decimal(50), "credits": 2})
    assert wire.sent().count("Transact") == 0
    assert await limiter.available("e", "r") == {"usd": 25_000_000, "credits": 4}
    assert await credit("e", "r", {"usd": Decimal(225)}, idempotency_key="inv-1")
    told_after = (await newest_event(limiter)).after
    assert told_after is not None
    assert (told_after["available"]["usd"], told_after["units"]) == (250_000_000, {"usd": "usd"})


async def test_the_way_out_of_a_refused_credit_leaves_what_was_asked_for(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_limits("e", [MONTHLY], "r")
    await take(limiter, "e", "r", usd=225_000_000)
    lifted = Limit.money("usd", 750, per="month")
    await limiter.set_limits("e", [lifted], "r", override_until=in_an_hour(world))
    assert await limiter.available("e", "r") == {"usd": 525_000_000}


@pytest.mark.parametrize("shards", [1, 4])
async def test_a_reset_fills_up_to_the_limits_that_hold_now(world: World, shards: int) -> None:
    limiter, _ = await world.process()
    await limiter.set_limits("e", [Limit.per_minute("rpm", 24)], "r")
    await take(limiter, "e", "r", rpm=2)
    split_into(world, limiter, shards)
    await limiter.set_limits("e", [Limit.per_minute("rpm", 48)], "r", override_until=in_an_hour(world))
    assert await limiter.repository.reset_bucket("e", "r")
    told = (await newest_event(limiter)).after
    assert told is not None
    assert told["available"] == {"rpm": 48}
    assert await limiter.available("e", "r") == {"rpm": 48}
    assert await drain(limiter, "e", "r", "rpm") == 48


async def test_a_reset_after_lowered_limits_fills_no_fuller_than_they_are(world: World) -> None:
    limiter, _ = await world.process()
    other, _ = await world.process()
    await limiter.set_limits("e", [RPM], "r")
    await take(limiter, "e", "r", rpm=2)
    await other.set_limits("e", [Limit.per_minute("rpm", 6)], "r")
    assert await limiter.repository.reset_bucket("e", "r")
    assert await drain(limiter, "e", "r", "rpm") == 6
    assert await drain(other, "e", "r", "rpm") == 0


async def test_a_credit_after_raised_limits_has_the_room_that_they_have(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_limits("e", [RPM, Limit.total("credits", 10)], "r")
    await take(limiter, "e", "r", rpm=1, credits=1)
    higher = [Limit.per_minute("rpm", 600), Limit.total("credits", 100)]
    await limiter.set_limits("e", higher, "r", override_until=in_an_hour(world))
    assert await limiter.repository.credit_bucket("e", "r", {"rpm": 100, "credits": 1})
    left = await limiter.available("e", "r")
    assert left["credits"] == 100
    assert 158 <= left["rpm"] <= 159
    assert await drain(limiter, "e", "r", "rpm") == left["rpm"]


async def test_a_reset_fills_up_to_what_the_schedule_says_now(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.set_limits("e", [Limit.custom("rpm", 6, schedule=["soon: 22:15-22:20 600/min"])], "r")
    await take(limiter, "e", "r", rpm=1)
    world.clock.advance(seconds=180)  # it is 22:16
    assert await limiter.repository.reset_bucket("e", "r")
    assert await drain(limiter, "e", "r", "rpm") == 600


async def test_a_credit_of_a_quota_finds_the_room_on_any_shard(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.per_month("calls", 100)])
    await take(limiter, "e", "r", calls=1)
    split(world, limiter, "e", "r")
    await take(limiter, "e", "r", calls=49)
    await take(limiter, "e", "r", calls=1)
    assert await limiter.repository.credit_bucket("e", "r", {"calls": 51})
    bucket = await limiter.repository.get_bucket("e", "r")
    assert bucket is not None
    assert bucket.available == {"calls": 100}


async def test_two_credits_at_once_do_not_share_the_room(async_world: World) -> None:
    limiter, wire = await async_world.process(default_limits=[Limit.total("credits", 10)])
    await take(limiter, "e", "r", credits=5)
    rival = async_world.rival()
    wire.first(lambda: rival.credit_bucket("e", "r", {"credits": 3}), on=Transact)
    with pytest.raises(ValidationError, match="credit 2 at most"):
        await limiter.repository.credit_bucket("e", "r", {"credits": 3})
    assert await limiter.available("e", "r") == {"credits": 8}


@giver
async def test_an_answer_that_was_lost_gives_once(world: World, method: str, arguments: tuple[Any, ...]) -> None:
    limiter, wire = await world.process(default_limits=[Limit.per_minute("rpm", 60, burst=600)])
    await take(limiter, "e", "r", rpm=600)
    wire.break_once(OutcomeUnknown("lost"), on=Transact, applied=True)
    wire.break_once(Throttled("busy"), on=Transact)
    assert await getattr(limiter.repository, method)("e", "r", *arguments)
    assert await limiter.available("e", "r") == {"rpm": 600 if method == "reset_bucket" else 60}
    assert len((await limiter.repository.get_audit_events("e")).events) == 1


@giver
async def test_an_attempt_that_arrived_unanswered_is_not_made_again(
    world: World, method: str, arguments: tuple[Any, ...]
) -> None:
    """Its repetition is refused, for it is under way; by the next attempt all its conditions would hold anew."""
    limiter, wire = await world.process(default_limits=[Limit.per_minute("rpm", 60, burst=600)])
    await take(limiter, "e", "r", rpm=600)
    conflict = Reason("TransactionConflict")
    wire.break_once(OutcomeUnknown("lost"), on=Transact, applied=True)
    wire.break_once(TransactionCancelled((conflict, Reason("ConditionalCheckFailed"))), on=Transact)
    assert await getattr(limiter.repository, method)("e", "r", *arguments)
    assert await limiter.available("e", "r") == {"rpm": 600 if method == "reset_bucket" else 60}
    assert len((await limiter.repository.get_audit_events("e")).events) == 1


@giver
async def test_without_the_store_it_says_so(world: World, method: str, arguments: tuple[Any, ...]) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    await take(limiter, "e", "r", rpm=30)
    wire.break_down(OutcomeUnknown("away"), on=Transact)
    with pytest.raises(RateLimiterUnavailable):
        await getattr(limiter.repository, method)("e", "r", *arguments)
    wire.repair()
    assert await limiter.available("e", "r") == {"rpm": 30}


async def test_who_changes_the_shape_before_the_write_has_it_decided_again(async_world: World) -> None:
    limiter, wire = await async_world.process(default_limits=[RPM])
    await take(limiter, "e", "r", rpm=60)
    rival = async_world.rival()
    wire.sent()
    wire.first(lambda: rival.reset_bucket("e", "r", principal="rival"), on=Transact)
    assert await limiter.repository.reset_bucket("e", "r")
    assert wire.sent().count("Transact") == 2
    events = (await limiter.repository.get_audit_events("e")).events
    assert sorted(event.principal or "" for event in events) == ["", "rival"]


async def test_a_credit_needs_no_second_try_when_the_anchor_moves_before_the_write(async_world: World) -> None:
    limiter, wire = await async_world.process(default_limits=[RPM])
    await take(limiter, "e", "r", rpm=60)
    rival = async_world.rival()
    wire.sent()
    wire.first(lambda: rival.reset_bucket("e", "r"), on=Transact)
    assert await limiter.repository.credit_bucket("e", "r", {"rpm": 5})
    assert wire.sent().count("Transact") == 1
    assert await limiter.available("e", "r") == {"rpm": 60}


@giver
async def test_a_bucket_that_goes_before_the_write_is_not_made_again(
    async_world: World, method: str, arguments: tuple[Any, ...]
) -> None:
    limiter, wire = await async_world.process(default_limits=[RPM])
    await take(limiter, "e", "r", rpm=60)
    key = Key(keys.pk_bucket(limiter.repository.namespace_id, "e", "r", 0), keys.sk_state())
    wire.first(lambda: async_world.table.execute(Delete(key)), on=Transact)
    assert not await getattr(limiter.repository, method)("e", "r", *arguments)
    assert async_world.bucket_of(limiter, "e", "r") is None
    assert (await limiter.repository.get_audit_events("e")).events == ()


async def test_acquires_and_resets_at_the_same_time_all_come_through(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    await take(limiter, "e", "r", rpm=1)
    takes = [passes(limiter, "e", "r", rpm=1) for _ in range(40)]
    resets = [limiter.repository.reset_bucket("e", "r") for _ in range(5)]
    assert await outcomes(*takes, *resets) == [True] * 45


@pytest.mark.parametrize(
    "tokens",
    [{}, {"rpm": 0}, {"rpm": -1}, {"rpm": 1.5}, {"rpm": True}, {"r#m": 1}, {"wcu": 1}, {"rpm": 10**16}, 7, None],
    ids=str,
)
async def test_a_bad_credit_is_refused_before_any_request(world: World, tokens: Any) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    with pytest.raises(ValidationError):
        await limiter.repository.credit_bucket("e", "r", tokens)
    assert wire.sent() == []


@giver
async def test_bad_names_are_refused_before_any_request(world: World, method: str, arguments: tuple[Any, ...]) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    for place in (("e ", "r"), ("e", "_default_")):
        with pytest.raises(ValidationError):
            await getattr(limiter.repository, method)(*place, *arguments)
    with pytest.raises(ValidationError):
        await getattr(limiter.repository, method)("e", "r", *arguments, principal="")
    assert wire.sent() == []


async def test_a_limit_that_the_bucket_has_not_is_refused_and_nothing_is_written(world: World) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    await take(limiter, "e", "r", rpm=1)
    wire.sent()
    with pytest.raises(ValidationError, match=r"is not a limit of the bucket \(known: rpm\)"):
        await limiter.repository.credit_bucket("e", "r", {"rpm": 1, "tpm": 1})
    assert wire.sent() == ["BatchGet"]


async def test_a_blocked_limit_gets_no_credit_until_the_bucket_follows_its_raise(world: World) -> None:
    limiter, wire = await world.process()
    await limiter.set_limits("e", [Limit.per_minute("rpm", 0), TPM], "r")
    await take(limiter, "e", "r", tpm=9_000)
    wire.sent()
    with pytest.raises(ValidationError, match="tokens 'rpm': has a capacity of 0 and holds no tokens: raise it"):
        await limiter.repository.credit_bucket("e", "r", {"rpm": 5, "tpm": 5})
    assert wire.sent() == ["BatchGet"]
    await limiter.set_limits("e", [RPM, TPM], "r")
    assert not await passes(limiter, "e", "r", rpm=1)
    world.clock.advance(ms=4)
    assert await limiter.repository.credit_bucket("e", "r", {"rpm": 5, "tpm": 5})
    assert await limiter.available("e", "r") == {"rpm": 5, "tpm": 5}


async def test_an_amount_of_nothing_waits_for_the_anchor_before_it_is_judged(world: World) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    async with limiter.acquire("e", "r", {"rpm": 60}) as lease:
        await lease.adjust(rpm=60)
    world.clock.advance(seconds=4)  # the copy is too old to judge by
    item = world.bucket_of(limiter, "e", "r")
    assert item is not None
    late = {"rf": world.clock.now_ms() + 7_200_000}
    world.table.execute(Update(Key(item["PK"], item["SK"]), add={WRITES: ONE_WRITE}, set=late))
    wire.sent()
    assert not await passes(limiter, "e", "r", rpm=0)
    assert wire.sent() == ["Get", "Update"]  # the anchor; `ttl` is written when that is done, where it has to be
    assert await limiter.available("e", "r") == {"rpm": -60}
