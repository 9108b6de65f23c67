"""A retried call counts once in a run and in a decorated function, in both variants.

What lives here: keys by other doors than ``acquire``. What never does: the rules of a key (test_retried_calls).
"""

import asyncio
import subprocess
import sys
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from support.core.copies import copy, table_over
from support.core.worlds import Process, World, outcomes
from zae_limiter import Draw, Limit, RateLimiter, RateLimitExceeded, SyncRateLimiter, SyncRepository, ValidationError
from zae_limiter.aio.budgets import RunBudget
from zae_limiter.engines.memory.store import SyncMemoryStore
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.exceptions import BudgetEnded, IdempotencyKeyError
from zae_limiter.observers import AcquireEvent, Event, LeaseEvent
from zae_limiter.operations.errors import Unreachable
from zae_limiter.operations.values import BatchGet

TPM = Limit.total("tpm", 10_000)
BUDGET: dict[str, Any] = {"usd": "$2", "calls": 5}
CENT, DOLLAR = Decimal("0.01"), Decimal(1)
WEEK = 7 * 24 * 3600
KEY = "step-7"


class Failed(Exception):
    """What a block raises."""


async def a_process(world: World, **options: Any) -> Process:
    return await world.process(default_limits=[TPM], **options)


async def opened(process: Process, name: str = "run-1", amounts: Any = None, **options: Any) -> RunBudget:
    amounts = BUDGET if amounts is None else amounts
    return await process.limiter.budget(name, amounts or None, **{"within": "team-a", **options}).open()


async def step(run: RunBudget, usd: Decimal = CENT, *, fails: bool = False, **options: Any) -> bool:
    """Whether a call of the run was a repeat."""
    options = {"idempotency_key": KEY, **options}
    try:
        async with run.acquire("gpt-4", {"tpm": 100}, costs={"usd": usd}, **options) as lease:
            repeated: bool = lease.repeated
            if fails:
                raise Failed
    except Failed:
        pass
    return repeated


async def left(process: Process, *place: str) -> int:
    return (await process.limiter.available(*(place or ("team-a", "gpt-4"))))["tpm"]


# runs


async def test_a_retried_call_of_a_run_counts_once(world: World) -> None:
    it, other = await a_process(world), await a_process(world)
    run, joined = await opened(it), await opened(other, amounts={})
    assert [await step(each) for each in (run, run, joined, joined)] == [False, True, True, True]
    assert await run.left() == {"calls": 4, "usd": 1_990_000}
    assert await left(it) == 9_900


async def test_a_key_of_a_run_stands_for_its_costs(world: World) -> None:
    run = await opened(await a_process(world))
    await step(run)
    with pytest.raises(IdempotencyKeyError, match=r"^idempotency_key 'step-7': stands for a call of team-a/gpt-4 with"):
        await step(run, 2 * CENT)
    assert await run.left() == {"calls": 4, "usd": 1_990_000}


async def test_a_key_is_of_one_run(world: World) -> None:
    it = await a_process(world)
    run, other = await opened(it), await opened(it, "run-2")
    below = await run.budget("sub", {"usd": "$1"}).open()
    assert [await step(each) for each in (run, other, below)] == [False] * 3
    async with it.limiter.acquire("team-a", "gpt-4", {"tpm": 100}, idempotency_key=KEY) as lease:
        assert not lease.repeated
    assert [await step(each) for each in (run, other, below)] == [True] * 3
    assert (await run.left(), await other.left()) == ({"calls": 3, "usd": 1_980_000}, {"calls": 4, "usd": 1_990_000})
    assert await below.left() == {"usd": 990_000}
    assert await left(it) == 9_600


async def test_no_call_by_the_name_of_a_run_reaches_its_keys(world: World) -> None:
    it = await a_process(world)
    run = await opened(it)
    async with it.limiter.acquire(run.entity_id, "gpt-4", {"tpm": 100}, idempotency_key=KEY):
        pass
    assert not await step(run)


async def test_of_tries_at_once_with_other_amounts_one_counts(world: World) -> None:
    it, other = await a_process(world), await a_process(world)
    amounts = {"usd": "$2", "calls": 100}  # each try takes before it claims the key
    runs = await opened(it, amounts=amounts), await opened(other, amounts=amounts)
    tries = [
        step(run, usd, idempotency_key=f"step-{number}")
        for number in range(3)
        for run in runs
        for usd in (CENT, 2 * CENT)
    ]
    found = await outcomes(*tries)
    assert {type(each) for each in found} == {bool, IdempotencyKeyError}
    left_of_run = await runs[0].left()
    assert left_of_run["calls"] == 97
    assert await left(it) == 9_700
    assert 2_000_000 - left_of_run["usd"] in {30_000, 40_000, 50_000, 60_000}


async def test_a_repeat_is_admitted_though_the_run_has_nothing_left(world: World) -> None:
    run = await opened(await a_process(world))
    await step(run, 2 * DOLLAR)
    assert await step(run, 2 * DOLLAR)
    with pytest.raises(RateLimitExceeded):
        await step(run, 2 * DOLLAR, idempotency_key="another")


@pytest.mark.parametrize("max_wait", [0, 9])
@pytest.mark.parametrize("tpm", [100, 10_000])
async def test_no_retry_passes_once_its_run_is_ended(world: World, max_wait: float, tpm: int) -> None:
    """Neither where the run was ended, nor where that was not seen: a repeat may ask no bucket at all."""
    it, other = await a_process(world), await a_process(world)
    run, joined = await opened(it), await opened(other, amounts={})
    options: dict[str, Any] = {"costs": {"usd": CENT}, "idempotency_key": KEY, "max_wait": max_wait}
    for each in (run, joined):
        async with each.acquire("gpt-4", {"tpm": tpm}, **options):
            pass
    await run.end()
    for each in (joined, run):
        with pytest.raises(BudgetEnded):
            async with each.acquire("gpt-4", {"tpm": tpm}, **options):
                pass
    assert await left(it) == 10_000 - tpm


async def test_no_retry_passes_once_the_run_above_is_ended(world: World) -> None:
    it, other = await a_process(world), await a_process(world)
    run, joined = await opened(it), await opened(other, amounts={})
    below = await joined.budget("sub", {"usd": "$1"}).open()
    await step(below)
    await run.end()
    with pytest.raises(BudgetEnded, match="'run-1' was ended"):
        await step(below, max_wait=9)


async def test_a_later_run_of_the_name_knows_no_key_of_the_former(world: World) -> None:
    it = await a_process(world)
    await step(await opened(it, expires=60), key_life=30 * 24 * 3600)
    world.clock.advance(60 + WEEK + 1)
    world.table.expire(world.clock.now_ms() // 1000)
    again = await opened(it)
    assert not await step(again)
    assert await again.left() == {"calls": 4, "usd": 1_990_000}


async def test_a_call_of_a_run_that_fails_frees_its_key(world: World) -> None:
    it = await a_process(world)
    run = await opened(it)
    assert [await step(run, fails=True) for _ in range(2)] == [False, False]
    assert (await run.left(), await left(it)) == ({"calls": 5, "usd": 2_000_000}, 10_000)
    assert not await step(run)
    assert await step(run, fails=True)
    assert (await run.left(), await left(it)) == ({"calls": 4, "usd": 1_990_000}, 9_900)


async def test_the_first_settlement_in_a_run_counts_in_it_and_in_the_entity(world: World) -> None:
    it = await a_process(world)
    run = await opened(it)
    for number, (tpm, usd) in enumerate([(50, CENT), (700, DOLLAR)]):
        async with run.acquire("gpt-4", {"tpm": 100}, costs={"usd": 5 * CENT}, idempotency_key=KEY) as lease:
            assert lease.repeated == bool(number)
            await lease.settle(tpm=tpm, usd=usd)
    assert (await run.left(), await left(it)) == ({"calls": 4, "usd": 1_990_000}, 9_950)


async def test_what_a_repeat_in_a_run_takes_beside_its_key_goes_back_with_it(world: World) -> None:
    it = await a_process(world)
    run = await opened(it)
    await step(run)
    with pytest.raises(Failed):  # noqa: PT012 - a block under a lease
        async with run.acquire("gpt-4", {"tpm": 100}, costs={"usd": CENT}, idempotency_key=KEY) as lease:
            await lease.consume(tpm=5, usd=CENT)
            assert await run.left() == {"calls": 4, "usd": 1_980_000}
            raise Failed
    assert (await run.left(), await left(it)) == ({"calls": 4, "usd": 1_990_000}, 9_900)


async def test_tries_at_once_in_a_run_count_once(world: World) -> None:
    processes = [await a_process(world) for _ in range(3)]
    runs = [await opened(each, amounts=BUDGET) for each in processes]
    repeated = await outcomes(*(step(each) for each in runs * 3))
    assert sorted(repeated) == [False] + [True] * 8
    assert (await runs[0].left(), await left(processes[0])) == ({"calls": 4, "usd": 1_990_000}, 9_900)


async def test_a_keyed_call_waits_no_longer_than_its_run(world: World) -> None:
    it = await world.process(default_limits=[Limit.per_hour("tpm", 100)])
    run = await opened(it, expires=60)
    await step(run)
    begun = world.clock.now_ms()
    with pytest.raises(RateLimitExceeded):
        await step(run, idempotency_key="another", max_wait=3600)
    assert world.clock.now_ms() == begun


async def test_a_repeat_passes_where_the_end_of_its_run_cannot_be_read(world: World) -> None:
    it = await a_process(world)
    run = await opened(it)
    await step(run)
    it.wire.break_down(Unreachable("no route"), on=BatchGet)
    assert await step(run)
    it.wire.repair()
    assert await run.left() == {"calls": 4, "usd": 1_990_000}


async def test_observers_of_a_run_hear_of_a_repeat(world: World) -> None:
    events = list[Event]()
    run = await opened(await a_process(world, observers=[events.append]))
    for _ in range(2):
        await step(run)
    assert [each.outcome for each in events if isinstance(each, AcquireEvent)] == ["admitted", "admitted"]
    assert [each.consumed for each in events if isinstance(each, LeaseEvent)] == [{"tpm": 100}, {"tpm": 0}]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"idempotency_key": "a b"}, r"^idempotency_key 'a b'"),
        ({"idempotency_key": KEY, "key_life": 0}, r"^key_life 0"),
        ({"key_life": 60}, r"^idempotency_key None"),
        ({"wait": 9}, r"^wait 9: is not an option of acquire: there are by_usage, .*, key_life, limits"),
    ],
)
async def test_a_bad_option_of_a_run_is_refused_by_its_name(world: World, options: Any, says: str) -> None:
    run = await opened(await a_process(world))
    with pytest.raises(ValidationError, match=says):
        run.acquire("gpt-4", {"tpm": 1}, costs={"usd": CENT}, **options)


# a function of the call


def decorated(world: World, limiter: RateLimiter, function: Any, *arguments: Any, **options: Any) -> Any:
    """The function under ``limiter.limit``, to be awaited."""
    if world.variant == "async":

        @limiter.limit(*arguments, **options)
        async def limited(*args: Any) -> Any:
            return function(*args)

        return limited
    return partial(asyncio.to_thread, limiter._target.limit(*arguments, **options)(function))  # type: ignore[attr-defined]


def by_job(job: str | None, _: int) -> str | None:
    return job


async def test_a_retried_call_of_a_decorated_function_counts_once(world: World) -> None:
    it = await a_process(world)
    done: list[int] = []

    def work(_: str | None, amount: int) -> None:
        done.append(amount)

    call = decorated(
        world, it.limiter, work, "e", "r", lambda _, amount: {"tpm": amount}, idempotency_key=by_job, key_life=60
    )
    for job, amount in (("a", 10), ("a", 10), ("b", 10), (None, 10), (None, 10)):
        await call(job, amount)
    assert await left(it, "e", "r") == 9_960
    with pytest.raises(IdempotencyKeyError):
        await call("a", 11)
    assert done == [10] * 5
    world.clock.advance(60)
    await call("a", 10)
    assert await left(it, "e", "r") == 9_950


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"idempotency_key": KEY}, r"^idempotency_key 'step-7': must be a function of the call"),
        ({"idempotency_key": by_job, "key_life": 0}, r"^key_life 0"),
        ({"key_life": 60}, r"^key_life 60: needs a key"),
    ],
)
async def test_a_decorator_refuses_a_key_of_all_calls_at_once(world: World, options: Any, says: str) -> None:
    it = await a_process(world)
    with pytest.raises(ValidationError, match=says):
        decorated(world, it.limiter, print, "e", "r", {"tpm": 1}, **options)


# users, and a copy


async def test_users_with_entities_of_their_own_may_have_the_same_keys(world: World) -> None:
    it = await a_process(world)
    for user in ("ann", "bob"):
        async with it.limiter.acquire(user, "api", {"tpm": 1}, idempotency_key=KEY) as lease:
            assert not lease.repeated


async def test_a_user_below_an_entity_cannot_spend_the_key_of_another(world: World) -> None:
    it = await a_process(world)
    draws = [Draw("ann")], [Draw("bob")]
    async with it.limiter.acquire("team", "api", {"tpm": 1}, draws=draws[0], idempotency_key=KEY):
        pass
    with pytest.raises(IdempotencyKeyError, match="other amounts or draws"):
        await it.limiter.acquire("team", "api", {"tpm": 1}, draws=draws[1], idempotency_key=KEY).__aenter__()
    assert await left(it, "bob", "api") == 10_000


async def test_a_copied_namespace_knows_the_keys_of_its_source(world: World) -> None:
    limiter, _ = await a_process(world)
    async with limiter.acquire("acme", "api", {"tpm": 10}, idempotency_key=KEY) as lease:
        await lease.settle(tpm=7)
    table, source = MemoryTable(), world.table
    copy(table_over(SyncMemoryStore(source), world.clock), table_over(SyncMemoryStore(table), world.clock))
    world.table = table
    found = await a_process(world)
    for _ in range(2):
        async with found.limiter.acquire("acme", "api", {"tpm": 10}, idempotency_key=KEY) as lease:
            assert lease.repeated
            await lease.settle(tpm=900)
    assert await left(found, "acme", "api") == 9_993


PROCESS = """
import asyncio, sys
from zae_limiter import Limit, RateLimiter, Repository, SyncRateLimiter, SyncRepository

FILE, KIND, LIMITS = sys.argv[1], sys.argv[2], [Limit.total("tpm", 100_000)]
BUDGET = {"calls": 500}

def blocking():
    with SyncRateLimiter(SyncRepository.sqlite(FILE), default_limits=LIMITS) as limiter:
        with limiter.budget("run-1", BUDGET, within="team-a") as run:
            print("ready", flush=True), sys.stdin.readline()
            for number in range(60):
                with run.acquire("gpt-4", {"tpm": 10}, idempotency_key=f"step-{number}") as lease:
                    lease.settle(tpm=7)

async def on_a_loop():
    async with RateLimiter(await Repository.sqlite(FILE), default_limits=LIMITS) as limiter:
        async with limiter.budget("run-1", BUDGET, within="team-a") as run:
            print("ready", flush=True), sys.stdin.readline()
            for number in range(60):
                async with run.acquire("gpt-4", {"tpm": 10}, idempotency_key=f"step-{number}") as lease:
                    await lease.settle(tpm=7)

blocking() if KIND == "sync" else asyncio.run(on_a_loop())
"""


@pytest.mark.slow
def test_two_processes_on_one_file_count_each_key_of_a_run_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", PROCESS, str(tmp_path / "limits.db")]
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    both: list[Any] = [subprocess.Popen([*command, kind], **pipes) for kind in ("sync", "async")]
    for process in both:
        assert process.stdout.readline() == "ready\n"
    for process in both:
        process.stdin.write("go\n")
        process.stdin.flush()
    assert [(process.communicate(), process.returncode)[1] for process in both] == [0, 0]
    limits = [Limit.total("tpm", 100_000)]
    with SyncRateLimiter(SyncRepository.sqlite(tmp_path / "limits.db"), default_limits=limits) as limiter:
        assert limiter.available("team-a", "gpt-4") == {"tpm": 100_000 - 60 * 7}
        assert limiter.budget("run-1", within="team-a").open().left() == {"calls": 440}
