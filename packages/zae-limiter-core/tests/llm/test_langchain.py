"""LangChain's chat models with our rate limiter and our callback, before a provider on this machine."""

import asyncio
import time
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("langchain_openai", reason="langchain-openai is not installed: `just test-llm newest` has it")
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_openai import ChatOpenAI

from support.core.llm.provider import USED, Provider, providing
from support.core.web.limits import SyncGoneStore
from zae_limiter import (
    Limit,
    OnRefused,
    Options,
    RateLimiter,
    RateLimiterUnavailable,
    RateLimitExceeded,
    Repository,
    SyncRateLimiter,
    SyncRepository,
)
from zae_limiter.integrations.langchain import RequestLimiter, TokenLimits

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of old releases of LangChain
]
LIMITS = [Limit.per_day("rpm", 5), Limit.per_day("tpm", 1000)]
WHOLE = {"rpm": 5, "tpm": 1000}
PLACE: Any = {"entity_id": "ann", "resource": "model"}
PROMPT = "x" * 40
ESTIMATE = 110


@pytest.fixture
def provider() -> Iterator[Provider]:
    with providing() as provider:
        yield provider


@pytest.fixture
def limiter() -> SyncRateLimiter:
    return SyncRateLimiter(SyncRepository.in_memory(), default_limits=LIMITS)


def openai_model(provider: Provider, name: str = "plain", **options: Any) -> Any:
    return ChatOpenAI(
        model=name, base_url=f"{provider.url}/v1", api_key="sk-1", max_retries=0, max_tokens=100, **options
    )


def anthropic_model(provider: Provider, name: str = "plain", **options: Any) -> Any:
    return ChatAnthropic(
        model_name=name, base_url=provider.url, api_key="sk-1", max_retries=0, max_tokens_to_sample=100, **options
    )


MODELS = [openai_model, anthropic_model]


def left(limiter: SyncRateLimiter) -> dict[str, int]:
    return limiter.available("ann", "model")


def requests_of(limiter: Any, **options: Any) -> RequestLimiter:
    return RequestLimiter(limiter, **PLACE, consume={"rpm": 1}, **options)


async def test_a_request_limiter_takes_before_each_request_of_both_kinds(
    provider: Provider, limiter: SyncRateLimiter
) -> None:
    model = openai_model(provider, rate_limiter=requests_of(limiter, max_wait=0))
    assert model.invoke(PROMPT).content == "one two three "
    await model.ainvoke(PROMPT)
    assert len(list(model.stream(PROMPT))) > 2
    assert len([part async for part in model.astream(PROMPT)]) > 2
    model.batch([PROMPT])
    assert left(limiter) == {"rpm": 0, "tpm": 1000}
    for call in (model.invoke, lambda prompt: list(model.stream(prompt))):
        with pytest.raises(RateLimitExceeded):
            call(PROMPT)
    with pytest.raises(RateLimitExceeded):
        await model.ainvoke(PROMPT)
    assert len(provider.asked) == 5


async def test_a_request_limiter_over_an_async_limiter_serves_async_calls_alone(provider: Provider) -> None:
    limiter = RateLimiter(Repository.in_memory(), default_limits=LIMITS)
    model = openai_model(provider, rate_limiter=requests_of(limiter, max_wait=0))
    answers = await asyncio.gather(*(model.ainvoke(PROMPT) for _ in range(8)), return_exceptions=True)
    assert sum(isinstance(each, RateLimitExceeded) for each in answers) == 3
    assert len(provider.asked) == 5
    with pytest.raises(TypeError, match="give a SyncRateLimiter"):
        model.invoke(PROMPT)
    assert len(provider.asked) == 5


async def test_a_request_limiter_waits_and_says_false_to_who_does_not_block() -> None:
    limits = [Limit.per_second("rpm", 2)]
    sync = SyncRateLimiter(SyncRepository.in_memory(), default_limits=limits)
    of_both = [sync, RateLimiter(Repository.in_memory(), default_limits=limits)]
    for limiter in of_both:
        requests = requests_of(limiter, max_wait=10)
        assert [await requests.aacquire(blocking=False) for _ in range(3)] == [True, True, False]
        begun = time.monotonic()
        assert await requests.aacquire()
        assert time.monotonic() - begun > 0.2
    assert requests_of(sync).acquire()


async def test_a_request_limiter_waits_by_a_policy_and_who_does_not_block_by_none() -> None:
    limits, waits = [Limit.per_second("rpm", 2)], OnRefused(wait=10)
    sync = SyncRateLimiter(SyncRepository.in_memory())
    sync.set_system_defaults(limits, on_refused=waits)
    both = RateLimiter(Repository.in_memory())
    await both.set_system_defaults(limits, on_refused=waits)
    of_all: list[SyncRateLimiter | RateLimiter] = [sync, both]
    for limiter in of_all:
        for options in ({}, {"on_refused": waits}):
            requests = requests_of(limiter, **options)
            await requests.aacquire()
            while await requests.aacquire(blocking=False):
                pass
            begun = time.monotonic()
            assert not await requests.aacquire(blocking=False)
            assert time.monotonic() - begun < 0.2
            assert await requests.aacquire()


@pytest.mark.parametrize("make", MODELS)
async def test_a_callback_settles_what_was_used(provider: Provider, limiter: SyncRateLimiter, make: Any) -> None:
    model = make(provider, callbacks=[TokenLimits(limiter, **PLACE)], stream_usage=True)
    calls: list[Any] = [lambda: model.invoke(PROMPT), lambda: list(model.stream(PROMPT))]
    for number, call in enumerate(calls, 1):
        call()
        assert left(limiter) == {"rpm": 5 - number, "tpm": 1000 - number * USED}
    await model.ainvoke(PROMPT)
    assert len([part async for part in model.astream(PROMPT)]) > 2
    assert left(limiter) == {"rpm": 1, "tpm": 1000 - 4 * USED}


@pytest.mark.parametrize("make", MODELS)
async def test_a_callback_takes_the_estimate_first(provider: Provider, limiter: SyncRateLimiter, make: Any) -> None:
    model = make(provider, "slow", callbacks=[TokenLimits(limiter, **PLACE)])
    call = asyncio.create_task(model.ainvoke(PROMPT))
    await provider.is_asked()
    assert 110 < 1000 - left(limiter)["tpm"] < 200  # the prompt, 100 of answer, and what LangChain says of the model
    await call
    assert left(limiter) == {"rpm": 4, "tpm": 1000 - USED}


@pytest.mark.parametrize("make", MODELS)
async def test_a_callback_refuses_before_the_request_goes_out(
    provider: Provider, limiter: SyncRateLimiter, make: Any
) -> None:
    model = make(provider, callbacks=[TokenLimits(limiter, **PLACE, estimate=lambda request: 1001)])
    for call in (model.invoke, lambda prompt: list(model.stream(prompt))):
        with pytest.raises(RateLimitExceeded):
            call(PROMPT)
    with pytest.raises(RateLimitExceeded):
        await model.ainvoke(PROMPT)
    with pytest.raises(RateLimitExceeded):
        async for _ in model.astream(PROMPT):
            pass
    assert (provider.asked, left(limiter)) == ([], WHOLE)


@pytest.mark.parametrize("make", MODELS)
@pytest.mark.parametrize("name", ["broken", "busy"])
@pytest.mark.parametrize(
    ("refund", "remaining"), [("never", {"rpm": 3, "tpm": 1000 - 2 * ESTIMATE}), ("before_answer", WHOLE)]
)
async def test_a_call_that_fails_is_refunded_on_demand(
    provider: Provider, limiter: SyncRateLimiter, make: Any, name: str, refund: Any, remaining: dict[str, int]
) -> None:
    model = make(provider, name, callbacks=[TokenLimits(limiter, **PLACE, estimate=lambda _: ESTIMATE, refund=refund)])
    with pytest.raises(Exception, match=name):
        model.invoke(PROMPT)
    with pytest.raises(Exception, match=name):
        await model.ainvoke(PROMPT)
    assert (len(provider.asked), left(limiter)) == (2, remaining)


@pytest.mark.parametrize("make", MODELS)
def test_a_stream_that_is_left_keeps_the_estimate(provider: Provider, limiter: SyncRateLimiter, make: Any) -> None:
    model = make(provider, "endless", callbacks=[TokenLimits(limiter, **PLACE, estimate=lambda _: ESTIMATE)])
    stream = model.stream(PROMPT)
    while not next(stream).content:
        pass
    stream.close()
    assert left(limiter) == {"rpm": 4, "tpm": 1000 - ESTIMATE}


async def test_a_cancelled_call_keeps_its_estimate(provider: Provider, limiter: SyncRateLimiter) -> None:
    model = openai_model(provider, "slow", callbacks=[TokenLimits(limiter, **PLACE, estimate=lambda _: ESTIMATE)])
    call = asyncio.create_task(model.ainvoke(PROMPT))
    await provider.is_asked()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert left(limiter) == {"rpm": 4, "tpm": 1000 - ESTIMATE}


def test_a_call_whose_end_nobody_tells_is_forgotten_after_an_hour(
    limiter: SyncRateLimiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits, now = TokenLimits(limiter, **PLACE, estimate=lambda _: ESTIMATE, refund="before_answer"), 0.0
    monkeypatch.setattr("zae_limiter.integrations.leases.elapsed", lambda: now)
    runs = [uuid4() for _ in range(3)]
    for run, now in zip(runs, (0.0, 1.0, 3601.0), strict=True):  # noqa: B007 - the clock reads it
        limits.on_chat_model_start({}, [[HumanMessage(PROMPT)]], run_id=run, invocation_params={"max_tokens": 100})
    assert len(limits._open) == 2
    for run in runs:
        limits.on_llm_error(ConnectionError(), run_id=run)
    assert (len(limits._open), left(limiter)) == (0, {"rpm": 4, "tpm": 1000 - ESTIMATE})


async def test_calls_at_the_same_time_are_admitted_up_to_the_limit(
    provider: Provider, limiter: SyncRateLimiter
) -> None:
    model = openai_model(provider, callbacks=[TokenLimits(limiter, **PLACE)])
    answers = await asyncio.gather(*(model.ainvoke(PROMPT) for _ in range(9)), return_exceptions=True)
    assert sum(isinstance(each, RateLimitExceeded) for each in answers) == 4
    assert (len(provider.asked), left(limiter)) == (5, {"rpm": 0, "tpm": 1000 - 5 * USED})


def test_an_outage_stops_the_call_before_it_goes_out_and_no_answer_that_is_there(
    provider: Provider, caplog: pytest.LogCaptureFixture
) -> None:
    store = SyncGoneStore()
    limiter = SyncRateLimiter(SyncRepository.over(store, Options(stack="llm")), default_limits=LIMITS)

    class Outage(TokenLimits):
        def on_llm_end(self, *args: Any, **kwargs: Any) -> None:
            store.away = True
            super().on_llm_end(*args, **kwargs)

    model = openai_model(provider, callbacks=[Outage(limiter, **PLACE)])
    assert model.invoke(PROMPT).content == "one two three "
    assert "corrections of a request's lease were not written" in caplog.text
    with pytest.raises(RateLimiterUnavailable):
        model.invoke(PROMPT)
    assert len(provider.asked) == 1


def test_a_limit_with_weights_is_settled_by_them_and_an_estimate_learns() -> None:
    weighted = Limit.per_day("tpm", 100_000, weights={"input": 1, "cached": 0.5, "output": 4})
    limiter = SyncRateLimiter(SyncRepository.in_memory(), default_limits=[Limit.per_day("rpm", 100), weighted])
    learnt = limiter.estimate("model", default=500, most=1000)
    limits = TokenLimits(limiter, entity_id="ann", resource="model", estimate=lambda _: learnt)
    usage: Any = {
        "input_tokens": 10,
        "output_tokens": 20,
        "total_tokens": 30,
        "input_token_details": {"cache_read": 4},
    }
    for _ in range(20):
        run = uuid4()
        limits.on_chat_model_start({}, [[]], run_id=run)
        limits.on_llm_end(
            LLMResult(generations=[[ChatGeneration(message=AIMessage("x", usage_metadata=usage))]]), run_id=run
        )
    assert limiter.available("ann", "model") == {"rpm": 80, "tpm": 100_000 - 20 * (6 + 2 + 80)}
    assert learnt.amount("tpm") == 91  # the largest amount of the cell of 88


def test_the_usage_that_all_answers_of_a_call_repeat_counts_once(limiter: SyncRateLimiter) -> None:
    limits, run = TokenLimits(limiter, **PLACE), uuid4()
    usage: Any = {"input_tokens": 10, "output_tokens": 20, "total_tokens": USED}
    answers = [ChatGeneration(message=AIMessage("x", usage_metadata=usage)) for _ in range(2)]
    limits.on_chat_model_start({}, [[HumanMessage(PROMPT)]], run_id=run, invocation_params={"max_tokens": 100})
    limits.on_llm_end(LLMResult(generations=[[*answers]]), run_id=run)
    assert left(limiter) == {"rpm": 4, "tpm": 1000 - USED}


def test_one_limit_alone(provider: Provider, limiter: SyncRateLimiter) -> None:
    openai_model(provider, callbacks=[TokenLimits(limiter, **PLACE, requests=None)]).invoke(PROMPT)
    assert left(limiter) == {"rpm": 5, "tpm": 1000 - USED}
    openai_model(provider, callbacks=[TokenLimits(limiter, **PLACE, tokens=None)]).invoke(PROMPT)
    assert left(limiter) == {"rpm": 4, "tpm": 1000 - USED}


def test_a_refusal_for_ever_says_which_part_of_the_estimate_was_assumed(limiter: SyncRateLimiter) -> None:
    limits = TokenLimits(limiter, **PLACE)
    with pytest.raises(RateLimitExceeded) as refused:
        limits.on_chat_model_start({}, [[HumanMessage(PROMPT)]], run_id=uuid4())
    assert refused.value.__notes__[0].startswith("1000 of the 1021 tpm are assumed for the answer")
    assert limiter.available("ann", "model") == WHOLE
