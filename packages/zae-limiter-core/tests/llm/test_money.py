"""Dollars of an account beside the tokens of a key: a draw is settled for what its call cost, however the call ends."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("langchain_openai", reason="langchain-openai is not installed: `just test-llm newest` has it")
pytest.importorskip("litellm", reason="litellm is not installed: `just test-llm newest` has it")
import anthropic
import openai
from langchain_openai import ChatOpenAI

from support.core.llm.provider import Provider, providing
from support.core.llm.proxy import Proxy, proxying
from zae_limiter import Draw, Limit, RateLimiter, Repository, SyncRateLimiter, SyncRepository, TokenUsage
from zae_limiter.integrations.langchain import TokenLimits
from zae_limiter.integrations.prices import Prices
from zae_limiter.integrations.settlement import settle
from zae_limiter.integrations.usage import UsageReader

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of old releases of LangChain
]
PRICE = {"input": 1.25, "output": 10}
COST = 213  # micro-dollars of 10 and 20 tokens: 12.5 and 200, and a begun one counts
ESTIMATE = 5_000
WHOLE = 1_000_000
ASKED: Any = [{"role": "user", "content": "x" * 40}]
PLACE: Any = {"entity_id": "ann", "resource": "model"}
KEY = [Limit.per_day("rpm", 100), Limit.per_day("tpm", 100_000)]
BUDGET = Limit.money("usd", 1, per="total")
MODELS = ("plain", "silent", "broken", "cut", "endless", "slow")
PRICES = Prices.from_dict({"version": 1, "models": {name: [PRICE] for name in MODELS}})


def account(model: str, estimate: int = ESTIMATE) -> list[Draw]:
    return [Draw("acme", "budget", {"usd": estimate}, by_usage=lambda usage: {"usd": PRICES.micro_usd(model, usage)})]


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with providing() as provider:
        yield provider


@pytest.fixture
def limiter() -> SyncRateLimiter:
    limiter = SyncRateLimiter(SyncRepository.in_memory(), default_limits=KEY)
    limiter.set_limits("acme", [BUDGET], "budget")
    return limiter


def model_of(provider: Provider, name: str, limits: Any) -> Any:
    url = f"{provider.url}/v1"
    options: Any = {"max_retries": 0, "max_tokens": 100, "stream_usage": True}
    return ChatOpenAI(model=name, base_url=url, api_key="sk-1", callbacks=[limits], **options)


def limits_of(limiter: Any, **options: Any) -> TokenLimits:
    return TokenLimits(limiter, **PLACE, draws=lambda request: account(request["model"]), **options)


def spent(limiter: SyncRateLimiter) -> int:
    return WHOLE - limiter.available("acme", "budget")["usd"]


async def test_a_chat_model_settles_the_dollars_of_a_draw(provider: Provider, limiter: SyncRateLimiter) -> None:
    model = model_of(provider, "plain", limits_of(limiter))
    model.invoke("hello")
    list(model.stream("hello"))
    await model.ainvoke("hello")
    assert [part async for part in model.astream("hello")]
    assert spent(limiter) == 4 * COST


async def test_a_chat_model_settles_the_dollars_of_a_draw_on_the_loop(provider: Provider) -> None:
    limiter = RateLimiter(Repository.in_memory(), default_limits=KEY)
    await limiter.set_limits("acme", [BUDGET], "budget")
    model = model_of(provider, "plain", limits_of(limiter))
    await model.ainvoke("hello")
    assert [part async for part in model.astream("hello")]
    assert await limiter.available("acme", "budget") == {"usd": WHOLE - 2 * COST}


@pytest.mark.parametrize(("refund", "kept"), [("never", ESTIMATE), ("before_answer", 0)])
async def test_a_call_that_fails_keeps_its_dollars_or_gets_them_back(
    provider: Provider, limiter: SyncRateLimiter, refund: Any, kept: int
) -> None:
    model = model_of(provider, "broken", limits_of(limiter, refund=refund))
    with pytest.raises(openai.InternalServerError):
        model.invoke("hello")
    with pytest.raises(openai.InternalServerError):
        await model.ainvoke("hello")
    assert spent(limiter) == 2 * kept


@pytest.mark.parametrize("tokens", ["tpm", None])
def test_a_stream_that_breaks_keeps_its_dollars_or_what_came_if_that_is_more(
    provider: Provider, limiter: SyncRateLimiter, tokens: str | None
) -> None:
    for estimate in (ESTIMATE, 1):
        limits = TokenLimits(limiter, **PLACE, tokens=tokens, draws=account("cut", estimate))
        before = spent(limiter)
        with suppress(openai.OpenAIError):  # some releases end the stream as if it were whole
            list(model_of(provider, "cut", limits).stream("hello"))
        used = spent(limiter) - before
        assert used == ESTIMATE if estimate == ESTIMATE else 1 < used < ESTIMATE


async def test_a_call_that_is_left_keeps_its_dollars(provider: Provider, limiter: SyncRateLimiter) -> None:
    stream = model_of(provider, "endless", limits_of(limiter)).stream("hello")
    next(stream)
    stream.close()
    provider.asked.clear()
    call = asyncio.create_task(model_of(provider, "slow", limits_of(limiter)).ainvoke("hello"))
    await provider.is_asked()
    call.cancel()
    with suppress(asyncio.CancelledError):
        await call
    assert spent(limiter) == 2 * ESTIMATE


def test_a_draw_whose_price_is_missing_keeps_its_estimate_and_the_answer_goes_out(
    provider: Provider, limiter: SyncRateLimiter, caplog: pytest.LogCaptureFixture
) -> None:
    limits = TokenLimits(limiter, **PLACE, draws=lambda _: account("unknown"))
    assert model_of(provider, "plain", limits).invoke("hello").content
    assert spent(limiter) == ESTIMATE
    assert limiter.available("ann", "model")["tpm"] == 100_000 - 30
    assert "acme/budget keeps its estimate: its by_usage failed" in caplog.text
    assert "has no model 'unknown'" in caplog.text


@pytest.mark.parametrize("own", [False, True])
def test_a_draw_is_settled_by_the_weights_of_its_limit(
    provider: Provider, limiter: SyncRateLimiter, *, own: bool
) -> None:
    weighed = Limit.money("usd", 1, per="total", weights=PRICES.weights("plain"))
    limiter.set_limits(
        "acme", [weighed, *([] if own else [Limit.per_day("other", 900, weights={"output": 1})])], "budget"
    )
    limits = TokenLimits(limiter, **PLACE, draws=[Draw("acme", "budget", {"usd": ESTIMATE})])
    model_of(provider, "plain", limits).invoke("hello")
    assert spent(limiter) == (COST if own else ESTIMATE)  # what else is weighed there is not of this call


class Client:
    """The pattern of docs/guides/llm.md with a client of OpenAI or Anthropic, and a draw."""

    def __init__(self, create: Callable[..., Any], extra: dict[str, Any]) -> None:
        self.create, self.extra = create, extra

    async def call(self, limiter: RateLimiter, model: str, *, stream: bool) -> None:
        asked = {"model": model, "messages": ASKED, "max_tokens": 100}
        async with limiter.acquire("ann", "model", {"rpm": 1, "tpm": 110}, draws=account(model)) as lease:
            lease.keep()
            reader = UsageReader()
            answer = await self.create(**asked, **({"stream": True, **self.extra} if stream else {}))
            if stream:
                async for event in answer:
                    reader.add(event)
            else:
                reader.add(answer)
            if reader.usage is not None:
                await settle(lease, "tpm", reader.usage)


@pytest.fixture(params=["openai", "anthropic"])
def client(request: pytest.FixtureRequest, provider: Provider) -> Client:
    if request.param == "openai":
        found = openai.AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="sk-1", max_retries=0)
        return Client(found.chat.completions.create, {"stream_options": {"include_usage": True}})
    return Client(anthropic.AsyncAnthropic(base_url=provider.url, api_key="sk-1", max_retries=0).messages.create, {})


async def test_the_clients_settle_the_dollars_of_a_draw(provider: Provider, client: Client) -> None:
    limiter = RateLimiter(Repository.in_memory(), default_limits=KEY)
    await limiter.set_limits("acme", [BUDGET], "budget")
    await client.call(limiter, "plain", stream=False)
    await client.call(limiter, "plain", stream=True)
    assert await limiter.available("acme", "budget") == {"usd": WHOLE - 2 * COST}
    with pytest.raises((openai.APIError, anthropic.APIError)):
        await client.call(limiter, "broken", stream=False)
    provider.asked.clear()
    left = asyncio.create_task(client.call(limiter, "endless", stream=True))
    await provider.is_asked()
    left.cancel()
    with suppress(asyncio.CancelledError):
        await left
    assert await limiter.available("acme", "budget") == {"usd": WHOLE - 2 * COST - 2 * ESTIMATE}


HOOKS = f"""
from litellm.proxy._types import UserAPIKeyAuth

from zae_limiter import Draw, Limit, RateLimiter, Repository
from zae_limiter.integrations.litellm import RateLimits
from zae_limiter.integrations.prices import Prices

LIMITS = [Limit.per_day("rpm", 100), Limit.per_day("tpm", 100_000), Limit.money("usd", 1, per="total")]
PRICES = Prices.from_dict({{"version": 1, "models": {{name: [{PRICE}] for name in {MODELS}}}}})


async def limiter():
    return RateLimiter(await Repository.sqlite("limits.db"), default_limits=LIMITS)


async def auth(request, api_key):
    return UserAPIKeyAuth(api_key=api_key, user_id=api_key)


def account(user, request):
    def cost(usage):
        return {{"usd": PRICES.micro_usd(request["model"].removeprefix("claude-"), usage)}}

    return [Draw(user.user_id, "budget", {{"usd": {ESTIMATE}}}, by_usage=cost)]


limits = RateLimits(limiter, draws=account)
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("proxy")


@pytest.fixture(scope="module")
def proxy(provider: Provider, folder: Path) -> Iterator[Proxy]:
    fallbacks = {"fallbacks": [{"broken": ["plain"]}]}
    with proxying(provider.url, folder, HOOKS, router_settings=fallbacks) as proxy:
        yield proxy


def account_of(folder: Path, key: str) -> int:
    time.sleep(0.5)  # the proxy settles behind its answer
    with SyncRepository.sqlite(str(folder / "limits.db")) as repository:
        bucket = repository.get_bucket(key, "budget")
    assert bucket is not None
    return next(each.consumed for each in bucket.limits if each.limit.name == "usd")


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", ["plain", "claude-plain"])
def test_a_proxy_settles_the_dollars_of_a_draw(proxy: Proxy, folder: Path, model: str, *, stream: bool) -> None:
    path = "/v1/messages" if model.startswith("claude-") else "/v1/chat/completions"
    key = f"sk-{model}-{stream}"
    extra: Any = {"stream_options": {"include_usage": True}} if stream and path.endswith("completions") else {}
    body = {"model": model, "messages": ASKED, "max_tokens": 100, "stream": stream, **extra}
    status, _, answer = proxy.post(key, body, path)
    assert status == 200, answer
    assert account_of(folder, key) == COST


def test_a_fallback_of_a_proxy_is_settled_for_the_price_of_its_own_model(proxy: Proxy, folder: Path) -> None:
    status, _, answer = proxy.post("sk-f", {"model": "broken", "messages": ASKED, "max_tokens": 100})
    assert status == 200, answer
    assert account_of(folder, "sk-f") == ESTIMATE + COST  # an attempt that has failed keeps its estimate


def test_a_call_of_a_proxy_that_fails_or_is_left_keeps_its_dollars(proxy: Proxy, folder: Path) -> None:
    assert proxy.post("sk-b", {"model": "claude-broken", "messages": ASKED, "max_tokens": 100})[0] == 500
    assert account_of(folder, "sk-b") == ESTIMATE
    with openai.OpenAI(base_url=f"{proxy.url}/v1", api_key="sk-l", max_retries=0) as client:
        stream = client.chat.completions.create(model="endless", messages=ASKED, max_tokens=100, stream=True)
        next(iter(stream))
        stream.close()
    time.sleep(1)
    assert account_of(folder, "sk-l") >= ESTIMATE


def test_a_usage_of_nothing_is_free(limiter: SyncRateLimiter) -> None:
    with limiter.acquire("ann", "model", {"rpm": 1}, draws=account("plain")) as lease:
        lease.draws[0].settle(TokenUsage())
    assert spent(limiter) == 0
