"""LiteLLM's proxy cuts streams at the limit of their key, and its clients read a clean end."""

import operator
from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("litellm", reason="litellm is not installed: `just test-llm newest` has it")
pytest.importorskip("openai", reason="openai is not installed: `just test-llm newest` has it")
import anthropic
import openai
from litellm.types.utils import ModelResponseStream

from support.core.llm.provider import Provider, providing
from support.core.llm.proxy import HOOKS, Proxy, proxying
from zae_limiter import Limit, RateLimiter, Repository
from zae_limiter import ValidationError as Invalid
from zae_limiter.integrations import litellm

pytestmark = [
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*ReadOnly:UserWarning"),  # of LiteLLM's own types
]
ASKED: Any = [{"role": "user", "content": "x" * 40}]
CUTTING = HOOKS.replace('per_day("tpm", 1000)', 'custom("tpm", 100, kind="total")').replace(
    "units=", "piece=20, units="
)


def chunk(text: str) -> Any:
    return ModelResponseStream(choices=[{"index": 0, "delta": {"content": text}, "finish_reason": None}])


class Parts:
    """What LiteLLM hands to its hook."""

    closed = False

    async def __aiter__(self) -> AsyncIterator[Any]:
        while True:
            yield chunk("eight by")

    async def aclose(self) -> None:
        self.closed = True


@pytest.mark.parametrize("reads", [5, 10_000])
async def test_the_hook_cuts_a_stream_and_settles_what_the_client_got(reads: int) -> None:
    limiter = RateLimiter(Repository.in_memory(), default_limits=[Limit.custom("tpm", 100, kind="total")])
    named: Any = {"identity": lambda _: "ann", "resource": lambda _: "model", "requests": None}
    hooks, parts = litellm.RateLimits(limiter, piece=20, **named), Parts()
    data: dict[str, Any] = {"model": "model", "messages": ASKED, "stream": True}
    await hooks.async_pre_call_hook(None, None, data, "acompletion")
    prompt = 80 - (await limiter.available("ann", "model"))["tpm"]
    stream, got = hooks.async_post_call_streaming_iterator_hook(None, parts, data), []
    async for part in stream:
        got.append(part)
        if len(got) == reads:
            break
    await stream.aclose()
    assert parts.closed
    words = sum(bool(part.choices[0].delta.content) for part in got)
    assert (await limiter.available("ann", "model"))["tpm"] == 100 - prompt - 2 * words
    if reads > 5:
        assert 100 - prompt - 2 * words < 2
        assert (got[-1].choices[0].finish_reason, got[-1].rate_limit["reason"]) == ("length", "quota")


@pytest.mark.parametrize("choices", [5, "a text", [None], ["a text"], [{"index": [], "delta": 5}], {"delta": "a text"}])
async def test_a_malformed_part_reaches_the_client_and_counts(choices: Any) -> None:
    limiter = RateLimiter(Repository.in_memory(), default_limits=[Limit.custom("tpm", 100, kind="total")])
    named: Any = {"identity": lambda _: "ann", "resource": lambda _: "model", "requests": None}
    hooks = litellm.RateLimits(limiter, piece=20, **named)
    sent = [chunk("eight by"), ModelResponseStream.model_construct(choices=choices), chunk("eight by")]

    async def parts() -> AsyncIterator[Any]:
        for part in sent:
            yield part

    data: dict[str, Any] = {"model": "model", "messages": ASKED, "stream": True}
    await hooks.async_pre_call_hook(None, None, data, "acompletion")
    prompt = 80 - (await limiter.available("ann", "model"))["tpm"]
    got = [part async for part in hooks.async_post_call_streaming_iterator_hook(None, parts(), data)]
    assert all(map(operator.is_, got, sent))
    text = 6 if "a text" in str(choices) else 0
    assert (len(got), await limiter.available("ann", "model")) == (3, {"tpm": 100 - prompt - -(-(16 + text) // 4)})


@pytest.mark.parametrize("piece", [0, 1.5, True])
def test_a_piece_is_a_number_of_tokens(piece: Any) -> None:
    limiter = RateLimiter(Repository.in_memory())
    with pytest.raises(Invalid, match=f"piece {piece}: must be the tokens"):
        litellm.RateLimits(limiter, piece=piece)


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with providing() as provider:
        yield provider


@pytest.fixture(scope="module")
def proxy(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with proxying(provider.url, tmp_path_factory.mktemp("proxy"), CUTTING) as proxy:
        yield proxy


def test_a_chat_is_cut_and_the_next_one_is_refused(proxy: Proxy) -> None:
    with openai.OpenAI(base_url=f"{proxy.url}/v1", api_key=f"sk-{uuid4().hex}", max_retries=0) as client:
        parts = list(client.chat.completions.create(model="endless", messages=ASKED, stream=True))
        assert parts[-1].choices[0].finish_reason == "length"
        assert sum(bool(each.choices and each.choices[0].delta.content) for each in parts) > 10
        with pytest.raises(openai.RateLimitError):
            client.chat.completions.create(model="endless", messages=ASKED, stream=True)


def test_messages_are_cut(proxy: Proxy) -> None:
    with anthropic.Anthropic(base_url=proxy.url, api_key=f"sk-{uuid4().hex}", max_retries=0) as client:
        events = list(client.messages.create(model="claude-endless", messages=ASKED, max_tokens=9999, stream=True))
        assert events[-1].type == "message_stop"
        assert [each.delta.stop_reason for each in events if each.type == "message_delta"] == ["max_tokens"]


def test_a_response_is_cut(proxy: Proxy) -> None:
    with openai.OpenAI(base_url=f"{proxy.url}/v1", api_key=f"sk-{uuid4().hex}", max_retries=0) as client:
        events = list(client.responses.create(model="endless", input=ASKED, stream=True))
        assert events[-1].type == "response.incomplete"
        assert events[-1].response.incomplete_details is not None
        assert events[-1].response.incomplete_details.reason == "max_output_tokens"


def test_a_stream_that_fits_is_settled_by_its_usage(proxy: Proxy) -> None:
    with openai.OpenAI(base_url=f"{proxy.url}/v1", api_key=f"sk-{uuid4().hex}", max_retries=0) as client:
        for _ in range(2):  # of 30 tokens each; a third one finds no first piece
            parts = list(
                client.chat.completions.create(
                    model="plain", messages=ASKED, stream=True, stream_options={"include_usage": True}
                )
            )
            assert "length" not in [each.choices[0].finish_reason for each in parts if each.choices]
        with pytest.raises(openai.RateLimitError, match="tpm"):
            client.chat.completions.create(model="endless", messages=[{"role": "user", "content": "x" * 200}])
