"""What a call takes, and what it gives back."""

import asyncio
from collections.abc import Callable
from contextlib import suppress

from museum.exhibits import shows
from museum.stage import Stage, admitted, passes
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, TokenUsage
from zae_limiter.integrations.usage import read_usage


@shows("https://github.com/alisaifee/limits/pull/152", "Disallow acquiring > limit in moving window")
def test_a_cost_above_the_limit_never_passes(stage: Stage) -> None:
    limiter = stage.process(Limit.per_day("hits", 10))
    assert admitted(3, lambda: passes(limiter, "client", {"hits": 11})) == 0
    assert passes(limiter, "client", {"hits": 10})

    window: list[float] = []  # the instants of the last hits, the newest first

    def entry_out_of_bounds_is_an_empty_window() -> bool:
        with suppress(IndexError):
            return window[10 - 11] == 0  # the entry that has to be old enough
        return True

    assert admitted(3, entry_out_of_bounds_is_an_empty_window) == 3


@shows(
    "https://github.com/BerriAI/litellm/issues/39309",
    "[Bug]: Requests rejected by max_parallel_requests still consume RPM quota",
)
def test_a_call_that_one_limit_refuses_takes_nothing_of_the_other(stage: Stage) -> None:
    limiter = stage.process(Limit.per_day("rpd", 2), Limit.per_minute("tpm", 100))
    call = {"rpd": 1, "tpm": 100}
    assert admitted(2, lambda: passes(limiter, "key", call)) == 1
    stage.clock.advance(60)
    assert passes(limiter, "key", call)

    requests, tokens = 0, 0

    def requests_are_counted_before_the_other_limit_is_asked() -> bool:
        nonlocal requests, tokens
        requests += 1
        if requests > 2 or tokens + 100 > 100:
            return False
        tokens += 100
        return True

    assert admitted(2, requests_are_counted_before_the_other_limit_is_asked) == 1
    tokens = 0  # a minute later
    assert not requests_are_counted_before_the_other_limit_is_asked()


@shows(
    "https://github.com/BerriAI/litellm/issues/18728",
    "[Bug]: Rate limiter incorrectly counts cached tokens toward TPM limits",
)
def test_cached_tokens_count_for_what_they_are_worth(stage: Stage) -> None:
    usage = {"prompt_tokens": 9_000, "completion_tokens": 1_000, "prompt_tokens_details": {"cached_tokens": 8_000}}

    def served(limiter: SyncRateLimiter) -> bool:
        try:
            with limiter.acquire("customer", "gpt-4", {"tpm": 2_000}) as lease:
                lease.settle(read_usage({"usage": usage}))
        except RateLimitExceeded:
            return False
        return True

    limit = Limit.per_minute("tpm", 10_000, weights={"input": 1, "cached": 0, "output": 1})
    limiter = stage.process(limit)
    assert admitted(10, lambda: served(limiter)) == 5

    counted = 0

    def all_tokens_count_the_same() -> bool:
        nonlocal counted
        admits = counted + 2_000 <= 10_000
        counted += usage["prompt_tokens"] + usage["completion_tokens"] if admits else 0  # type: ignore[operator]
        return admits

    assert admitted(10, all_tokens_count_the_same) == 1


@shows(
    "https://github.com/BerriAI/litellm/pull/30522",
    "fix(proxy): release budget reservation when a request is cancelled mid-flight",
)
async def test_a_cancelled_call_gives_its_estimate_back(stage: Stage) -> None:
    limiter = await stage.loop(Limit.total("cents", 800))
    begun = asyncio.Event()

    async def agent() -> None:
        async with limiter.acquire("key", "gpt-4", {"cents": 100}):
            begun.set()
            await asyncio.sleep(3600)  # the client disconnects in here

    reserved = 0

    async def releases_after_an_exception_only() -> None:
        nonlocal reserved
        reserved += 100
        try:
            begun.set()
            await asyncio.sleep(3600)
        except Exception:  # noqa: BLE001 - the fault: a cancellation is a BaseException
            reserved -= 100

    for call in (agent, releases_after_an_exception_only):
        for _ in range(8):
            begun.clear()
            task = asyncio.create_task(call())
            await begun.wait()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    assert await limiter.available("key", "gpt-4") == {"cents": 800}
    assert reserved == 800


@shows(
    "https://github.com/BerriAI/litellm/issues/35525",
    "[Bug]: Unpriced successful responses release budget reservations without recording spend",
)
def test_an_answer_without_usage_costs_its_estimate(stage: Stage) -> None:
    limiter = stage.process(Limit.total("tokens", 1_000, weights={"input": 1, "output": 1}))
    answer = {"choices": [{"message": {"content": "Paris"}}]}

    def call() -> bool:
        try:
            with limiter.acquire("key", "gpt-4", {"tokens": 300}) as lease:
                lease.settle(read_usage(answer))
        except RateLimitExceeded:
            return False
        return True

    assert admitted(10, call) == 3

    spent = 0

    def unknown_cost_is_nothing() -> bool:
        nonlocal spent
        if spent + 300 > 1_000:
            return False
        spent += 0 if read_usage(answer) is None else 300
        return True

    assert admitted(10, unknown_cost_is_nothing) == 10


@shows("https://github.com/envoyproxy/ai-gateway/issues/2394", "Question: streaming token rate limiting after the fact")
def test_a_stream_can_stop_before_it_is_over_the_limit(stage: Stage) -> None:
    limiter = stage.process(Limit.per_minute("tpm", 1_000, weights={"input": 1, "output": 1}))
    with limiter.acquire("user", "gpt-4", {"tpm": 200}) as lease:
        lease.keep()
        produced = streamed(lambda tokens: not lease.would_exceed(TokenUsage(output=tokens)))
        lease.settle(TokenUsage(output=produced))
    assert produced == 1_000
    assert limiter.available("user", "gpt-4") == {"tpm": 0}

    assert streamed(lambda tokens: True) == 1_200  # the count is looked at when the stream is done


def streamed(may_go_on: Callable[[int], bool]) -> int:
    """Return the tokens of a stream of 1,200 until somebody stops it."""
    for tokens in range(100, 1_300, 100):
        if not may_go_on(tokens):
            return tokens - 100
    return tokens
