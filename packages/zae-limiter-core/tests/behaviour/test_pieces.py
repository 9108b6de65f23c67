"""What a stream takes piece by piece, what that costs, and what its lease stands for at its end, in both variants."""
# ruff: noqa: PT012 - a stream that is cut takes more than one line

import asyncio
import math
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from support.core.worlds import World, pieces_of, until
from zae_limiter import Draw, Limit, RateLimiter, RateLimitExceeded, Repository, TokenUsage, ValidationError
from zae_limiter.exceptions import LeaseExpiredError, RateLimiterUnavailable
from zae_limiter.operations.errors import Unreachable
from zae_limiter.operations.values import Update
from zae_limiter.streams import Pieces, SyncPieces

TPD = Limit.per_day("tpd", 1000)
TOTAL = Limit.custom("tokens", 1000, kind="total")


@pytest.mark.parametrize(
    ("tokens", "first", "piece"), [(1, 10, 10), (10, 10, 10), (11, 10, 10), (95, 25, 10), (7, 1, 3)]
)
async def test_a_stream_makes_a_request_for_each_piece_but_the_first(
    world: World, tokens: int, first: int, piece: int
) -> None:
    limiter, wire = await world.process(default_limits=[TPD])
    async with limiter.acquire("e", "r", {"tpd": first}) as lease:
        wire.sent()
        pieces = pieces_of(lease, {"tpd": piece})
        for _ in range(tokens):
            await pieces.add(tpd=1)
        requests = max(0, math.ceil((tokens - first) / piece))
        assert wire.sent() == ["Update"] * requests
        assert (pieces.used, lease.consumed) == ({"tpd": tokens}, {"tpd": tokens})
    assert len(wire.sent()) == (first + requests * piece != tokens)  # the end gives the rest back
    assert await limiter.available("e", "r") == {"tpd": 1000 - tokens}


async def test_a_part_makes_one_request_for_all_its_pieces(world: World) -> None:
    limiter, wire = await world.process(default_limits=[TPD])
    async with limiter.acquire("e", "r", {"tpd": 1}) as lease:
        pieces = pieces_of(lease, {"tpd": 10})
        wire.sent()
        await pieces.add(tpd=95)
        assert wire.sent() == ["Update"]
        await pieces.add(tpd=6)  # of the 101 that it holds
        assert wire.sent() == []


async def test_pieces_grow(world: World) -> None:
    limiter, wire = await world.process(default_limits=[TPD])
    async with limiter.acquire("e", "r", {"tpd": 0}) as lease:
        pieces = pieces_of(lease, {"tpd": 10}, growth=2, most=4)
        wire.sent()
        for _ in range(150):
            await pieces.add(tpd=1)
        assert len(wire.sent()) == 5  # 10, 20, 40, 40, 40


async def test_tasks_that_count_at_once_make_one_request_at_a_time(world: World) -> None:
    limiter, wire = await world.process(default_limits=[TPD])
    async with limiter.acquire("e", "r", {"tpd": 0}) as lease:
        pieces = pieces_of(lease, {"tpd": 10})
        wire.sent()
        wire.seconds = 0.01
        await asyncio.gather(*(pieces.add(tpd=1) for _ in range(40)))
        assert (wire.sent(), lease.consumed) == (["Put", *["Update"] * 3], {"tpd": 40})


async def test_a_refused_piece_ends_the_stream_and_what_was_left_has_flowed(world: World) -> None:
    limiter, wire = await world.process(default_limits=[TOTAL])
    delivered = 0
    async with limiter.acquire("e", "r", {"tokens": 100}) as lease:
        pieces = pieces_of(lease, {"tokens": 400})
        wire.sent()
        with pytest.raises(RateLimitExceeded) as cut:
            while True:
                await pieces.add(tokens=7)
                delivered += 7
        assert pieces.cut is cut.value
        assert pieces.used == {"tokens": delivered}
        with pytest.raises(LeaseExpiredError):
            await pieces.add(tokens=1)
    assert delivered == 994
    assert await limiter.available("e", "r") == {"tokens": 6}
    assert len(wire.sent()) <= 6  # two pieces, one refused, the rest, refused again, the end


async def test_the_rest_is_not_taken_twice_in_a_row(world: World) -> None:
    limiter, _ = await world.process(default_limits=[Limit.per_second("tps", 100)])
    async with limiter.acquire("e", "r", {"tps": 0}) as lease:
        pieces = pieces_of(lease, {"tps": 80})
        await pieces.add(tps=80)
        await pieces.add(tps=20)  # the rest
        world.clock.advance(ms=300)
        with pytest.raises(RateLimitExceeded):
            await pieces.add(tps=5)
    async with limiter.acquire("e", "r", {"tps": 0}) as lease:
        pieces = pieces_of(lease, {"tps": 80})
        await pieces.add(tps=20)  # the rest
        world.clock.advance(ms=1000)
        await pieces.add(tps=60)  # a whole piece is there again
        await pieces.add(tps=30)  # and so the next rest


async def test_two_streams_share_what_is_left_and_are_never_over(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TOTAL])
    other, _ = await world.process(default_limits=[TOTAL])

    async def stream(of: RateLimiter) -> int:
        async with of.acquire("e", "r", {"tokens": 10}) as lease:
            pieces = pieces_of(lease, {"tokens": 50})
            with suppress(RateLimitExceeded):
                while True:
                    await pieces.add(tokens=3)
                    await asyncio.sleep(0)
            return pieces.used["tokens"]

    delivered = await asyncio.gather(stream(limiter), stream(other), stream(limiter))
    left = (await limiter.available("e", "r"))["tokens"]
    assert sum(delivered) + left == 1000
    assert 0 <= left < 100


@pytest.mark.parametrize("how", ["returns", "raises", "leaves"])
async def test_what_flowed_counts_however_the_stream_ends(world: World, how: str) -> None:
    limiter, _ = await world.process(default_limits=[TPD])

    async def stream() -> Any:
        async with limiter.acquire("e", "r", {"tpd": 100}) as lease:
            pieces = pieces_of(lease, {"tpd": 100})
            for number in range(210):
                await pieces.add(tpd=1)
                yield number
            if how == "raises":
                raise OSError

    parts = stream()
    with suppress(OSError):
        async for number in parts:
            if how == "leaves" and number == 149:
                break
    await parts.aclose()
    assert await limiter.available("e", "r") == {"tpd": 850 if how == "leaves" else 790}


async def test_a_cancelled_stream_counts_what_flowed(async_world: World) -> None:
    limiter, wire = await async_world.process(default_limits=[TPD])
    flowing = asyncio.Event()

    async def stream() -> None:
        async with limiter.acquire("e", "r", {"tpd": 10}) as lease:
            pieces = pieces_of(lease, {"tpd": 10})
            await pieces.add(tpd=15)
            flowing.set()
            wire.seconds = 0.05
            await pieces.add(tpd=40)

    task = asyncio.create_task(stream())
    await flowing.wait()
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    wire.seconds = 0.0
    await until(lambda: wire.in_flight == 0)
    assert await limiter.available("e", "r") == {"tpd": 985}


@pytest.mark.parametrize("end", ["block", "settlement"])
async def test_an_extension_under_way_when_the_stream_ends_goes_back(world: World, end: str) -> None:
    limiter, wire = await world.process(default_limits=[TPD])
    async with limiter.acquire("e", "r", {"tpd": 10}) as lease:
        pieces = pieces_of(lease, {"tpd": 50})
        await pieces.add(tpd=8)
        wire.hold(Update)
        late = asyncio.create_task(pieces.add(tpd=20))
        await until(lambda: wire.in_flight > 0)
        if end == "settlement":
            pieces.end()
            await lease.settle(tpd=7)
            wire.let_go()
            with pytest.raises(LeaseExpiredError):
                await late
        else:
            asyncio.get_running_loop().call_later(0.05, wire.let_go)
    if end == "block":
        with pytest.raises(LeaseExpiredError):
            await late
    assert await limiter.available("e", "r") == {"tpd": 993 if end == "settlement" else 992}
    with pytest.raises(LeaseExpiredError):
        await pieces.add(tpd=1)


async def test_no_piece_is_taken_after_the_end(world: World) -> None:
    limiter, wire = await world.process(default_limits=[TPD])
    async with limiter.acquire("e", "r", {"tpd": 10}) as lease:
        pieces = pieces_of(lease, {"tpd": 10})
        await pieces.add(tpd=5)
    wire.sent()
    with pytest.raises(LeaseExpiredError):
        await pieces.add(tpd=1)
    with pytest.raises(LeaseExpiredError):
        await pieces.reach(tpd=50)
    assert wire.sent() == []


async def test_what_the_provider_counted_is_settled_at_the_end(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPD])
    async with limiter.acquire("e", "r", {"tpd": 10}) as lease:
        pieces = pieces_of(lease, {"tpd": 10})
        await pieces.add(tpd=25)
        pieces.end()
        await lease.settle(tpd=33)
    assert await limiter.available("e", "r") == {"tpd": 967}


async def test_kinds_of_tokens_and_the_money_of_a_draw_have_pieces(world: World) -> None:
    limiter, _ = await world.process()
    await limiter.repository.set_limits("e", [Limit.per_day("tpd", 10_000, weights={"input": 1, "output": 4})], "r")
    await limiter.repository.set_limits("team", [Limit.money("usd", "0.001", per="month")], "budget")

    def price(usage: TokenUsage) -> dict[str, int]:
        return {"usd": 3 * usage.output}

    draw = Draw("team", "budget", {"usd": 100}, by_usage=price)
    async with limiter.acquire("e", "r", {"tpd": 100}, draws=[draw]) as lease:
        pieces = [pieces_of(lease, {"tpd": 500}), pieces_of(lease.draws[0], {"usd": 200})]
        output = 0
        with pytest.raises(RateLimitExceeded) as cut:
            while True:
                for each in pieces:
                    await each.reach(TokenUsage(input=50, output=output + 1))
                output += 1
        assert (cut.value.refused_by, output) == ("team", 333)
        await pieces[0].reach(TokenUsage(input=50, output=output))
    assert await limiter.available("team", "budget") == {"usd": 1}
    assert await limiter.available("e", "r") == {"tpd": 10_000 - 50 - 4 * 333}


def cents(usage: TokenUsage) -> dict[str, int]:
    return {"usd": 3 * usage.output}


async def test_a_draw_by_usage_is_charged_while_the_stream_flows(world: World) -> None:
    limiter, wire = await world.process(default_limits=[TPD])
    budget = [Limit.money("usd", "0.001", per="month"), Limit.concurrent("slots", 3)]
    draw = Draw("team", "budget", {"usd": 100, "slots": 1}, by_usage=cents, limits=budget)
    async with limiter.acquire("e", "r", {"tpd": 1000}, draws=[draw]) as lease:
        pieces = pieces_of(lease, {"tpd": 100})
        wire.sent()
        await pieces.reach(TokenUsage(output=33), tpd=33)
        assert wire.sent() == []
        await pieces.reach(TokenUsage(output=34), tpd=34)
        assert (wire.sent(), lease.draws[0].consumed) == (["Update"], {"usd": 102, "slots": 1})
        with pytest.raises(RateLimitExceeded) as cut:
            for output in range(35, 1000):
                await pieces.reach(TokenUsage(output=output), tpd=output)
        assert (cut.value.refused_by, pieces.cut, pieces.used) == ("team", cut.value, {"tpd": 333})
    assert (await limiter.available("team", "budget", limits=budget))["usd"] == 1
    assert await limiter.available("e", "r") == {"tpd": 667}


async def test_a_draw_of_the_calls_amounts_counts_what_flows(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPD])
    draw = Draw("team", "r", limits=[Limit.total("tpd", 45)])
    async with limiter.acquire("e", "r", {"tpd": 10}, draws=[draw]) as lease:
        pieces = pieces_of(lease, {"tpd": 10})
        with pytest.raises(RateLimitExceeded) as cut:
            for _ in range(100):
                await pieces.add(tpd=2)
        assert (cut.value.refused_by, pieces.used) == ("team", {"tpd": 44})
    assert await limiter.available("team", "r", limits=[Limit.total("tpd", 45)]) == {"tpd": 1}
    assert await limiter.available("e", "r") == {"tpd": 956}


async def test_a_draw_with_pieces_of_its_own_is_charged_by_these(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPD])
    budget = [Limit.money("usd", 1, per="month")]
    draws = [Draw("team", "budget", {"usd": 1}, by_usage=cents, limits=budget), Draw("team", "r", limits=[TPD])]
    async with limiter.acquire("e", "r", {"tpd": 10}, draws=draws) as lease:
        pieces = pieces_of(lease, {"tpd": 10})
        own = pieces_of(lease.draws[0], {"usd": 50}), pieces_of(lease.draws[1], {"tpd": 50})
        await pieces.reach(TokenUsage(output=30), tpd=30)
        assert [each.consumed for each in lease.draws] == [{"usd": 1}, {"tpd": 10}]
        await own[0].reach(TokenUsage(output=7))
        await own[1].add(tpd=12)
    assert await limiter.available("team", "budget", limits=budget) == {"usd": 1_000_000 - 21}
    assert await limiter.available("team", "r", limits=[TPD]) == {"tpd": 988}


async def test_a_price_that_is_missing_ends_no_stream(world: World, caplog: pytest.LogCaptureFixture) -> None:
    def missing(_: TokenUsage) -> dict[str, int]:
        raise LookupError("gpt-9")

    limiter, _ = await world.process(default_limits=[TPD])
    budget = [Limit.money("usd", 1, per="month")]
    draw = Draw("team", "budget", {"usd": 50}, by_usage=missing, limits=budget)
    async with limiter.acquire("e", "r", {"tpd": 10}, draws=[draw]) as lease:
        pieces = pieces_of(lease, {"tpd": 10})
        for output in (10, 20, 30):
            await pieces.reach(TokenUsage(output=output), tpd=output)
    assert [each.getMessage() for each in caplog.records] == ["team/budget keeps its estimate: its by_usage failed"]
    assert await limiter.available("team", "budget", limits=budget) == {"usd": 1_000_000 - 50}


async def test_the_money_of_a_run_is_charged_while_the_stream_flows(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPD])
    run = await limiter.budget("run", {"usd": "$0.0003"}, within="e").open()
    async with run.acquire("r", {"tpd": 1000}, costs={"usd": 100}, by_usage=cents) as lease:
        pieces = pieces_of(lease, {"tpd": 10})
        with pytest.raises(RateLimitExceeded):
            for output in range(1000):
                await pieces.reach(TokenUsage(output=output), tpd=output)
        assert pieces.used == {"tpd": 100}
    assert (await run.left(), await limiter.available("e", "r")) == ({"usd": 0}, {"tpd": 900})


@pytest.mark.parametrize("policy", ["allow", "block"])
async def test_in_an_outage_the_policy_decides(world: World, policy: Any) -> None:
    limiter, wire = await world.process(default_limits=[TPD], on_unavailable=policy)
    async with limiter.acquire("e", "r", {"tpd": 10}) as lease:
        pieces = pieces_of(lease, {"tpd": 10})
        wire.break_down(Unreachable("away"))
        if policy == "allow":
            await pieces.add(tpd=35)
            assert (lease.degraded, lease.consumed) == (True, {"tpd": 35})
        else:
            with pytest.raises(RateLimiterUnavailable):
                await pieces.add(tpd=35)
            assert isinstance(pieces.cut, RateLimiterUnavailable)
        wire.repair()
        await lease.settle(tpd=10)
    assert await limiter.available("e", "r") == {"tpd": 990}


@pytest.mark.parametrize(
    ("sizes", "options", "problem"),
    [
        ({}, {}, "sizes {}: name the tokens of a piece by limit"),
        ({"tpd": 0}, {}, "a piece has at least one token"),
        ({"tpm": 5}, {}, "unknown limit 'tpm' in this lease"),
        ({"slots": 1}, {}, "has slots, which are not corrected"),
        ({"tpd": 5}, {"growth": 0.5}, "growth 0.5: must be a number from 1"),
        ({"tpd": 5}, {"most": math.inf}, "most inf: must be a number from 1"),
    ],
)
async def test_bad_sizes_are_refused(world: World, sizes: dict[str, int], options: Any, problem: str) -> None:
    limiter, _ = await world.process(default_limits=[TPD, Limit.concurrent("slots", 3)])
    async with limiter.acquire("e", "r", {"tpd": 10}) as lease:
        with pytest.raises(ValidationError, match=problem):
            pieces_of(lease, sizes, **options)


async def test_a_limit_without_a_size_is_refused(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPD, Limit.per_day("rpd", 5)])
    async with limiter.acquire("e", "r", {"tpd": 10}) as lease:
        with pytest.raises(ValidationError, match="name a size of rpd"):
            await pieces_of(lease, {"tpd": 5}).add(rpd=1)


async def test_a_file_has_the_same(tmp_path: Path) -> None:
    async with await Repository.sqlite(tmp_path / "limits.db") as repository:
        limiter = RateLimiter(repository, default_limits=[TOTAL])
        async with limiter.acquire("e", "r", {"tokens": 100}) as lease:
            pieces = Pieces(lease, {"tokens": 400})
            with pytest.raises(RateLimitExceeded):
                while True:
                    await pieces.add(tokens=7)
        assert await limiter.available("e", "r") == {"tokens": 6}


def test_both_variants_say_the_same() -> None:
    assert {name for name in dir(Pieces) if name[0] != "_"} == {name for name in dir(SyncPieces) if name[0] != "_"}


@pytest.mark.parametrize(("of_team", "of_run", "flows"), [(1000, 50, 50), (50, 1000, 50)])
async def test_a_run_is_counted_with_its_lease(world: World, of_team: int, of_run: int, flows: int) -> None:
    limiter, _ = await world.process(default_limits=[Limit.custom("tokens", of_team, kind="total")])
    outer = await limiter.budget("run", {"tokens": of_run}, within="e").open()
    run = await outer.budget("sub", {"tokens": 900}).open()
    async with run.acquire("r", {"tokens": 10}) as lease:
        pieces = pieces_of(lease, {"tokens": 10})
        with pytest.raises(RateLimitExceeded):
            for _ in range(100):
                await pieces.add(tokens=5)
        with pytest.raises(LeaseExpiredError):
            await pieces.add(tokens=0)
    assert await limiter.available("e", "r") == {"tokens": of_team - flows}
    assert (await outer.left(), await run.left()) == ({"tokens": of_run - flows}, {"tokens": min(of_run, 900) - flows})


async def test_a_stream_of_a_run_ends_once(world: World) -> None:
    limiter, wire = await world.process(default_limits=[TOTAL])
    run = await limiter.budget("run", {"tokens": 100}, within="e").open()
    async with run.acquire("r", {"tokens": 10}) as lease:
        pieces = pieces_of(lease, {"tokens": 10})
        await pieces.add(tokens=25)
        pieces.end()
        await lease.settle(tokens=12)
        wire.sent()
    assert await limiter.available("e", "r") == {"tokens": 988}
    assert await run.left() == {"tokens": 88}


async def test_a_limit_has_one_pieces_of_a_lease(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPD, Limit.per_day("tph", 1000)])
    draw = Draw("team", "r", {"tpd": 1}, limits=[TPD])
    async with limiter.acquire("e", "r", {"tpd": 10, "tph": 10}, draws=[draw]) as lease:
        with pytest.raises(ValidationError, match="a piece has at least one token"):
            pieces_of(lease, {"tpd": 0})
        pieces = [pieces_of(lease, {"tpd": 10}), pieces_of(lease, {"tph": 5}), pieces_of(lease.draws[0], {"tpd": 5})]
        for sizes in ({"tpd": 10}, {"tph": 5, "tpd": 5}):
            with pytest.raises(
                ValidationError, match=r"sizes \['tpd'.*\]: have Pieces of this lease: count both streams"
            ):
                pieces_of(lease, sizes)
        await pieces[0].add(tpd=30)
        await pieces[1].add(tph=20)
        await pieces[2].add(tpd=40)
    assert await limiter.available("e", "r") == {"tpd": 970, "tph": 980}
    assert await limiter.available("team", "r", limits=[TPD]) == {"tpd": 960}


async def repeats(limiter: RateLimiter, flows: int, settles: int | None = None) -> bool:
    """Whether a stream of one key was a repeat."""
    async with limiter.acquire("e", "r", {"tpd": 10}, idempotency_key="k") as lease:
        pieces = pieces_of(lease, {"tpd": 10})
        for _ in range(flows):
            await pieces.add(tpd=1)
        if settles is not None:
            pieces.end()
            await lease.settle(tpd=settles)
        assert lease.consumed == {"tpd": flows if settles is None else settles}
        return bool(lease.repeated)


async def test_what_flows_counts_in_each_try_of_a_key(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPD])
    assert [await repeats(limiter, 35), await repeats(limiter, 7), await repeats(limiter, 25, 23)] == [
        False,
        True,
        True,
    ]
    assert await limiter.available("e", "r") == {"tpd": 1000 - 35 - 7 - 23}


async def test_the_draws_of_a_stream_count_in_each_try_of_a_key(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPD])
    budget = [Limit.money("usd", 1, per="month")]
    draws = [Draw("team", "budget", {"usd": 10}, by_usage=cents, limits=budget), Draw("team", "r", limits=[TPD])]
    for output in (20, 30):
        async with limiter.acquire("e", "r", {"tpd": 10}, draws=draws, idempotency_key="k") as lease:
            await pieces_of(lease, {"tpd": 10}).reach(TokenUsage(output=output), tpd=output)
    assert await limiter.available("team", "budget", limits=budget) == {"usd": 1_000_000 - 150}
    assert await limiter.available("team", "r", limits=[TPD]) == {"tpd": 950}


async def test_a_repeat_is_cut_where_nothing_is_left(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPD])
    await repeats(limiter, 995)
    with pytest.raises(RateLimitExceeded):
        await repeats(limiter, 6)
    assert await limiter.available("e", "r") == {"tpd": 0}


@pytest.mark.parametrize("settles", [None, 4])
async def test_streams_of_one_key_at_once_count_both(world: World, settles: int | None) -> None:
    limiter, _ = await world.process(default_limits=[TPD])
    async with limiter.acquire("e", "r", {"tpd": 10}, idempotency_key="k") as first:
        pieces = pieces_of(first, {"tpd": 10})
        await pieces.add(tpd=15)
        assert await repeats(limiter, 22)
        async with limiter.acquire("e", "r", {"tpd": 10}, idempotency_key="k") as repeat:
            if settles is not None:
                await repeat.settle(tpd=settles)  # from what the service has stored: the settlement of the key
        await pieces.add(tpd=10)
    assert await limiter.available("e", "r") == {"tpd": 1000 - 25 - 22 - (settles or 0)}


async def test_the_first_settlement_of_a_key_is_none_of_a_stream(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPD])
    async with limiter.acquire("e", "r", {"tpd": 10}, idempotency_key="k") as first:
        assert await repeats(limiter, 22, 21)
        await first.settle(tpd=3)
    assert await limiter.available("e", "r") == {"tpd": 1000 - 3 - 21}


async def test_a_stream_after_the_end_of_its_key_counts_what_flowed(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPD])
    async with limiter.acquire("e", "r", {"tpd": 10}, idempotency_key="k", key_life=60) as lease:
        pieces = pieces_of(lease, {"tpd": 10})
        await pieces.add(tpd=35)
        world.clock.advance(seconds=61)
        world.expire()
    assert await limiter.available("e", "r") == {"tpd": 1000 - 10 - 35}  # who has settled the key is not known


async def test_the_pieces_of_a_run_count_in_each_try_of_a_key(world: World) -> None:
    limiter, _ = await world.process(default_limits=[TPD])
    run = await limiter.budget("run", {"tpd": 500}, within="e").open()
    for flows in (30, 40):
        async with run.acquire("r", {"tpd": 10}, idempotency_key="k") as lease:
            await pieces_of(lease, {"tpd": 10}).add(tpd=flows)
    assert (await limiter.available("e", "r"), await run.left()) == ({"tpd": 930}, {"tpd": 430})
