"""``draws``: a call draws on further buckets, of other entities and other resources, all or nothing; in both variants.

What lives here: draws through the limiter. What never does: paths without draws (test_paths).
"""
# ruff: noqa: PT012 - a block under a lease that raises takes more than one line

import asyncio
import copy
import pickle
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from support.core.shards import split_into
from support.core.wires import Failure, Wire
from support.core.worlds import Process, World, again, go_on, outcomes, stand_still, take, until
from zae_limiter import (
    AccessDisabled,
    Draw,
    Lease,
    Limit,
    LimitStatus,
    RateLimiter,
    RateLimiterUnavailable,
    RateLimitExceeded,
    Repository,
    SyncRateLimiter,
    TokenUsage,
    ValidationError,
)
from zae_limiter.exceptions import LeaseExpiredError
from zae_limiter.http import headers, problem
from zae_limiter.integrations.settlement import settle, settle_at_least
from zae_limiter.observers import AcquireEvent, Event, LeaseEvent
from zae_limiter.operations.errors import Throttled, Unreachable
from zae_limiter.operations.values import Operation, Transact, Update

RPM, TPM = Limit.per_hour("rpm", 100), Limit.per_hour("tpm", 1000)
CALL = {"rpm": 1, "tpm": 100}
DRAWS = [Draw("user-7"), Draw(resource="embeddings", consume={"tpm": 90})]
OWN, USER, EMBEDDINGS = ("key-1", "gpt-4"), ("user-7", "gpt-4"), ("key-1", "embeddings")
PLACES = (OWN, USER, EMBEDDINGS)


async def left(process: Process, *places: tuple[str, str], limit: str = "tpm") -> list[int]:
    return [(await process.limiter.available(*place))[limit] for place in places]


async def used(process: Process, draws: Any = DRAWS, consume: Mapping[str, int] = CALL, **options: Any) -> None:
    async with process.limiter.acquire(*OWN, consume, draws=draws, **options):
        pass


async def below_one(world: World, **options: Any) -> Process:
    """A key and a user of one organisation."""
    process = await world.process(default_limits=[RPM, TPM], **options)
    await process.repository.create_entity("org")
    for each in ("key-1", "user-7"):
        await process.repository.create_entity(each, parent_id="org", cascade=True)
    process.wire.sent()
    return process


async def test_a_draw_has_the_amounts_of_the_call_or_its_own(world: World) -> None:
    it = await world.process(default_limits=[RPM, TPM])
    for _ in range(3):  # created, then the ordinary writes
        await used(it)
    assert await left(it, *PLACES) == [700, 700, 730]
    assert await left(it, *PLACES, limit="rpm") == [97, 97, 100]


async def test_of_the_amounts_of_the_call_a_draw_has_those_of_its_limits(world: World) -> None:
    it = await world.process(default_limits=[RPM, TPM])
    await it.limiter.set_limits("user-7", [TPM, Limit.per_hour("usd", 9)])
    async with it.limiter.acquire(*OWN, CALL, draws=[Draw("user-7")]) as lease:
        assert lease.draw("user-7").consumed == {"tpm": 100}
    assert await it.limiter.available(*USER) == {"tpm": 900, "usd": 9}
    await it.limiter.set_limits("user-7", [Limit.per_hour("usd", 9)])
    await it.limiter.set_limits(OWN[0], [RPM, TPM])
    other = await world.process()  # no level of the user knows the limits of the call
    with pytest.raises(ValidationError, match=r"unknown limit .* on resource .gpt-4. \(known: usd\)"):
        await used(other, [Draw("user-7")])
    with pytest.raises(ValidationError, match=r"unknown limit .* on resource .gpt-4. \(known: usd\)"):
        await used(other, [Draw("user-7", consume={"usd": 1, "tpm": 1})])
    assert await left(it, OWN) == [900]


async def test_a_cold_call_reads_once_and_creates_in_one_transaction(world: World) -> None:
    it = await world.process(default_limits=[RPM, TPM])
    await used(it)
    assert it.wire.sent() == ["BatchGet", "Transact"]
    await used(it)
    assert it.wire.sent() == ["Update"] * 3


async def test_a_cold_call_with_ancestors_reads_twice(world: World) -> None:
    await below_one(world)
    other = await world.process(default_limits=[RPM, TPM])
    await used(other)
    assert other.wire.sent() == ["BatchGet", "BatchGet", "Transact"]


async def test_what_several_reach_is_drawn_on_once(world: World) -> None:
    it = await below_one(world)
    await used(it)
    await used(it)
    assert await left(it, *PLACES, ("org", "gpt-4"), ("org", "embeddings")) == [800, 800, 820, 800, 820]


async def test_whoever_is_reached_with_two_amounts_has_to_be_named(world: World) -> None:
    it = await below_one(world)
    both = "key-1 > org takes 1 rpm, 100 tpm and user-7 > org takes 900 tpm"
    for _ in range(2):  # by what is read, then by what is known
        with pytest.raises(ValidationError, match=both) as refused:
            await used(it, [Draw("user-7", consume={"tpm": 900})])
        assert (refused.value.field, refused.value.value) == ("draws", "org/gpt-4")
    assert await left(it, OWN, USER, ("org", "gpt-4")) == [1000] * 3
    await used(it, [Draw("user-7", consume={"tpm": 900}, cascade=False)])
    assert await left(it, OWN, USER, ("org", "gpt-4")) == [900, 100, 900]
    await used(it, [Draw("user-7", consume={"tpm": 50}), Draw("org", consume={"tpm": 7})])
    assert await left(it, OWN, USER, ("org", "gpt-4")) == [800, 50, 893]


async def test_a_bucket_that_a_draw_names_is_settled_by_it_alone(world: World) -> None:
    it = await below_one(world)
    async with it.limiter.acquire(*OWN, CALL, draws=[Draw("org")]) as lease:
        await lease.settle(tpm=10)
        await lease.draw("org").settle(tpm=20)
    assert await left(it, OWN, ("org", "gpt-4")) == [990, 980]


async def test_a_draw_whose_ancestor_asks_leaves_that_one_its_amounts(world: World) -> None:
    it = await below_one(world)
    for _ in range(2):
        async with it.limiter.acquire("org", "gpt-4", CALL, draws=[Draw("user-7", consume={"tpm": 300})]) as lease:
            assert [(each.entity_id, each.limit_name) for each in lease.statuses] == [
                *(("org", "rpm"), ("org", "tpm"), ("user-7", "tpm")),
            ]
    assert await left(it, ("org", "gpt-4"), USER) == [800, 400]


async def test_integrations_settle_the_draws_that_have_the_amounts_of_the_call(world: World) -> None:
    it = await world.process(default_limits=[RPM, TPM])
    await it.limiter.set_limits("user-8", [Limit.per_hour("usd", 100, weights={"input": 2, "output": 4})])
    draws = [*DRAWS, Draw("user-8", consume={"usd": 50}), Draw("user-9")]
    await it.limiter.set_limits("user-9", [RPM, Limit.per_hour("tpm", 1000, weights={"input": 1, "output": 2})])
    async with it.limiter.acquire(*OWN, CALL, draws=draws) as lease:
        await settle(lease, "tpm", TokenUsage(input=10, output=20))
        await lease.draw("user-8").settle(TokenUsage(input=1, output=2))
    assert await left(it, *PLACES, ("user-9", "gpt-4")) == [970, 970, 910, 950]
    assert await it.limiter.available("user-8", "gpt-4") == {"usd": 90}
    async with it.limiter.acquire(*OWN, CALL, draws=[Draw("user-7")]) as lease:
        await settle_at_least(lease, "tpm", TokenUsage(input=10))
    assert await left(it, OWN, USER) == [870, 870]


async def test_the_cascade_of_a_draw(world: World) -> None:
    it = await below_one(world)
    org = "org", "gpt-4"
    await it.repository.update_entity("key-1", cascade=False)
    await used(it, [Draw("user-7")])
    assert await left(it, org) == [900]
    await used(it, [Draw("user-7", cascade=False)])
    assert await left(it, org) == [900]
    await it.repository.update_entity("user-7", cascade=False)
    await used(it, [Draw("user-7")])
    await used(it, [Draw("user-7", cascade=True)])
    assert await left(it, org, USER) == [800, 600]


async def test_a_lease_settles_each_draw_for_itself(world: World) -> None:
    it = await world.process(default_limits=[RPM, TPM])
    async with it.limiter.acquire(*OWN, CALL, draws=DRAWS) as lease:
        user, embeddings = lease.draw("user-7"), lease.draw(resource="embeddings")
        assert [(each.entity_id, each.resource) for each in lease.draws] == [USER, EMBEDDINGS]
        assert [each.as_called for each in lease.draws] == [True, False]
        assert (lease.consumed, user.consumed, embeddings.consumed) == (CALL, CALL, {"tpm": 90})
        await lease.settle(tpm=50)
        await user.consume(rpm=2)
        await user.release(tpm=40)
        await embeddings.adjust(tpm=110)
        it.wire.sent()
        assert lease.corrected
        assert [(each.limit_name, each.available) for each in lease.statuses] == [
            *(("rpm", 99), ("tpm", 950), ("rpm", 97), ("tpm", 940), ("tpm", 800)),
        ]
        with pytest.raises(ValidationError, match=r"unknown limit .* in this lease \(known: rpm, tpm\)"):
            await embeddings.consume(usd=1)
    assert it.wire.sent() == ["Update"] * 3
    assert await left(it, *PLACES) == [950, 940, 800]
    assert await left(it, *PLACES, limit="rpm") == [99, 97, 100]
    with pytest.raises(LeaseExpiredError):
        await user.consume(rpm=1)


async def test_corrections_of_a_draw_alone_are_written(world: World) -> None:
    it = await world.process(default_limits=[RPM, TPM])
    async with it.limiter.acquire(*OWN, CALL, draws=DRAWS) as lease:
        await lease.draw("user-7").settle(tpm=0)
    assert await left(it, *PLACES) == [900, 1000, 910]


async def test_a_failed_block_gives_everything_back(world: World) -> None:
    it = await below_one(world)
    places = (*PLACES, ("org", "gpt-4"), ("org", "embeddings"))
    for _ in range(2):
        with pytest.raises(ZeroDivisionError):
            async with it.limiter.acquire(*OWN, CALL, draws=DRAWS) as lease:
                await lease.draw("user-7").consume(tpm=5)
                await lease.draw(resource="embeddings").settle(tpm=1)
                1 / 0  # noqa: B018
        assert await left(it, *places) == [1000] * 5
    with pytest.raises(ZeroDivisionError):
        async with it.limiter.acquire(*OWN, CALL, draws=DRAWS) as lease:
            await lease.draw("user-7").adjust(tpm=5)
            lease.keep()
            1 / 0  # noqa: B018
    assert await left(it, *places) == [900, 895, 910, 900, 910]


async def test_draws_of_a_lease_are_named_as_in_also(world: World) -> None:
    it = await world.process(default_limits=[RPM, TPM])
    lease = it.limiter.acquire(*OWN, CALL, draws=DRAWS)
    with pytest.raises(LeaseExpiredError):
        lease.draw("user-7")
    async with lease:
        assert lease.draw("user-7", resource="gpt-4").entity_id == "user-7"
        for wrong in ({"entity_id": "user-8"}, {"resource": "x"}, {}, {"entity_id": "key-1"}):
            with pytest.raises(ValidationError, match="`draws` names user-7/gpt-4, key-1/embeddings"):
                lease.draw(**wrong)
    async with it.limiter.acquire(*OWN, CALL) as lease:
        assert lease.draws == ()
        with pytest.raises(ValidationError, match="`draws` names none"):
            lease.draw("user-7")


@pytest.mark.parametrize("short", PLACES)
@pytest.mark.parametrize("seen", ["unseen", "seen", "stale"])
async def test_whoever_is_short_refuses_for_all_and_is_named(world: World, short: tuple[str, str], seen: str) -> None:
    it = await world.process(default_limits=[RPM, TPM])
    await it.limiter.set_limits(short[0], [RPM, Limit.per_hour("tpm", 300)], resource=short[1])
    if seen != "unseen":
        await used(it)
    world.clock.advance(ms=5_000 if seen == "stale" else 0)
    before = await left(it, *PLACES)
    with pytest.raises(RateLimitExceeded) as caught:
        await used(it, [Draw("user-7"), Draw(resource="embeddings", consume={"tpm": 301})], {"rpm": 1, "tpm": 301})
    error = caught.value
    assert (error.entity_id, error.resource) == OWN
    assert (error.refused_by, error.path, error.primary_violation.resource) == (short[0], (short[0],), short[1])
    assert str(error).startswith(f"{'/'.join(short)}: 301 tpm requested")
    assert error.as_dict()["exceeded"] == [{"entity_id": short[0], "resource": short[1], "limit_name": "tpm"}]
    assert [(each.entity_id, each.resource) for each in error.statuses if each.limit_name == "tpm"] == [*PLACES]
    assert await left(it, *PLACES) == before
    for again_there in (copy.copy(error), pickle.loads(pickle.dumps(error))):
        assert (again_there.resource, again_there.path, str(again_there)) == ("gpt-4", (short[0],), str(error))


async def test_the_path_of_a_refusal_begins_with_the_entity_of_the_draw(world: World) -> None:
    it = await below_one(world)
    await it.limiter.set_limits("org", [Limit.per_hour("tpm", 50)], resource="embeddings")
    with pytest.raises(RateLimitExceeded) as caught:
        await used(it, [Draw("user-7", "embeddings")])
    assert caught.value.path == ("user-7", "org")
    assert str(caught.value).startswith("user-7 > org/embeddings: 100 tpm requested")
    assert problem(caught.value)["violated-policies"] == ["tpm"]
    assert problem(caught.value, show="all")["violated-policies"] == ["draw/parent/tpm"]


async def test_refusals_count_for_who_asked_and_for_who_was_short(world: World) -> None:
    it = await world.process(default_limits=[RPM, TPM])
    await used(it)
    with pytest.raises(RateLimitExceeded):
        await used(it, [Draw("user-7", consume={"tpm": 1001})])
    with pytest.raises(RateLimitExceeded):
        await used(it, [Draw(resource="embeddings", consume={"tpm": 1001})])
    async with it.limiter.acquire(*OWN, CALL, draws=DRAWS) as lease:
        with pytest.raises(RateLimitExceeded) as caught:
            await lease.draw("user-7").consume(tpm=1001)
    assert (caught.value.entity_id, caught.value.resource) == OWN
    await it.limiter.close()
    items = [world.bucket_of(it.limiter, *place) or {} for place in PLACES]
    assert [item.get("rj") for item in items] == [3, 2, 1]
    counted = [{name: item[name] for name in item if name.startswith("rj_")} for item in items]
    assert counted == [{"rj_user-7/tpm": 2, "rj_key-1/tpm": 1}, {}, {}]


async def test_refusals_by_a_switch_count_for_who_asked_and_for_who_is_disabled(world: World) -> None:
    it = await world.process(default_limits=[RPM, TPM])
    await used(it)
    async with it.limiter.acquire(*OWN, CALL, draws=DRAWS) as lease:
        await it.repository.set_switches("user-7", "gpt-4", disabled=True)
        with pytest.raises(AccessDisabled) as consumed:
            await lease.draw("user-7").consume(tpm=1)
    await it.repository.set_switches("key-1", "embeddings", disabled=True)
    with pytest.raises(AccessDisabled) as acquired:
        await used(it, [Draw(resource="embeddings")])
    for refused in (consumed.value, pickle.loads(pickle.dumps(acquired.value))):
        assert (refused.entity_id, refused.resource) == OWN
    assert str(consumed.value).startswith("user-7/gpt-4: user-7 is disabled on gpt-4")
    assert str(acquired.value).startswith("key-1/embeddings: key-1 is disabled on embeddings")
    await it.limiter.close()
    assert [(world.bucket_of(it.limiter, *place) or {}).get("rj") for place in PLACES] == [2, 1, 1]


class Breaking(Wire):
    """A wire on which one of the next updates fails, the ``broken``th."""

    broken = 0
    applied = False

    def _failure(self, operation: Operation[Any]) -> Failure | None:
        if isinstance(operation, Update) and self.broken:
            self.broken -= 1
            if not self.broken:
                return Failure(Unreachable("gone"), Update, applied=self.applied)
        return super()._failure(operation)


@pytest.mark.parametrize("broken", [1, 2, 3])
@pytest.mark.parametrize("applied", [False, True])
async def test_a_failed_write_gives_back_what_the_others_took(world: World, broken: int, *, applied: bool) -> None:
    wire = Breaking(world.table)
    it = await world.process(default_limits=[RPM, TPM], wire=wire)
    await used(it)
    before = await left(it, *PLACES)
    wire.broken, wire.applied = broken, applied
    with pytest.raises(RateLimiterUnavailable):
        await used(it)
    assert not wire.broken
    lost = [old - new for old, new in zip(before, await left(it, *PLACES), strict=True) if old != new]
    assert lost in ([[100], [90]] if applied else [[]])  # a write whose answer is lost is not given back


async def test_a_throttled_draw_is_sent_again(world: World) -> None:
    it = await world.process(default_limits=[RPM, TPM])
    await used(it)
    it.wire.break_once(Throttled("slow down"), on=Update)
    await used(it)
    assert await left(it, *PLACES) == [800, 800, 820]


async def test_a_transaction_that_fails_takes_nothing(world: World) -> None:
    it = await world.process(default_limits=[RPM, TPM])
    it.wire.break_once(Unreachable("gone"), on=Transact)
    with pytest.raises(RateLimiterUnavailable):
        await used(it)
    assert await left(it, *PLACES) == [1000] * 3
    await take(it.limiter, *USER, tpm=1)  # one of them is there: each is written by itself
    await used(it)
    assert await left(it, *PLACES) == [900, 899, 910]


async def test_who_waits_waits_for_the_draws(world: World) -> None:
    stand_still(world)
    it = await world.process(default_limits=[RPM, TPM])
    await it.limiter.set_limits("user-7", [Limit.per_second("tpm", 10)])
    await it.limiter.set_limits("key-1", [Limit.per_second("tpm", 10)], resource="embeddings")
    await used(it, [Draw("user-7", consume={"tpm": 10}), Draw(resource="embeddings", consume={"tpm": 10})])

    async def waits(draws: list[Draw]) -> float:
        async with it.limiter.acquire(*OWN, {"tpm": 5}, draws=draws, max_wait=5) as lease:
            return lease.waited

    async def waits_from_the_other_end() -> float:
        async with it.limiter.acquire(
            *USER, {"tpm": 5}, draws=[Draw("key-1", consume={"tpm": 1})], max_wait=5
        ) as lease:
            return lease.waited

    calls = waits([Draw("user-7")]), waits([Draw(resource="embeddings")]), waits_from_the_other_end()
    waiting = [asyncio.create_task(each) for each in calls]
    await until(lambda: world.clock.waiting == 3)
    assert await go_on(world, waiting, 4, 0.1)
    assert all(each > 0 for each in await asyncio.gather(*waiting))
    assert [(world.bucket_of(it.limiter, *place) or {})["b_tpm_tc"] for place in PLACES] == [111_000, 20_000, 15_000]
    with pytest.raises(RateLimitExceeded) as caught:
        await used(it, [Draw("user-7", consume={"tpm": 11})], max_wait=5)
    assert caught.value.refused_by == "user-7"


async def test_shadow_limits_of_draws_refuse_nobody(world: World) -> None:
    it = await world.process(default_limits=[RPM, TPM])
    await it.limiter.set_limits("user-7", [Limit.per_hour("tpm", 50, shadow=True)])
    async with it.limiter.acquire(*OWN, CALL, draws=DRAWS) as lease:
        assert [(each.entity_id, each.limit_name) for each in lease.shadowed] == [("user-7", "tpm")]
    assert await left(it, *PLACES) == [900, 50, 910]
    assert "draw/tpm" not in headers(lease, show="all")["RateLimit"]
    shadow = again(it.limiter, default_limits=[RPM, TPM], shadow=True)
    async with shadow.acquire(*OWN, CALL, draws=[Draw("user-8", consume={"tpm": 1001})]) as lease:
        assert [each.entity_id for each in lease.shadowed] == ["user-8"]


async def test_tokens_are_prefetched_of_every_bucket(world: World) -> None:
    fast = [Limit.per_minute("rpm", 6000, prefetch=5)]
    it = await world.process(default_limits=fast)
    draws = [Draw("user-7"), Draw(resource="embeddings")]
    for _ in range(30):
        await used(it, draws, {"rpm": 1})
        world.clock.advance(ms=10)
    it.wire.sent()
    for _ in range(20):
        await used(it, draws, {"rpm": 1})
    async with it.limiter.acquire(*OWN, {"rpm": 1}, draws=draws) as lease:
        assert [each.draw for each in lease.statuses] == [0, 1, 2]
        await lease.draw("user-7").release(rpm=1)
    assert len(it.wire.sent()) <= 6  # 63 without prefetch: each reservation may be renewed
    found = await left(it, *PLACES, limit="rpm")
    assert found[0] == found[2] == found[1] - 1
    await it.repository.close()
    counted = [world.bucket_of(it.limiter, *place) or {} for place in PLACES]
    assert [item["ev"] for item in counted] == [51] * 3
    assert [item["b_rpm_tc"] for item in counted] == [51_000, 50_000, 51_000]


async def test_what_is_held_of_one_bucket_alone_is_not_spent_on_a_refused_call(world: World) -> None:
    it = await world.process(default_limits=[Limit.per_minute("rpm", 6000, prefetch=5)])
    await it.limiter.set_limits("user-7", [Limit.per_hour("rpm", 30)])
    for _ in range(30):
        await used(it, [Draw("user-7")], {"rpm": 1})
        world.clock.advance(ms=10)
    before = await left(it, OWN, limit="rpm")
    for _ in range(5):
        with pytest.raises(RateLimitExceeded):
            await used(it, [Draw("user-7")], {"rpm": 1})
    assert await left(it, OWN, limit="rpm") == before


async def test_a_draw_on_many_shards(world: World) -> None:
    it = await world.process(default_limits=[RPM, TPM])
    await used(it)
    split_into(world, it.limiter, 4, *USER)
    for _ in range(4):
        await used(it, [Draw("user-7", consume={"tpm": 200})])
    assert await left(it, OWN, USER) == [500, 100]
    with pytest.raises(RateLimitExceeded):
        await used(it, [Draw("user-7", consume={"tpm": 200})])
    assert await left(it, OWN, USER) == [500, 100]


async def test_without_the_store_the_policy_lets_draws_through_or_refuses(world: World) -> None:
    it = await world.process(default_limits=[RPM, TPM])
    it.wire.break_down(Unreachable("gone"))
    async with it.limiter.acquire(*OWN, CALL, draws=DRAWS, on_unavailable="allow") as lease:
        assert lease.degraded
        assert lease.draw("user-7").consumed == CALL
        await lease.draw("user-7").settle(tpm=3)
        await lease.draw(resource="embeddings").consume(tpm=3)
    with pytest.raises(RateLimiterUnavailable):
        await used(it, on_unavailable="block")


async def test_a_share_is_taken_of_every_bucket_or_of_none_and_paid_afterwards(world: World) -> None:
    fast = [Limit.per_minute("rpm", 600)]
    it = await world.process(default_limits=fast, on_unavailable="share")
    draws = [Draw("user-7"), Draw(resource="embeddings", consume={"rpm": 2})]
    for _ in range(100):
        await used(it, draws, {"rpm": 1})
        world.clock.advance(seconds=1)
    it.wire.break_down(Unreachable("gone"))
    for _ in range(10):
        async with it.limiter.acquire(*OWN, {"rpm": 1}, draws=draws) as lease:
            await lease.draw("user-7").settle(rpm=3)
    refusals = [
        answer for _ in range(400) if isinstance(answer := (await outcomes(used(it, draws, {"rpm": 1})))[0], Exception)
    ]
    shown = {
        (each.resource, each.primary_violation.resource) for each in refusals if isinstance(each, RateLimitExceeded)
    }
    assert shown == {("gpt-4", "embeddings")}
    it.wire.repair()
    world.clock.advance(seconds=2)
    await used(it, draws, {"rpm": 1})
    await it.repository.close()
    counted = [(world.bucket_of(it.limiter, *place) or {})["b_rpm_tc"] // 1000 for place in PLACES]
    calls = 111 + 400 - len(refusals)
    assert counted == [calls, calls + 20, 2 * calls]


async def test_at_most_eight_buckets(world: World) -> None:
    it = await below_one(world)
    many = [Draw(f"user-{number}") for number in range(10, 17)]
    for _ in range(2):  # by what is read, then by what is known
        with pytest.raises(ValidationError, match="more than 8 buckets: key-1/gpt-4, user-10/gpt-4"):
            await used(it, many)
    await used(it, many[:6])
    assert await left(it, OWN, ("user-15", "gpt-4"), ("user-16", "gpt-4")) == [900, 900, 1000]


BAD: list[tuple[Any, str]] = [
    ("user-7", "must be a list of draws"),
    (Draw("user-7"), "must be a list of draws"),
    (["user-7"], "must be a list of draws"),
    (None, "must be a list of draws"),
    ({Draw("user-7")}, "must be a list of draws"),
    ([Draw(f"e{number}") for number in range(8)], "8 at most"),
    ([Draw()], "name each one once"),
    ([Draw("key-1", "gpt-4")], "name each one once"),
    ([Draw("user-7"), Draw("user-7", consume={"tpm": 3})], "name each one once"),
    ([Draw("user-7", consume={"tpm": -1})], "0 or more"),
    ([Draw("user-7", consume={"tpm": 1.5})], "whole number"),  # type: ignore[dict-item]
]


@pytest.mark.parametrize(("draws", "problem"), BAD, ids=[str(number) for number in range(len(BAD))])
async def test_bad_draws_are_refused_at_once(world: World, draws: Any, problem: str) -> None:
    it = await world.process(default_limits=[RPM, TPM])
    with pytest.raises(ValidationError, match=problem):
        it.limiter.acquire(*OWN, CALL, draws=draws)
    assert it.wire.sent() == []


@pytest.mark.parametrize(
    ("wrong", "field"),
    [
        ({"entity_id": ""}, "entity_id of a draw"),
        ({"entity_id": 7}, "entity_id of a draw"),
        ({"resource": "a b#"}, "resource of a draw"),
        ({"consume": {}}, "consume of a draw"),
        ({"consume": [("tpm", 1)]}, "consume of a draw"),
        ({"cascade": 1}, "cascade of a draw"),
    ],
)
def test_a_bad_draw_is_refused_by_its_constructor(wrong: dict[str, Any], field: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Draw(**wrong)
    assert refused.value.field == field


def test_draws_compare_and_hash() -> None:
    assert {Draw("a"), Draw("a"), Draw("a", "r")} == {Draw("a"), Draw("a", "r")}
    assert hash(Draw("a", consume={"tpm": 1})) == hash(Draw("a", consume={"tpm": 2}))


async def test_an_estimate_of_a_draw_learns_from_its_settlement(world: World) -> None:
    it = await world.process(default_limits=[RPM, TPM])
    estimate = it.limiter.estimate("embeddings", default=1, most=900, quantile=0.5)
    for _ in range(30):
        async with it.limiter.acquire(
            *OWN, {"rpm": 1}, draws=[Draw(resource="embeddings", consume={"tpm": estimate})]
        ) as at:
            await at.draw(resource="embeddings").settle(tpm=2)
    async with it.limiter.acquire(
        *OWN, {"rpm": 1}, draws=[Draw(resource="embeddings", consume={"tpm": estimate})]
    ) as at:
        assert at.draw(resource="embeddings").consumed["tpm"] >= 2


async def test_observers_see_the_calls_of_draws(world: World) -> None:
    events: list[Event] = []
    it = await world.process(default_limits=[RPM, TPM], observers=[events.append])
    async with it.limiter.acquire(*OWN, CALL, draws=DRAWS) as lease:
        await lease.draw("user-7").consume(tpm=1)
        with pytest.raises(RateLimitExceeded):
            await lease.draw("user-7").consume(tpm=1001)
    told = [(each.call, each.outcome, dict(each.amounts)) for each in events if isinstance(each, AcquireEvent)]
    assert told == [
        ("acquire", "admitted", CALL),
        ("consume", "admitted", {"tpm": 1}),
        ("consume", "refused", {"tpm": 1001}),
    ]
    assert [dict(each.consumed) for each in events if isinstance(each, LeaseEvent)] == [CALL]


async def test_headers_name_draws_on_request_by_number_or_entity(world: World) -> None:
    def by_id(status: LimitStatus) -> str:
        return f"{status.entity_id}/{status.resource}/{status.limit_name}"

    it = await below_one(world)
    async with it.limiter.acquire(*OWN, {"tpm": 1}, draws=DRAWS) as lease:
        fields, named = headers(lease, show="all"), headers(lease, show="all", names=by_id)
        assert headers(lease)["RateLimit"].count(";r=") == 1

    def names(text: str) -> list[str]:
        return [part.partition(";")[0].strip().strip('"') for part in text.split(",")]

    assert names(fields["RateLimit"]) == ["tpm", "parent/tpm", "draw/tpm", "draw-2/tpm", "draw-2/parent/tpm"]
    ids = ["key-1/gpt-4/tpm", "org/gpt-4/tpm", "user-7/gpt-4/tpm", "key-1/embeddings/tpm", "org/embeddings/tpm"]
    assert names(named["RateLimit"]) == ids


async def test_a_move_is_followed_by_draws(world: World) -> None:
    it = await below_one(world)
    await used(it)
    await it.repository.create_entity("other")
    await it.repository.update_entity("user-7", parent_ids=["other"])
    await used(it)
    assert await left(it, ("org", "gpt-4"), ("other", "gpt-4")) == [800, 900]


async def test_changed_limits_of_a_draw_hold_for_the_next_call(world: World) -> None:
    it = await world.process(default_limits=[RPM, TPM])
    late = await world.process(default_limits=[RPM, TPM])
    await used(it)
    await used(late)
    await it.limiter.set_limits("user-7", [RPM, Limit.per_hour("tpm", 250)])
    world.clock.advance(seconds=600)
    with pytest.raises(RateLimitExceeded) as caught:
        await used(late, [Draw("user-7", consume={"tpm": 260})])
    assert caught.value.refused_by == "user-7"


async def test_a_decorated_call_draws_too(world: World) -> None:
    it = await world.process(default_limits=[RPM, TPM])
    target: Any = getattr(it.limiter, "_target", it.limiter)
    if world.variant == "async":
        limiter: RateLimiter = target

        @limiter.limit(*OWN, CALL, draws=DRAWS)
        async def limited() -> int:
            return 1

        assert await limited() == 1
    else:
        twin: SyncRateLimiter = target

        @twin.limit(*OWN, CALL, draws=DRAWS)
        def blocking() -> int:
            return 1

        assert blocking() == 1
    assert await left(it, *PLACES) == [900, 900, 910]


async def test_a_decorator_draws_by_its_call_and_holds_no_slot_while_it_waits() -> None:
    """What FastAPI's `draws=` does, without a framework: rates on the key, a slot on the account."""
    events: list[object] = []
    async with RateLimiter(Repository.in_memory(), observers=[events.append]) as limiter:
        await limiter.set_limits("acme", [Limit.concurrent("parallel", 1)], "account")
        await limiter.set_limits("key-1", [Limit.custom("rpm", 1, refill_amount=1, refill_period=3600)], "gpt-5")

        def account(name: str) -> list[Draw]:
            return [Draw(name, "account", {"parallel": 1})]

        @limiter.limit("key-1", "gpt-5", {"rpm": 1}, draws=account, max_wait=7200)
        async def call(name: str) -> dict[str, int]:
            return await limiter.available(name, "account")

        assert await call("acme") == {"parallel": 0}
        waiting = asyncio.create_task(call("acme"))
        await asyncio.sleep(0.01)
        assert not waiting.done()
        assert await limiter.available("acme", "account") == {"parallel": 1}
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert [type(each).__name__ for each in events] == ["AcquireEvent", "LeaseEvent", "AcquireEvent"]


async def test_a_cancelled_generator_settles_lease_and_draw() -> None:
    """As docs/guides/streaming.md has it: what was not used goes back."""
    limiter = RateLimiter(Repository.in_memory(), default_limits=[RPM, TPM])
    sent = asyncio.Event()

    async def parts(lease: Lease) -> AsyncIterator[str]:
        try:
            yield "one"
            await asyncio.Event().wait()
        finally:
            await lease.settle(tpm=3)
            await lease.draws[0].settle(tpm=2)

    async def serve() -> None:
        async with limiter.acquire("key", "model", CALL, draws=[Draw("acme", consume={"tpm": 90})]) as lease:
            lease.keep()
            async for _ in parts(lease):
                sent.set()

    serving = asyncio.create_task(serve())
    await sent.wait()
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    left = [await limiter.available(each, "model") for each in ("key", "acme")]
    assert left == [{"rpm": 99, "tpm": 997}, {"rpm": 100, "tpm": 998}]
