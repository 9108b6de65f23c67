"""Slots of calls of language models: held while a call and its stream run, before a provider on this machine."""

import asyncio
import gc
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("langchain_openai", reason="langchain-openai is not installed: `just test-llm newest` has it")
pytest.importorskip("litellm", reason="litellm is not installed: `just test-llm newest` has it")
import openai
from langchain_openai import ChatOpenAI

from support.core.llm.provider import Provider, providing
from support.core.llm.proxy import HOOKS, Proxy, proxying
from zae_limiter import Draw, Limit, RateLimiter, RateLimitExceeded, Repository, SyncRateLimiter, SyncRepository
from zae_limiter import ValidationError as Invalid
from zae_limiter.integrations import langchain, litellm

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of old releases of LangChain
]
LIMITS = [Limit.per_day("rpm", 100), Limit.per_day("tpm", 100_000), Limit.concurrent("parallel", 1)]
PLACE: Any = {"entity_id": "ann", "resource": "model"}
ASKED: Any = [{"role": "user", "content": "x" * 40}]
OF_PROXY = HOOKS.replace('per_day("tpm", 1000)]', 'per_day("tpm", 1000), Limit.concurrent("parallel", 1)]').replace(
    "units=", 'slots="parallel", units='
)


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with providing() as provider:
        yield provider


@pytest.fixture
def limiter() -> SyncRateLimiter:
    return SyncRateLimiter(SyncRepository.in_memory(), default_limits=LIMITS)


def slots(limiter: SyncRateLimiter) -> int:
    return limiter.available("ann", "model")["parallel"]


def model_of(provider: Provider, name: str, limits: Any) -> Any:
    url = f"{provider.url}/v1"
    return ChatOpenAI(model=name, base_url=url, api_key="sk-1", max_retries=0, max_tokens=100, callbacks=[limits])


@pytest.mark.parametrize("refund", ["never", "before_answer"])
async def test_a_chat_model_holds_its_slot_until_its_answer_is_there(
    provider: Provider, limiter: SyncRateLimiter, refund: Any
) -> None:
    limits = langchain.TokenLimits(limiter, **PLACE, slots="parallel", refund=refund)
    provider.asked.clear()
    slow = asyncio.create_task(model_of(provider, "slow", limits).ainvoke("hello"))
    await provider.is_asked()
    with pytest.raises(RateLimitExceeded) as refused:
        await model_of(provider, "plain", limits).ainvoke("hello")
    assert refused.value.primary_violation.limit_name == "parallel"
    await slow
    assert slots(limiter) == 1


@pytest.mark.parametrize("refund", ["never", "before_answer"])
def test_a_chat_model_frees_its_slot_however_its_call_ends(
    provider: Provider, limiter: SyncRateLimiter, refund: Any
) -> None:
    limits = langchain.TokenLimits(limiter, **PLACE, slots="parallel", refund=refund)
    parts = model_of(provider, "plain", limits).stream("hello")
    next(parts)
    assert slots(limiter) == 0
    list(parts)
    assert slots(limiter) == 1
    left = model_of(provider, "endless", limits).stream("hello")
    next(left)
    left.close()
    assert slots(limiter) == 1
    for name in ("broken", "cut"):
        with suppress(openai.OpenAIError):
            list(model_of(provider, name, limits).stream("hello"))
        assert slots(limiter) == 1, name


def holds(limiter: SyncRateLimiter) -> int:
    """The slots that are renewed."""
    cached = limiter.repository.namespace_state.cached_shards.get(("ann", "model", 0))
    assert cached is not None
    assert cached.slots is not None
    return len(cached.slots.all())


async def test_nobody_renews_the_slot_of_a_cancelled_call_whose_end_langchain_does_not_tell(
    provider: Provider, limiter: SyncRateLimiter
) -> None:
    limits = langchain.TokenLimits(limiter, **PLACE, slots="parallel")
    provider.asked.clear()
    call = asyncio.create_task(model_of(provider, "slow", limits).ainvoke("hello"))
    await provider.is_asked()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    del call
    end = time.monotonic() + 5
    while holds(limiter) and time.monotonic() < end:
        await asyncio.sleep(0.05)  # until LangChain's own tasks have ended
        gc.collect()
    assert holds(limiter) == 0


ACCOUNT = [Limit.concurrent("parallel", 1), Limit.money("usd", "1", per="month")]


async def test_a_chat_model_draws_by_its_request(provider: Provider, limiter: SyncRateLimiter) -> None:
    limiter.set_limits("acme", ACCOUNT, "account")

    def account(request: Any) -> list[Draw]:
        return [Draw("acme", "account", {"parallel": 1, "usd": len(request["messages"])})]

    limits = langchain.TokenLimits(limiter, **PLACE, draws=account)
    with limiter.acquire("acme", "account", {"parallel": 1}):
        with pytest.raises(RateLimitExceeded) as refused:
            await model_of(provider, "plain", limits).ainvoke("hello")
        assert (refused.value.refused_by, refused.value.reason) == ("acme", "concurrency")
        assert limiter.available("ann", "model")["rpm"] == 100  # all or nothing
    await model_of(provider, "plain", limits).ainvoke("hello")
    assert limiter.available("acme", "account") == {"parallel": 1, "usd": 999_999}


async def test_a_proxy_draws_by_key_and_body_and_a_fallback_takes_one_slot() -> None:
    limiter = RateLimiter(Repository.in_memory(), default_limits=LIMITS)
    await limiter.set_limits("acme", ACCOUNT, "account")
    asked: list[str] = []

    def account(user: str, request: Any) -> list[Draw]:
        asked.append(request["model"])
        return [Draw(user, "account", {"parallel": 1, "usd": request["max_tokens"]})]

    named: Any = {"identity": lambda user: "ann", "resource": lambda request: request["model"]}
    limits = litellm.RateLimits(limiter, draws=account, **named)
    data: Any = {"model": "first", "messages": ASKED, "max_tokens": 9}
    await limits.async_pre_call_hook("acme", None, data, "acompletion")
    assert await limiter.available("acme", "account") == {"parallel": 0, "usd": 999_991}
    chosen: Any = {"model_name": "second", "litellm_params": {"model": "openai/second"}}
    await limits.async_filter_deployments("second", [chosen], ASKED, data)
    assert asked == ["first", "second"]
    assert await limiter.available("acme", "account") == {"parallel": 0, "usd": 999_982}
    await limits.async_post_call_failure_hook(data, RuntimeError("busy"), "acme")
    assert await limiter.available("acme", "account") == {"parallel": 1, "usd": 999_982}


def test_a_slot_of_a_call_whose_end_nobody_tells_is_renewed_for_an_hour_at_most(
    limiter: SyncRateLimiter, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits, now = langchain.TokenLimits(limiter, **PLACE, slots="parallel"), 0.0
    other = langchain.TokenLimits(limiter, entity_id="bob", resource="model")
    other._open = limits._open  # calls of another entity push the first one out
    monkeypatch.setattr("zae_limiter.integrations.leases.elapsed", lambda: now)
    run = uuid4()  # which somebody keeps
    limits.on_chat_model_start({}, [[]], run_id=run)
    assert holds(limiter) == 1
    now = 3601.0
    other.on_chat_model_start({}, [[]], run_id=uuid4())
    gc.collect()
    assert holds(limiter) == 0


async def test_a_request_limiter_refuses_slots_that_it_could_not_hold(limiter: SyncRateLimiter) -> None:
    asked: Any = {**PLACE, "consume": {"rpm": 1, "parallel": 1}}
    problem = r"consume 'parallel': has slots, .*: name it in TokenLimits\(slots=…\)"
    with pytest.raises(Invalid, match=problem):
        langchain.RequestLimiter(limiter, **asked).acquire()
    on_loop = RateLimiter(Repository.in_memory(), default_limits=LIMITS)
    with pytest.raises(Invalid, match=problem):
        await langchain.RequestLimiter(on_loop, **asked).aacquire()
    assert limiter.available("ann", "model") == {"rpm": 100, "tpm": 100_000, "parallel": 1}
    assert langchain.RequestLimiter(limiter, **PLACE, consume={"rpm": 1}).acquire()


@pytest.mark.parametrize("make", [langchain.TokenLimits, litellm.RateLimits])
@pytest.mark.parametrize("name", ["rpm", "tpm"])
def test_slots_are_a_limit_of_their_own(limiter: SyncRateLimiter, make: Any, name: str) -> None:
    place = PLACE if make is langchain.TokenLimits else {}
    with pytest.raises(Invalid, match=f"slots '{name}': is named as requests or tokens, too"):
        make(limiter, **place, slots=name)


def test_a_proxy_has_no_thread_for_a_blocking_limiter(limiter: SyncRateLimiter) -> None:
    with pytest.raises(Invalid, match="must be a RateLimiter, or a function that returns one"):
        litellm.RateLimits(limiter)  # type: ignore[arg-type]  # that is the mistake


@pytest.fixture(scope="module")
def proxy(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with proxying(provider.url, tmp_path_factory.mktemp("proxy"), OF_PROXY) as proxy:
        yield proxy


def ask(proxy: Proxy, key: str, model: str = "plain", **more: Any) -> tuple[int, dict[str, str]]:
    status, headers, _ = proxy.post(key, {"model": model, "messages": ASKED, "max_tokens": 100, **more})
    return status, headers


async def test_a_proxy_holds_the_slot_of_a_key_while_its_provider_answers(provider: Provider, proxy: Proxy) -> None:
    key = f"sk-{uuid4().hex}"
    slow = asyncio.create_task(asyncio.to_thread(ask, proxy, key, "slow"))
    provider.asked.clear()
    await provider.is_asked()
    status, headers = await asyncio.to_thread(ask, proxy, key, "slow")
    assert (status, headers["retry-after"], headers["ratelimit"]) == (429, "1", '"parallel";r=0;t=1')
    assert (await slow)[0] == 200
    assert (await asyncio.to_thread(ask, proxy, key, "slow"))[0] == 200


@pytest.mark.parametrize("name", ["plain", "broken", "cut"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_proxy_frees_the_slot_when_the_call_ends(proxy: Proxy, name: str, *, stream: bool) -> None:
    key = f"sk-{uuid4().hex}"
    first, _ = ask(proxy, key, name, stream=stream)
    second, _ = ask(proxy, key, name, stream=stream)
    assert 429 not in (first, second)


def test_a_proxy_frees_the_slot_of_a_client_that_leaves_its_stream(proxy: Proxy) -> None:
    key = f"sk-{uuid4().hex}"
    with openai.OpenAI(base_url=f"{proxy.url}/v1", api_key=key, max_retries=0) as client:
        stream = client.chat.completions.create(model="endless", messages=ASKED, max_tokens=100, stream=True)
        next(iter(stream))
        assert ask(proxy, key, "endless", stream=True)[0] == 429
        stream.close()
        end = time.monotonic() + 10
        while (found := ask(proxy, key, "endless", max_tokens=10**9)[1]["ratelimit"]) and "parallel" in found:
            assert time.monotonic() < end, found
            time.sleep(0.1)


@pytest.mark.parametrize(("expires", "max_hold", "reads"), [(1, 600.0, 1), (60, 0.3, 99)])
async def test_a_stream_of_a_proxy_is_cut_off_where_its_slot_has_ended(
    expires: int, max_hold: float, reads: int
) -> None:
    limiter = RateLimiter(
        Repository.in_memory(), default_limits=[*LIMITS[:2], Limit.concurrent("parallel", 1, expires=expires)]
    )
    hooks = litellm.RateLimits(
        limiter, identity=lambda _: "ann", resource=lambda _: "model", slots="parallel", max_hold=max_hold
    )
    data: dict[str, Any] = {"model": "model", "messages": ASKED}
    await hooks.async_pre_call_hook(None, None, data, "acompletion")

    async def parts() -> AsyncIterator[Any]:
        while True:
            yield {"text": "part"}
            await asyncio.sleep(0.02)

    async def read() -> None:
        stream = hooks.async_post_call_streaming_iterator_hook(None, parts(), data)
        for _ in range(reads):
            await anext(stream)
        async with limiter.acquire("ann", "model", {"parallel": 1}, max_wait=20):
            await anext(stream)

    with pytest.raises(OSError, match="slots of parallel are free for others"):
        await read()
    assert (await limiter.available("ann", "model"))["parallel"] == 1
