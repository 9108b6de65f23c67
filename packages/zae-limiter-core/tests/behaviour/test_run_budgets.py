"""The budget of a run: it narrows an entity, is shared by name, ends by itself or by ``end``; in both variants.

What lives here: runs through the limiter. What never does: further draws (test_draws), totals that expire
(test_expiring_totals).
"""
# ruff: noqa: PT012 - a block under a lease that raises takes more than one line

import pickle
from collections.abc import Callable, Mapping
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest

from support.core.shards import played
from support.core.worlds import Process, World, outcomes
from zae_limiter import Draw, Limit, OnRefused, RateLimitExceeded, TokenUsage, ValidationError
from zae_limiter.aio.budgets import RunBudget
from zae_limiter.exceptions import BudgetEnded, InvalidIdentifierError
from zae_limiter.flows.bucket.splitting import split_shard
from zae_limiter.observers import AcquireEvent, Event
from zae_limiter.operations.errors import OutcomeUnknown
from zae_limiter.operations.values import Put, Update
from zae_limiter.schema import keys
from zae_limiter.schema.items import BucketId

DAY = 24 * 3600
WEEK = 7 * DAY
TPM, USD = Limit.per_day("tpm", 10_000), Limit.money("usd", "100", per="calendar day")
TEAM = ("team-a", "gpt-4")
BUDGET: dict[str, Any] = {"usd": "$2", "calls": 5}
CENT = Decimal("0.01")


async def opened(process: Process, name: str = "run-1", amounts: Any = None, **options: Any) -> RunBudget:
    """The budget of a run, which begins with the default amounts."""
    amounts = BUDGET if amounts is None else amounts
    return await process.limiter.budget(name, amounts or None, **{"within": "team-a", **options}).open()


async def spend(run: RunBudget, usd: Decimal = CENT, tpm: int = 100, **options: Any) -> None:
    async with run.acquire("gpt-4", {"tpm": tpm}, **{"costs": {"usd": usd}, **options}):
        pass


async def spends(run: RunBudget, *args: Any, **options: Any) -> bool:
    try:
        await spend(run, *args, **options)
    except RateLimitExceeded:
        return False
    return True


async def left_of(process: Process, *place: str) -> Mapping[str, int]:
    return await process.limiter.available(*(place or TEAM))


async def a_process(world: World, **options: Any) -> Process:
    return await world.process(default_limits=[TPM], **options)


async def test_a_call_takes_from_the_entity_and_from_the_run(world: World) -> None:
    it = await a_process(world)
    run = await opened(it)
    for _ in range(2):
        await spend(run)
    assert await run.left() == {"calls": 3, "usd": 1_980_000}
    assert await left_of(it) == {"tpm": 9_800}
    assert (run.name, run.within, run.entity_id) == ("run-1", "team-a", "run:run-1@team-a")
    assert run.expires_in == 3600
    assert [(limit.name, limit.capacity) for limit in run.limits] == [("calls", 5), ("usd", 2_000_000)]


async def test_what_one_bucket_lacks_is_taken_from_none(world: World) -> None:
    it = await a_process(world)
    run = await opened(it)
    with pytest.raises(RateLimitExceeded) as refused:
        await spend(run, Decimal("2.50"))
    assert refused.value.refused_by == run.entity_id
    assert {(each.entity_id, each.limit_name): each.available for each in refused.value.statuses} == {
        ("team-a", "tpm"): 10_000,
        (run.entity_id, "calls"): 5,
        (run.entity_id, "usd"): 2_000_000,
    }
    with pytest.raises(RateLimitExceeded) as refused:
        await spend(run, tpm=10_001)
    assert refused.value.refused_by == "team-a"
    assert await run.left() == {"calls": 5, "usd": 2_000_000}
    assert await left_of(it) == {"tpm": 10_000}


async def test_nothing_is_reserved_of_the_entity(world: World) -> None:
    it = await world.process()
    await it.limiter.set_limits("team-a", [USD])
    runs = [await opened(it, f"run-{number}", {"usd": "$2"}) for number in range(100)]
    for run in runs:
        async with run.acquire("gpt-4", {"usd": CENT}):
            pass
    assert await left_of(it) == {"usd": 99_000_000}


async def test_an_opening_is_one_write_and_a_call_one_for_each_bucket(world: World) -> None:
    it, other = await a_process(world), await a_process(world)
    amounts = {**BUDGET, "calls": 6}
    run = await opened(it, amounts=amounts)
    assert it.wire.sent() == ["Put"]
    joined = await opened(other, amounts=amounts)
    assert other.wire.sent() == ["Put"]
    by_name = await opened(other, amounts=())
    assert other.wire.sent() == ["Get"]
    await spend(run)
    assert sorted(it.wire.sent()) == ["BatchGet", "Put", "Update"]
    await spend(run)
    assert it.wire.sent() == ["Update"] * 2
    below = await run.budget("sub", {"usd": "$1"}).open()
    assert it.wire.sent() == ["Put"]
    await spend(below)
    it.wire.sent()
    await spend(below)
    assert it.wire.sent() == ["Update"] * 3
    for each in (joined, by_name):
        await spend(each)
    assert await run.left() == await joined.left() == await by_name.left() == {"calls": 0, "usd": 1_940_000}


async def test_the_first_opening_decides(world: World) -> None:
    it, other = await a_process(world), await a_process(world)
    run = await opened(it, expires=60)
    for amounts in ({"usd": "$3", "calls": 5}, {"usd": "$2"}, {**BUDGET, "more": 1}):
        with pytest.raises(ValidationError, match=r"is open with calls 5, usd \$2, not with .*: give the same"):
            await opened(other, amounts=amounts)
    joined = await opened(other, expires=DAY)
    assert joined.expires_in == run.expires_in == 60
    assert await joined.left() == {"calls": 5, "usd": 2_000_000}
    with pytest.raises(ValidationError, match="'run-2': is not open: give its amounts"):
        await opened(other, "run-2", ())


async def test_many_openings_make_one_budget(world: World) -> None:
    processes = [await a_process(world) for _ in range(4)]
    runs = await outcomes(*(opened(each) for each in processes))
    for run in runs:
        for _ in range(5):
            await spends(run)
    assert await runs[0].left() == {"calls": 0, "usd": 1_950_000}


async def test_two_tenants_may_name_their_runs_alike(world: World) -> None:
    it = await a_process(world)
    one, other = await opened(it), await opened(it, within="team-b")
    await spend(one)
    assert await other.left() == {"calls": 5, "usd": 2_000_000}


async def test_it_expires_for_every_process_and_is_not_opened_again(world: World) -> None:
    it, other = await a_process(world), await a_process(world)
    run, joined = await opened(it, expires=60), await opened(other)
    await spend(run)
    world.clock.advance(60)
    it.wire.sent(), other.wire.sent()
    for each, process in ((run, it), (joined, other)):
        with pytest.raises(
            BudgetEnded, match=r"the budget of run 'run-1' has expired: open one of another name"
        ) as over:
            await spend(each)
        assert process.wire.sent() == []
        assert (over.value.reason, over.value.expired, over.value.retry_after_header) == ("never", True, None)
        assert over.value.as_dict()["error"] == "budget_ended"
        assert each.expires_in == 0
    assert await run.left() == {"calls": 0, "usd": 0}
    for seconds in (0, 3600, WEEK - 7200):
        world.clock.advance(seconds)
        assert world.expire() == 0 or seconds
        with pytest.raises(BudgetEnded):
            await opened(other, amounts=BUDGET)
    world.clock.advance(2 * 3600)
    world.expire()
    assert world.bucket_of(it.limiter, run.entity_id, "budget") is None
    assert await (await opened(other)).left() == {"calls": 5, "usd": 2_000_000}


async def test_a_late_use_keeps_the_bucket_and_prolongs_nothing(world: World) -> None:
    it = await a_process(world)
    run = await opened(it, expires=60)
    async with run.acquire("gpt-4", {"tpm": 1}, costs={"usd": CENT}) as lease:
        world.clock.advance(3600)
        await lease.settle(usd=Decimal("0.5"))
        with pytest.raises(BudgetEnded):
            await lease.consume(usd=CENT)
    item = world.bucket_of(it.limiter, run.entity_id, "budget")
    assert item is not None
    assert item["b_usd_tc"] == 500_000_000
    assert item["ttl"] >= world.clock.now_ms() // 1000 + WEEK - 60
    assert not await spends(run)


async def test_its_end_holds_for_all_processes_whatever_comes_back(world: World) -> None:
    it, other = await a_process(world), await a_process(world)
    run, joined = await opened(it), await opened(other)
    await spend(joined, Decimal(1))
    with pytest.raises(ZeroDivisionError):
        async with joined.acquire("gpt-4", {"tpm": 1}, costs={"usd": Decimal(1)}):
            it.wire.sent()
            await run.end()
            assert it.wire.sent() == ["Update"]
            raise ZeroDivisionError
    with pytest.raises(BudgetEnded, match="was ended") as over:
        await spend(joined, Decimal(0), costs={"usd": 0, "calls": 0})
    assert not over.value.expired
    other.wire.sent()
    assert not await spends(joined)
    assert other.wire.sent() == []
    for process in (it, other):
        with pytest.raises(BudgetEnded, match="was ended"):
            await opened(process)
    await run.end()
    assert await run.left() == await joined.left() == {"calls": 0, "usd": 0}
    assert (await left_of(it))["tpm"] == 9_900


async def test_the_bucket_of_a_run_is_never_split(world: World) -> None:
    it = await a_process(world)
    run = await opened(it)
    state, bucket = it.limiter.namespace_state, BucketId(it.limiter.repository.namespace_id, run.entity_id, "budget")
    assert played(world.table, split_shard(state, bucket)) == 0
    await run.end()
    assert await run.left() == {"calls": 0, "usd": 0}


async def test_a_run_below_counts_in_all_above(world: World) -> None:
    it, other = await a_process(world), await a_process(world)
    run = await opened(it, expires=60)
    below = await run.budget("sub", {"usd": "$3", "tries": 9}, expires=DAY).open()
    assert below.entity_id == "run:run-1/sub@team-a"
    assert below.expires_in == 60
    await spend(below, Decimal(1), costs={"usd": Decimal(1), "tries": 1})
    assert await below.left() == {"tries": 8, "usd": 1_000_000}
    assert await run.left() == {"calls": 4, "usd": 1_000_000}
    with pytest.raises(RateLimitExceeded) as refused:
        await spend(below, costs={"usd": Decimal("1.5"), "tries": 1})
    assert refused.value.refused_by == run.entity_id
    joined = await (await opened(other, amounts=())).budget("sub").open()
    await spend(joined, costs={"usd": CENT, "tries": 1})
    assert await run.left() == {"calls": 3, "usd": 990_000}
    await joined.end()
    with pytest.raises(BudgetEnded, match="'sub' was ended"):
        await spend(below, costs={"usd": CENT, "tries": 1})
    assert await spends(run)
    again = await run.budget("again", {"tries": 1}).open()
    await run.end()
    with pytest.raises(BudgetEnded, match="'run-1' was ended"):
        await spend(again, costs={"usd": CENT, "tries": 1})
    with pytest.raises(BudgetEnded, match="'run-1' was ended"):
        await run.budget("third", {"tries": 1}).open()


async def test_a_block_opens_it_and_its_end_ends_nothing(world: World) -> None:
    it = await a_process(world)
    async with it.limiter.budget("run-1", BUDGET, within="team-a") as run, run.budget("sub", {"usd": "$1"}) as below:
        await spend(below)
    await spend(run)
    assert await run.left() == {"calls": 3, "usd": 1_980_000}


async def test_a_lease_settles_in_each_bucket_that_has_the_limit(world: World) -> None:
    it = await world.process(default_limits=[TPM, USD])
    run = await opened(it)
    async with run.acquire(
        "gpt-4", {"tpm": 900, "usd": CENT}, draws=[Draw(resource="search", consume={"tpm": 5})]
    ) as lease:
        assert lease.consumed == {"calls": 1, "tpm": 900, "usd": 10_000}
        assert [each.limit_name for each in lease.would_exceed(tpm=9_999, usd=Decimal(3))] == ["usd"]
        await lease.settle(tpm=100, usd=Decimal("0.30"))
        await lease.adjust(tpm=10, usd=CENT)
        await lease.release(usd=CENT)
        assert lease.consumed == {"calls": 1, "tpm": 110, "usd": 300_000}
        assert [draw.entity_id for draw in lease.draws] == ["team-a", run.entity_id]
        with pytest.raises(ValidationError, match="unknown limit 'rpm' in this lease"):
            await lease.settle(rpm=1)
    assert await run.left() == {"calls": 4, "usd": 1_700_000}
    assert await left_of(it) == {"tpm": 9_890, "usd": 99_700_000}


async def test_a_usage_is_priced_for_the_run(world: World) -> None:
    it = await world.process(default_limits=[Limit.per_day("tpm", 10_000, weights={"input": 1, "output": 2})])
    run = await opened(it, amounts={"usd": "$2"})

    def price(usage: TokenUsage) -> Mapping[str, Decimal]:
        return {"usd": Decimal(usage.output) / 1000}

    async with run.acquire("gpt-4", {"tpm": 900}, costs={"usd": Decimal(1)}, by_usage=price) as lease:
        await lease.settle(TokenUsage(input=100, output=50))
        assert lease.consumed == {"tpm": 200, "usd": 50_000}


async def test_a_settlement_of_a_run_is_recorded_of_all_or_of_none(world: World) -> None:
    it = await world.process(default_limits=[TPM, USD])
    run = await opened(it)

    def price(usage: TokenUsage) -> Mapping[str, Decimal]:
        raise LookupError(f"no price of {usage}")

    wrong: list[tuple[type[Exception], Callable[..., Any]]] = [
        (ValidationError, lambda lease: lease.settle(tpm=-1, usd=CENT)),
        (ValidationError, lambda lease: lease.settle(tpm=1, usd="a cent")),
        (ValidationError, lambda lease: lease.settle(tpm=1, calls=-1)),
        (LookupError, lambda lease: lease.settle(TokenUsage(input=1), tpm=1)),
    ]
    for error, settle in wrong:
        async with run.acquire("gpt-4", {"tpm": 100, "usd": CENT}, by_usage=price) as lease:
            with pytest.raises(error):
                await settle(lease)
            assert lease.consumed == {"calls": 1, "tpm": 100, "usd": 10_000}
            assert not lease.corrected
    assert await left_of(it) == {"tpm": 9_600, "usd": 99_960_000}


async def test_more_is_taken_of_all_or_of_none(world: World) -> None:
    it = await world.process(default_limits=[TPM, USD])
    run = await opened(it)
    async with run.acquire("gpt-4", {"tpm": 900, "usd": CENT}) as lease:
        await lease.consume(usd=Decimal(1), tpm=100)
        assert lease.consumed == {"calls": 1, "tpm": 1000, "usd": 1_010_000}
        for more in ({"usd": Decimal(1)}, {"tpm": 9_500, "calls": 1}):
            with pytest.raises(RateLimitExceeded):
                await lease.consume(**more)
            assert lease.consumed == {"calls": 1, "tpm": 1000, "usd": 1_010_000}
    assert await run.left() == {"calls": 4, "usd": 990_000}
    assert await left_of(it) == {"tpm": 9_000, "usd": 98_990_000}


@pytest.mark.parametrize("back", ["adjust", "release"])
async def test_a_correction_that_is_refused_corrects_nothing(world: World, back: str) -> None:
    it = await world.process(default_limits=[TPM, USD])
    run = await opened(it)
    below = await run.budget("search", {"usd": "$1"}).open()
    for own, of_runs in (("0.50", "0.10"), ("0.10", "0.50")):
        usd = Decimal("0.30")
        async with below.acquire("gpt-4", {"usd": Decimal(own)}, costs={"usd": Decimal(of_runs)}) as lease:
            with pytest.raises(ValidationError, match="no more can go back"):
                await getattr(lease, back)(usd=-usd if back == "adjust" else usd)
    assert await run.left() == {"calls": 3, "usd": 1_400_000}
    assert await below.left() == {"usd": 400_000}
    assert await left_of(it) == {"tpm": 10_000, "usd": 99_400_000}


async def test_who_slept_past_the_end_takes_nothing(world: World) -> None:
    it = await a_process(world)
    run = await opened(it, expires=60)
    await spend(run)

    def sleep() -> None:
        world.clock.advance(30 * DAY)
        assert world.expire() >= 1

    it.wire.first(sleep, on=Update)
    with pytest.raises(BudgetEnded, match="has expired"):
        await spend(run)
    assert (await left_of(it))["tpm"] == 10_000, "what it took has come back"
    with pytest.raises(ValidationError, match=r"its bucket, .* is not one of a run: take another name"):
        await opened(it)


async def test_more_that_comes_behind_the_end_goes_back(world: World) -> None:
    it = await a_process(world)
    run = await opened(it, amounts={"usd": "$2"}, expires=60)
    async with run.acquire("gpt-4", {"tpm": 1}, costs={"usd": Decimal(1)}) as lease:

        def sleep() -> None:
            world.clock.advance(30 * DAY)
            world.expire()

        it.wire.first(sleep, on=Update)
        for more in ({"usd": Decimal("0.5")}, {"tpm": 5}):
            with pytest.raises(BudgetEnded):
                await lease.consume(**more)
        assert lease.consumed == {"tpm": 1, "usd": 1_000_000}
    assert (await left_of(it))["tpm"] == 10_000


async def test_a_block_that_outlives_its_run_gives_nothing_to_the_next_one(world: World) -> None:
    it = await a_process(world)
    run = await opened(it, expires=60)
    with pytest.raises(ZeroDivisionError):
        async with run.acquire("gpt-4", {"tpm": 1}, costs={"usd": Decimal(1)}):
            world.clock.advance(WEEK + 3600)
            assert world.expire() >= 1
            again = await opened(it)
            await spend(again, Decimal(1))
            raise ZeroDivisionError
    assert await again.left() == {"calls": 4, "usd": 1_000_000}


async def test_a_handle_of_a_former_run_does_nothing_to_the_next_one(world: World) -> None:
    it = await a_process(world)
    former = await opened(it, expires=60)
    world.clock.advance(WEEK + 3600)
    assert world.expire() >= 1
    run = await opened(await a_process(world))
    await former.end()
    await spend(run)
    with pytest.raises(BudgetEnded):
        await former.budget("search", {"usd": "$1"}).open()
    await spend(await run.budget("search", {"usd": "$1"}).open())


async def test_a_run_below_lasts_as_long_as_the_one_above(world: World) -> None:
    await opened(await a_process(world), expires=DAY)
    joined = await opened(await a_process(world), amounts={})
    assert (await joined.budget("search", {"usd": "$1"}).open()).expires_in == DAY


async def test_a_wait_ends_with_the_budget(world: World) -> None:
    it = await world.process(default_limits=[Limit.per_hour("tpm", 100)])
    run = await opened(it, expires=60)
    await spend(run)
    with pytest.raises(RateLimitExceeded):
        await spend(run, max_wait=3600)


async def test_a_wait_of_the_levels_ends_with_the_budget(world: World) -> None:
    it = await world.process(default_limits=[Limit.per_hour("tpm", 100)])
    await it.limiter.set_limits("team-a", [Limit.per_hour("tpm", 100)], "gpt-4", on_refused=OnRefused(wait=3600))
    for known in (False, True):
        run = await opened(it, f"run-{known}", expires=60)
        with suppress(RateLimitExceeded):
            await spend(run)
        before = world.clock.now_ms()
        with pytest.raises(RateLimitExceeded):
            await spend(run)
        assert world.clock.now_ms() - before <= 61_000


async def test_a_lost_answer_opens_it_once(world: World) -> None:
    it = await a_process(world)
    it.wire.break_once(OutcomeUnknown("lost"), on=Put, applied=True)
    run = await opened(it)
    it.wire.break_once(OutcomeUnknown("lost"), on=Update, applied=True)
    await run.end()
    assert not await spends(run)


async def test_observers_hear_of_a_refusal_by_the_clock(world: World) -> None:
    events = list[Event]()
    it = await a_process(world, observers=[events.append])
    run = await opened(it, expires=60)
    await spend(run)
    world.clock.advance(60)
    assert not await spends(run)
    assert [each.outcome for each in events if isinstance(each, AcquireEvent)] == ["admitted", "refused"]


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": ""}, "budget ''"),
        ({"name": "a/b"}, "budget 'a/b': has a '/': leave it out"),
        ({"name": "a@b"}, "budget 'a@b': has a '@': leave it out"),
        ({"name": "$SYSTEM"}, "budget '\\$SYSTEM': is reserved"),
        ({"name": 7}, "budget 7"),
        ({"name": "x" * 250}, "entity of the budget"),
        ({"within": ""}, "within ''"),
        ({"amounts": {}}, r"budget {}: must map limits to amounts, like {'usd': '\$2', 'calls': 50}"),
        ({"amounts": 7}, "budget 7: must map limits"),
        ({"amounts": {"usd": "$2/day"}}, r"budget\['usd'\] '\$2/day'"),
        ({"amounts": {"usd": 2.5}}, "capacity of limit 'usd' 2.5"),
        ({"amounts": {"calls": True}}, "capacity of limit 'calls' True"),
        ({"amounts": {"calls": -1}}, "capacity of limit 'calls' -1"),
        ({"amounts": {7: 1}}, "budget 7"),
        ({"amounts": {"wcu": 1}}, "limit 'wcu'"),
        ({"expires": 0}, "expires 0: must be a number of seconds above 0"),
        ({"expires": True}, "expires True"),
        ({"expires": 10**9}, "expires 1000000000"),
    ],
)
async def test_a_bad_argument_is_named(world: World, change: dict[str, Any], says: str) -> None:
    it = await a_process(world)
    given = {"name": "run-1", "amounts": BUDGET, "within": "team-a", **change}
    with pytest.raises(ValidationError, match=says):
        it.limiter.budget(given.pop("name"), given.pop("amounts"), **given)


async def test_a_call_says_what_it_costs(world: World) -> None:
    it = await a_process(world)
    with pytest.raises(ValidationError, match="budget 'run-1': is not open"):
        it.limiter.budget("run-1", BUDGET, within="team-a").acquire("gpt-4", {"tpm": 1})
    run = await opened(it)
    costs: Any
    for costs, says in (
        (None, "the budget of run-1 has usd: say what the call costs of it, 0 for nothing"),
        ({"eur": 1, "usd": 1}, r"costs 'eur': is not a limit of the budget \(known: calls, usd\)"),
        (7, "costs 7: must map limits of the budget to amounts"),
        ({"usd": 1, "calls": Decimal(1)}, "counts tokens: give a whole number"),
        ({"usd": -1}, "usd"),
        ({"usd": 0.5}, "usd"),
    ):
        with pytest.raises(ValidationError, match=says):
            async with run.acquire("gpt-4", {"tpm": 1}, costs=costs):
                pass
    assert await run.left() == {"calls": 5, "usd": 2_000_000}


async def test_a_name_takes_no_bucket_of_another(world: World) -> None:
    it = await a_process(world)
    async with it.limiter.acquire("another", "budget", {"tpm": 1}):
        pass
    item = world.bucket_of(it.limiter, "another", "budget")
    assert item is not None
    pk = keys.pk_bucket(it.repository.namespace_id, "run:run-1@team-a", "budget", 0)
    world.table.execute(Put({**item, "PK": pk}))  # of a release that let such a name have one
    with pytest.raises(ValidationError, match="is not one of a run: take another name"):
        await opened(it)
    with pytest.raises(ValidationError, match="is not one of a run: take another name"):
        await opened(it, amounts=())


@pytest.mark.parametrize("given", [None, [Limit.per_second("usd", 10**7)]])
async def test_no_limits_of_others_widen_a_budget(world: World, given: Any) -> None:
    it, other = await a_process(world), await a_process(world)
    run = await opened(it)
    await it.limiter.set_system_defaults([Limit.per_second("usd", 10**7)])
    with pytest.raises(ValidationError, match="is of a run"):  # a client's names may be those of the bucket
        other.limiter.acquire(run.entity_id, "budget", {"usd": 10_000}, limits=given)
    for _ in range(2):
        assert await spends(run, Decimal("0.9"))
        world.clock.advance(120)
    assert await run.left() == {"calls": 3, "usd": 200_000}
    assert not await spends(run, Decimal("0.9"))


async def test_only_the_calls_of_a_run_draw_on_it(world: World) -> None:
    it = await a_process(world)
    run, other = await opened(it), await opened(it, "run-2")
    draws = [Draw(run.entity_id, "budget", {"usd": 10_000})]
    attempts: list[Callable[[], Any]] = [
        lambda: it.limiter.acquire("another", "r", {"tpm": 1}, draws=draws),
        lambda: it.limiter.acquire(run.entity_id, "r", {"usd": 1}, draws=[Draw(resource="budget")]),
        lambda: it.limiter.acquire("another", "budget", {"usd": 1}, draws=[Draw(run.entity_id)]),
        lambda: other.acquire("gpt-4", {"tpm": 1}, costs={"usd": CENT}, draws=draws),
    ]
    for refused in attempts:
        with pytest.raises(InvalidIdentifierError, match=r"is of a run: acquire from its `limiter\.budget"):
            refused()
    async with it.limiter.acquire("another", "r", {"tpm": 1}, draws=[Draw("another", "budget")]):
        pass  # a resource of this name is as any other
    assert await run.left() == {"calls": 5, "usd": 2_000_000}


async def test_refusals_by_any_number_of_runs_need_one_place(world: World) -> None:
    it = await a_process(world)
    for number in range(40):
        run = await opened(it, f"run-{number}", {"usd": "$1"})
        assert not await spends(run, Decimal(2))
    for _ in range(2):  # a new bucket leaves the counts to its next write
        await spend(run)
    item = world.bucket_of(it.limiter, *TEAM)
    assert item is not None
    assert {name: each for name, each in item.items() if name.startswith("rj")} == {"rj": 40, "rj_run:*/usd": 40}


async def test_a_refusal_survives_a_pickle(world: World) -> None:
    it = await a_process(world)
    run = await opened(it)
    await run.end()
    with pytest.raises(BudgetEnded) as over:
        await spend(run)
    again = pickle.loads(pickle.dumps(over.value))
    assert (str(again), again.as_dict()) == (str(over.value), over.value.as_dict())
