"""Streams that are cut, as the clients of OpenAI and Anthropic see them: over the network, and as wrapped objects."""

from collections.abc import Iterator
from typing import Any, Literal

import pytest

pytest.importorskip("openai", reason="openai is not installed: `just test-llm newest` has it")
import anthropic
import openai
from anthropic.types import RawContentBlockDeltaEvent, RawContentBlockStartEvent
from hypothesis import given, settings
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionChunk
from openai.types.responses import ResponseOutputItemAddedEvent, ResponseTextDeltaEvent

from support.core.llm.provider import USED, Provider, providing
from zae_limiter import Limit, RateLimiter, Repository, SyncRateLimiter, SyncRepository
from zae_limiter.integrations.cut import CutStream, SyncCutStream
from zae_limiter.streams import Pieces, SyncPieces

LIMITS = [Limit.custom("tokens", 60, kind="total")]
ASKED: Any = [{"role": "user", "content": "x" * 40}]
Api = Literal["chat", "messages", "responses"]
EACH_API = pytest.mark.parametrize("api", ["chat", "messages", "responses"])
AGAIN = 2  # tokens of "again ", by four bytes each


@pytest.fixture
def provider() -> Iterator[Provider]:
    with providing() as provider:
        yield provider


@pytest.fixture
def limiter() -> SyncRateLimiter:
    return SyncRateLimiter(SyncRepository.in_memory(), default_limits=LIMITS)


def clients(provider: Provider, *, blocking: bool) -> Any:
    of_openai, of_anthropic = (
        (openai.OpenAI, anthropic.Anthropic) if blocking else (openai.AsyncOpenAI, anthropic.AsyncAnthropic)
    )
    return {
        "chat": (client := of_openai(base_url=f"{provider.url}/v1", api_key="sk-1", max_retries=0)),
        "responses": client,
        "messages": of_anthropic(base_url=provider.url, api_key="sk-1", max_retries=0),
    }


def request(api: Api, model: str = "endless") -> dict[str, Any]:
    if api == "responses":
        return {"model": model, "input": ASKED}
    more = {"max_tokens": 100} if api == "messages" else {"stream_options": {"include_usage": True}}
    return {"model": model, "messages": ASKED, **more}


def opened(client: Any, api: Api, model: str = "endless") -> Any:
    where = {"chat": lambda: client.chat.completions, "responses": lambda: client.responses}
    place = client.messages if api == "messages" else where[api]()
    return place.create(**request(api, model), stream=True)


def text_of(part: Any) -> str:
    if getattr(part, "choices", None):
        return part.choices[0].delta.content or ""
    if getattr(part, "type", "") == "content_block_delta":
        return str(part.delta.text)
    return str(part.delta) if getattr(part, "type", "") == "response.output_text.delta" else ""


def why_ended(api: Api, parts: list[Any]) -> str:
    """The reason that a program reads; the last events have their form."""
    if api == "chat":
        assert parts[-1].usage.total_tokens == parts[-1].usage.prompt_tokens + parts[-1].usage.completion_tokens
        return str(parts[-1].choices[0].finish_reason)
    if api == "messages":
        assert [each.type for each in parts[-3:]] == ["content_block_stop", "message_delta", "message_stop"]
        return str(parts[-2].delta.stop_reason)
    assert [each.type for each in parts[-4:]] == [
        "response.output_text.done",
        "response.content_part.done",
        "response.output_item.done",
        "response.incomplete",
    ]
    assert parts[-1].response.output_text == parts[-4].text == "".join(map(text_of, parts))
    return str(parts[-1].response.incomplete_details.reason)


REASONS = {"chat": "length", "messages": "max_tokens", "responses": "max_output_tokens"}


def refusal_in(api: Api, parts: list[Any]) -> dict[str, Any]:
    """What the field says that a library does not know, and keeps."""
    return dict(parts[-2 if api == "messages" else -1].rate_limit)


@EACH_API
def test_a_gateway_cuts_a_stream_and_the_client_reads_a_clean_end(
    provider: Provider, limiter: SyncRateLimiter, api: Api
) -> None:
    def gateway(events: Iterator[str]) -> Iterator[str]:
        with limiter.acquire("ann", "m", {"tokens": 20}) as lease:
            yield from SyncCutStream(events, SyncPieces(lease, {"tokens": 16}), request=request(api))

    provider.through = gateway
    with clients(provider, blocking=True)[api] as client:
        parts = list(opened(client, api))
    assert why_ended(api, parts) == REASONS[api]
    refused = refusal_in(api, parts)
    assert (refused["status"], refused["reason"], refused["violated-policies"]) == (429, "quota", ["tokens"])
    delivered = sum(text_of(each) == "again " for each in parts)
    left = limiter.available("ann", "m")["tokens"]
    assert delivered > 10
    assert 0 <= left < AGAIN


@EACH_API
def test_a_client_that_leaves_a_gateway_pays_for_what_it_got(
    provider: Provider, limiter: SyncRateLimiter, api: Api
) -> None:
    limiter.set_limits("ann", [Limit.custom("tokens", 1_000_000, kind="total")], "m")
    ended: list[int] = []

    def gateway(events: Iterator[str]) -> Iterator[str]:
        with limiter.acquire("ann", "m", {"tokens": 20}) as lease:
            stream = SyncCutStream(events, SyncPieces(lease, {"tokens": 1000}), request=request(api))
            try:
                yield from stream
            finally:
                stream.close()
                ended.append(stream.delivered.total)

    provider.through = gateway
    with clients(provider, blocking=True)[api] as client:
        stream = opened(client, api)
        for _ in range(8):
            next(iter(stream))
        stream.close()
        while not ended:
            pass
        while limiter.available("ann", "m")["tokens"] < 1_000_000 - 1020:
            pass
    assert limiter.available("ann", "m") == {"tokens": 1_000_000 - ended[0]}


@EACH_API
def test_a_blocking_client_is_cut(provider: Provider, limiter: SyncRateLimiter, api: Api) -> None:
    with clients(provider, blocking=True)[api] as client:
        with limiter.acquire("ann", "m", {"tokens": 20}) as lease:
            stream = SyncCutStream(opened(client, api), SyncPieces(lease, {"tokens": 16}), request=request(api))
            parts = list(stream)
        assert stream.cut is not None
        assert why_ended(api, parts) == REASONS[api]
        assert refusal_in(api, parts)["reason"] == "quota"
        assert lease.consumed == {"tokens": stream.delivered.total}
    assert 0 <= limiter.available("ann", "m")["tokens"] < AGAIN


@EACH_API
async def test_a_client_on_an_event_loop_is_cut(provider: Provider, api: Api) -> None:
    limiter = RateLimiter(Repository.in_memory(), default_limits=LIMITS)
    async with clients(provider, blocking=False)[api] as client:
        async with limiter.acquire("ann", "m", {"tokens": 20}) as lease:
            upstream = await opened(client, api)
            stream = CutStream(upstream, Pieces(lease, {"tokens": 16}), request=request(api))
            parts = [part async for part in stream]
        assert why_ended(api, parts) == REASONS[api]
        assert (stream.cut is not None, upstream.response.is_closed) == (True, True)
    assert 0 <= (await limiter.available("ann", "m"))["tokens"] < AGAIN


@EACH_API
async def test_a_stream_that_fits_is_settled_by_its_usage(provider: Provider, api: Api) -> None:
    limiter = RateLimiter(Repository.in_memory(), default_limits=LIMITS)
    async with clients(provider, blocking=False)[api] as client:
        async with limiter.acquire("ann", "m", {"tokens": 20}) as lease:
            stream = CutStream(await opened(client, api, "plain"), Pieces(lease, {"tokens": 5}), request=request(api))
            parts = [part async for part in stream]
        assert stream.cut is None
        assert "".join(map(text_of, parts)) == "one two three "
    assert await limiter.available("ann", "m") == {"tokens": 60 - USED}


@EACH_API
async def test_a_provider_that_breaks_off_is_paid_for_what_came(provider: Provider, api: Api) -> None:
    limiter = RateLimiter(Repository.in_memory(), default_limits=LIMITS)
    async with clients(provider, blocking=False)[api] as client:
        async with limiter.acquire("ann", "m", {"tokens": 40}) as lease:
            stream = CutStream(await opened(client, api, "cut"), Pieces(lease, {"tokens": 5}), request=request(api))
            parts = [part async for part in stream]
        assert "".join(map(text_of, parts)) == "one two "
    assert await limiter.available("ann", "m") == {"tokens": 60 - stream.delivered.total}
    assert stream.delivered.output in (1, 2)  # Anthropic's says of the beginning that it has one


FIELDS = (
    *("choices", "index", "delta", "finish_reason", "usage", "message", "content_block", "response", "item"),
    *("output_index", "content_index", "sequence_number", "item_id", "content", "text", "id", "model"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4),
    max_leaves=8,
)
EVENTS: dict[Api, list[tuple[Any, str | None]]] = {
    "chat": [(ChatCompletionChunk, None)],
    "messages": [
        (RawContentBlockStartEvent, "content_block_start"),
        (RawContentBlockDeltaEvent, "content_block_delta"),
    ],
    "responses": [
        (ResponseOutputItemAddedEvent, "response.output_item.added"),
        (ResponseTextDeltaEvent, "response.output_text.delta"),
    ],
}
TEXTS: dict[Api, dict[str, Any]] = {
    "chat": {"choices": [{"index": 0, "delta": {"content": "eight by"}}]},
    "messages": {"index": 0, "delta": {"type": "text_delta", "text": "eight by"}},
    "responses": {"output_index": 0, "content_index": 0, "delta": "eight by"},
}


@EACH_API
@settings(max_examples=40)
@given(fields=st.lists(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=6), max_size=5))
def test_objects_of_any_fields_arrive_and_end_as_their_api_does(api: Api, fields: list[dict[str, Any]]) -> None:
    def event(of: int, fields: dict[str, Any]) -> Any:
        kind, name = EVENTS[api][of % len(EVENTS[api])]
        return kind.construct(**fields, **({} if name is None else {"type": name}))

    malformed = [event(number, each) for number, each in enumerate(fields)]
    texts = [event(-1, TEXTS[api]) for _ in range(40)]
    limits = Limit.custom("tokens", 10**6, kind="total"), LIMITS[0]
    for sent, limit in ((malformed, limits[0]), ([*malformed, *texts], limits[1])):
        limiter = SyncRateLimiter(SyncRepository.in_memory(), default_limits=[limit])
        with limiter.acquire("ann", "m", {"tokens": 0}) as lease:
            stream = SyncCutStream(sent, SyncPieces(lease, {"tokens": 16}))
            got = list(stream)
        assert limiter.available("ann", "m")["tokens"] == limit.capacity - stream.delivered.total
    assert stream.cut is not None
    delivered = next(n for n, part in enumerate(got) if n == len(sent) or part is not sent[n])
    ends = got[delivered:]
    assert why_it_ended(api, ends) == REASONS[api]


def why_it_ended(api: Api, ends: list[Any]) -> str:
    if api == "chat":
        return str(ends[0].choices[0].finish_reason)
    return str(ends[-2].delta.stop_reason if api == "messages" else ends[-1].response.incomplete_details.reason)
