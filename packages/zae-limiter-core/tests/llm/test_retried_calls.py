"""A retried call of a language model counts once: through LiteLLM's proxy, and by LangChain's chat models."""

import asyncio
from collections.abc import Iterator
from contextvars import ContextVar
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("langchain_openai", reason="langchain-openai is not installed: `just test-llm newest` has it")
pytest.importorskip("litellm", reason="litellm is not installed: `just test-llm newest` has it")
from langchain_openai import ChatOpenAI

from support.core.llm.provider import USED, Provider, providing
from support.core.llm.proxy import HOOKS, Proxy, proxying
from zae_limiter import Limit, RateLimiter, Repository, SyncRateLimiter, SyncRepository, ValidationError
from zae_limiter.exceptions import IdempotencyKeyError
from zae_limiter.integrations import litellm as of_litellm
from zae_limiter.integrations.langchain import RequestLimiter, TokenLimits, retry_key

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),  # of old releases of LangChain
]
WHOLE = 1000
LIMITS = [Limit.per_day("rpm", 5), Limit.per_day("tpm", WHOLE)]
ASKED: Any = [{"role": "user", "content": "x" * 40}]
BODY = {"model": "plain", "messages": ASKED, "max_tokens": 100}
KEYED = HOOKS.replace('{"tpm": "tokens"})', '{"tpm": "tokens"}, idempotency_key=retry_key, key_life=60)').replace(
    "import RateLimits", "import RateLimits, retry_key"
)
FIELD = {"Idempotency-Key": "order-77"}
PLACE: Any = {"entity_id": "ann", "resource": "model"}
ORDER: Any = {"metadata": {"idempotency_key": "order-77"}}
RPM: Any = {"rpm": 1}


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with providing() as provider:
        yield provider


@pytest.fixture(scope="module")
def proxy(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with proxying(provider.url, tmp_path_factory.mktemp("proxy"), KEYED) as proxy:
        yield proxy


@pytest.fixture
def key() -> str:
    return f"sk-{uuid4().hex}"


# LiteLLM's proxy


@pytest.mark.parametrize("stream", [False, True])
def test_a_retried_call_of_the_proxy_counts_once(proxy: Proxy, key: str, *, stream: bool) -> None:
    body = {**BODY, "stream": stream, "metadata": {"job": "7"}}
    for _ in range(3):
        assert proxy.post(key, body, headers=FIELD)[0] == 200
    assert proxy.left(key) == WHOLE - USED
    for _ in range(2):
        assert proxy.post(key, body)[0] == 200
    assert proxy.left(key) == WHOLE - 3 * USED


def test_a_key_of_the_proxy_is_of_one_body_and_one_user(proxy: Proxy, key: str) -> None:
    other = {**BODY, "messages": [{"role": "user", "content": "y" * 40}]}
    assert [proxy.post(key, each, headers=FIELD)[0] for each in (BODY, other, BODY)] == [200] * 3
    assert proxy.left(key) == WHOLE - 2 * USED
    another = f"sk-{uuid4().hex}"
    assert proxy.post(another, BODY, headers=FIELD)[0] == 200
    assert proxy.left(another) == WHOLE - USED


@pytest.mark.parametrize("field", ["", "x" * 256])
def test_a_bad_key_of_the_proxy_is_a_400_and_takes_nothing(proxy: Proxy, key: str, field: str) -> None:
    status, _, body = proxy.post(key, BODY, headers={"Idempotency-Key": field})
    assert status == 400, body
    assert proxy.left(key) == WHOLE


def test_a_key_that_all_calls_would_share_is_an_error_at_once() -> None:
    limiter = RateLimiter(Repository.in_memory(), default_limits=LIMITS)
    constant: Any = "order-77"
    for make in (
        lambda: of_litellm.RateLimits(limiter, idempotency_key=constant),
        lambda: TokenLimits(limiter, **PLACE, idempotency_key=constant),
        lambda: RequestLimiter(limiter, **PLACE, consume=RPM, idempotency_key=constant),
    ):
        with pytest.raises(ValidationError, match="idempotency_key 'order-77': must be a function of the call"):
            make()
    with pytest.raises(ValidationError, match="key_life 60: needs a key"):
        of_litellm.RateLimits(limiter, key_life=60)


# LangChain


def model_of(provider: Provider, name: str = "plain", **options: Any) -> Any:
    url = f"{provider.url}/v1"
    return ChatOpenAI(model=name, base_url=url, api_key="sk-1", max_retries=0, max_tokens=100, **options)


@pytest.fixture
def limiter() -> SyncRateLimiter:
    return SyncRateLimiter(SyncRepository.in_memory(), default_limits=LIMITS)


def limits_of(limiter: Any, **options: Any) -> TokenLimits:
    return TokenLimits(limiter, **PLACE, **{"idempotency_key": retry_key, **options})


async def test_a_retried_call_of_a_chat_model_counts_once(provider: Provider, limiter: SyncRateLimiter) -> None:
    model = model_of(provider, callbacks=[limits_of(limiter, key_life=60)])
    for _ in range(2):
        model.invoke("x" * 40, ORDER)
        await model.ainvoke("x" * 40, ORDER)
    assert limiter.available("ann", "model") == {"rpm": 4, "tpm": WHOLE - USED}
    model.invoke("x" * 40)
    model.invoke("y" * 40, ORDER)  # another call of the same chain
    assert limiter.available("ann", "model") == {"rpm": 2, "tpm": WHOLE - 3 * USED}


async def test_a_retried_call_counts_once_on_an_event_loop(provider: Provider) -> None:
    limiter = RateLimiter(Repository.in_memory(), default_limits=LIMITS)
    model = model_of(provider, callbacks=[limits_of(limiter)])
    await asyncio.gather(*(model.ainvoke("x" * 40, ORDER) for _ in range(4)))
    assert await limiter.available("ann", "model") == {"rpm": 4, "tpm": WHOLE - USED}


async def test_a_failed_call_and_its_retry_count_once(provider: Provider, limiter: SyncRateLimiter) -> None:
    limits = limits_of(limiter)
    for name in ("broken", "broken"):
        with pytest.raises(Exception, match="5"):
            await model_of(provider, name, callbacks=[limits]).ainvoke("x" * 40, ORDER)
    assert limiter.available("ann", "model")["rpm"] == 4


async def test_a_key_of_ones_own_is_checked_against_the_amounts(provider: Provider, limiter: SyncRateLimiter) -> None:
    limits = limits_of(limiter, idempotency_key=lambda _, metadata: metadata["job"])
    model = model_of(provider, callbacks=[limits])
    model.invoke("x" * 40, {"metadata": {"job": "7"}})
    with pytest.raises(IdempotencyKeyError):
        model.invoke("x" * 400, {"metadata": {"job": "7"}})
    assert limiter.available("ann", "model") == {"rpm": 4, "tpm": WHOLE - USED}


async def test_requests_alone_have_the_key_of_their_context(provider: Provider, limiter: SyncRateLimiter) -> None:
    job: ContextVar[str | None] = ContextVar("job", default=None)
    requests = RequestLimiter(limiter, **PLACE, consume=RPM, idempotency_key=job.get, key_life=60)
    model = model_of(provider, rate_limiter=requests)
    model.invoke("x")
    job.set("order-77")
    for _ in range(2):
        model.invoke("x")
        await model.ainvoke("x")
    assert limiter.available("ann", "model")["rpm"] == 3
