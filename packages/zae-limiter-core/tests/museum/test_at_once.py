"""Calls at the same time: each of them looked before any of them had counted."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Lock

from museum.exhibits import shows
from museum.stage import Stage, passes
from zae_limiter import Limit, RateLimiter, RateLimitExceeded

ANSWER = 0  # seconds that the model takes: long enough for all others to begin


async def admitted_at_once(times: int, call: Callable[[], Awaitable[bool]]) -> int:
    return sum(await asyncio.gather(*(call() for _ in range(times))))


async def answered(limiter: RateLimiter, entity: str, estimate: dict[str, int], used: dict[str, int]) -> bool:
    """Whether a call was admitted; it used this."""
    try:
        async with limiter.acquire(entity, "gpt-4", estimate) as lease:
            await asyncio.sleep(ANSWER)
            await lease.settle(**used)
    except RateLimitExceeded:
        return False
    return True


class CountsAfterTheAnswer:
    """Looks at the sum, asks the model, and then adds to the sum."""

    def __init__(self, budget: int, used: int) -> None:
        self.budget, self.used, self.spent = budget, used, 0

    async def call(self) -> bool:
        if self.spent >= self.budget:
            return False
        await asyncio.sleep(ANSWER)
        self.spent += self.used
        return True


@shows(
    "https://github.com/BerriAI/litellm/issues/34732",
    "[Bug]: Concurrent requests can bypass max_budget_per_session before spend is recorded",
)
async def test_turns_of_a_session_at_once_stay_within_its_budget(stage: Stage) -> None:
    limiter = await stage.loop(Limit.total("cents", 100))
    assert await admitted_at_once(8, lambda: answered(limiter, "session", {"cents": 30}, {"cents": 30})) == 3
    assert await admitted_at_once(8, CountsAfterTheAnswer(100, 30).call) == 8


@shows("https://github.com/Kong/kong/issues/2629", "Kong rate limiting concurrent problem")
def test_ten_threads_at_once_get_the_five_requests_of_the_second(stage: Stage) -> None:
    limiter = stage.process(Limit.per_second("rps", 5))
    together, lock, count = Barrier(10), Lock(), 0

    def held() -> bool:
        together.wait()
        return passes(limiter, "client", {"rps": 1})

    def counted_in_the_log_phase() -> bool:
        nonlocal count
        admits = count < 5
        together.wait()  # the others are in their access phase
        with lock:
            count += 1
        return admits

    with ThreadPoolExecutor(10) as threads:
        assert sum(each.result() for each in [threads.submit(held) for _ in range(10)]) == 5
        assert sum(each.result() for each in [threads.submit(counted_in_the_log_phase) for _ in range(10)]) == 10


@shows(
    "https://github.com/envoyproxy/ai-gateway/issues/680", "Question regarding rate limiting for concurrent requests"
)
async def test_tokens_are_taken_before_the_answer_tells_how_many(stage: Stage) -> None:
    limiter = await stage.loop(Limit.per_minute("tpm", 1000))
    used = 350 * await admitted_at_once(5, lambda: answered(limiter, "user", {"tpm": 400}, {"tpm": 350}))
    assert used == 700
    assert await limiter.available("user", "gpt-4") == {"tpm": 1000 - used}  # what was not used is there for the next
    assert 350 * await admitted_at_once(5, CountsAfterTheAnswer(1000, 350).call) == 1750


@shows(
    "https://github.com/BerriAI/litellm/issues/40095",
    "[Bug]: Concurrent first requests for an unknown end user bypass the default budget",
)
async def test_the_first_requests_of_a_new_user_meet_on_one_budget(stage: Stage) -> None:
    processes = [await stage.loop(Limit.per_day("cents", 3)) for _ in range(2)]
    calls = iter(range(8))
    one = {"cents": 1}
    assert await admitted_at_once(8, lambda: answered(processes[next(calls) % 2], "new-user", one, one)) == 3

    users: dict[str, int] = {}

    async def unknown_user_has_no_budget() -> bool:
        admits = users.get("new-user", 0) < 3
        await asyncio.sleep(ANSWER)
        users["new-user"] = users.get("new-user", 0) + 1  # the row is made with the first spend
        return admits

    assert await admitted_at_once(8, unknown_user_has_no_budget) == 8


@shows("https://github.com/alisaifee/limits/issues/277", "Race condition in async MemoryStorage")
async def test_hits_that_are_gathered_do_not_forget_each_other(stage: Stage) -> None:
    limiter = await stage.loop(Limit.per_day("hits", 4))
    one = {"hits": 1}
    assert await admitted_at_once(12, lambda: answered(limiter, "1", one, one)) == 4

    entries: list[int] = []
    lock = asyncio.Lock()

    async def cutoff_is_worked_out_before_the_lock() -> bool:
        alive = len(entries)  # none of them is a day old
        await asyncio.sleep(0)
        async with lock:
            del entries[alive:]  # also what came since
            if len(entries) >= 4:
                return False
            entries.append(1)
            return True

    assert await admitted_at_once(12, cutoff_is_worked_out_before_the_lock) == 12
