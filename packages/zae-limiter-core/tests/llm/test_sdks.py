"""The pattern of docs/guides/llm.md with the clients of OpenAI and Anthropic, where their calls do not go well."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

pytest.importorskip("openai", reason="openai is not installed: `just test-llm newest` has it")
import anthropic
import openai

from support.core.llm.provider import USED, Provider, providing
from zae_limiter import Limit, RateLimiter, RateLimitExceeded, Repository
from zae_limiter.integrations.tokens import estimate
from zae_limiter.integrations.usage import UsageReader

LIMITS = [Limit.per_day("rpm", 5), Limit.per_day("tpm", 1000)]
WHOLE = {"rpm": 5, "tpm": 1000}


def asked(model: str) -> dict[str, Any]:
    return {"model": model, "messages": [{"role": "user", "content": "x" * 40}], "max_tokens": 100}


class OpenAI:
    """Calls of OpenAI's API, limited as the guide says."""

    def __init__(self, provider: Provider, **options: Any) -> None:
        self.client: Any = openai.AsyncOpenAI(base_url=f"{provider.url}/v1", api_key="sk-1", **options)
        self.limiter = RateLimiter(Repository.in_memory(), default_limits=LIMITS)
        self.extra: dict[str, Any] = {"stream_options": {"include_usage": True}}

    @property
    def create(self) -> Any:
        return self.client.chat.completions.create

    async def call(self, model: str = "plain", *, stream: bool = False, rollback: bool = True) -> None:
        request = asked(model)
        cost = {"rpm": 1, "tpm": estimate(request)}
        async with self.limiter.acquire("ann", "m", cost, rollback=rollback) as lease:
            reader = UsageReader()
            answer = await self.create(**request, **({"stream": True, **self.extra} if stream else {}))
            if stream:
                async for event in answer:
                    reader.add(event)
            else:
                reader.add(answer)
            if reader.usage is not None:
                await lease.settle(tpm=reader.usage.total)

    async def left(self) -> dict[str, int]:
        return await self.limiter.available("ann", "m")


class Anthropic(OpenAI):
    """The same for Anthropic's."""

    def __init__(self, provider: Provider, **options: Any) -> None:
        super().__init__(provider)
        self.client = anthropic.AsyncAnthropic(base_url=provider.url, api_key="sk-1", **options)
        self.extra = {}

    @property
    def create(self) -> Any:
        return self.client.messages.create


@pytest.fixture
def provider() -> Iterator[Provider]:
    with providing() as provider:
        yield provider


@pytest.fixture(params=[OpenAI, Anthropic])
def caller(request: pytest.FixtureRequest, provider: Provider) -> Any:
    return request.param(provider, max_retries=0)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_is_settled(provider: Provider, caller: OpenAI, *, stream: bool) -> None:
    await caller.call(stream=stream)
    assert (len(provider.asked), await caller.left()) == (1, {"rpm": 4, "tpm": 1000 - USED})


async def test_a_refusal_sends_no_request(provider: Provider, caller: OpenAI) -> None:
    answers = await asyncio.gather(*(caller.call() for _ in range(9)), return_exceptions=True)
    assert sum(isinstance(each, RateLimitExceeded) for each in answers) == 4
    assert (len(provider.asked), await caller.left()) == (5, {"rpm": 0, "tpm": 1000 - 5 * USED})


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("model", "status"), [("busy", 429), ("broken", 500)])
async def test_an_error_of_the_provider_gives_back(
    provider: Provider, caller: OpenAI, model: str, status: int, *, stream: bool
) -> None:
    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as error:
        await caller.call(model, stream=stream)
    assert (error.value.status_code, len(provider.asked), await caller.left()) == (status, 1, WHOLE)


@pytest.mark.parametrize(
    ("rollback", "left"), [(True, WHOLE), (False, {"rpm": 4, "tpm": 1000 - estimate(asked("endless"))})]
)
async def test_a_cancelled_stream_goes_back_or_keeps_its_estimate(
    provider: Provider, caller: OpenAI, left: dict[str, int], *, rollback: bool
) -> None:
    call = asyncio.create_task(caller.call("endless", stream=True, rollback=rollback))
    await provider.is_asked()
    await asyncio.sleep(0.2)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await caller.left() == left


@pytest.mark.parametrize("make", [OpenAI, Anthropic])
async def test_the_retries_of_a_client_are_requests_that_the_limiter_does_not_see(
    provider: Provider, make: Any
) -> None:
    caller = make(provider, max_retries=2)
    with pytest.raises((openai.RateLimitError, anthropic.RateLimitError)):
        await caller.call("busy", rollback=False)
    assert (len(provider.asked), (await caller.left())["rpm"]) == (3, 4)


@pytest.mark.parametrize("make", [OpenAI, Anthropic])
@pytest.mark.parametrize(
    ("model", "status", "asked", "code"),
    [
        ("hopeless", 429, 1, "rate_limit_exceeded"),
        ("used-up", 429, 1, "insufficient_quota"),
        ("spent", 402, 1, "insufficient_quota"),
        ("brief", 429, 3, "rate_limit_exceeded"),
    ],
)
async def test_a_client_asks_once_where_no_wait_helps(
    provider: Provider, make: Any, model: str, status: int, asked: int, code: str
) -> None:
    caller = make(provider, max_retries=2)
    with pytest.raises((openai.APIStatusError, anthropic.APIStatusError)) as error:
        await caller.call(model)
    assert (error.value.status_code, len(provider.asked)) == (status, asked)
    if isinstance(error.value, openai.APIStatusError):
        assert error.value.code == code
