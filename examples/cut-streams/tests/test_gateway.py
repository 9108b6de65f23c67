import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

import gateway
import provider
from zae_limiter import Limit, RateLimiter, Repository
from zae_limiter.testing import ManualClock

pytestmark = pytest.mark.anyio
ASKED = {"model": "fake", "messages": [{"role": "user", "content": "Go on."}], "max_tokens": 10_000}
CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
BOTH = pytest.mark.parametrize("path", [CHAT, MESSAGES])
WORD = 2  # tokens


class Endless(httpx.AsyncByteStream):
    """The stream of a provider that does not end by itself."""

    def __init__(self, path: str) -> None:
        self.events: Iterator[Any] = provider.chunks(10**9) if path == CHAT else provider.events(10**9)
        self.closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for event in self.events:
            await asyncio.sleep(0)
            yield provider.sent(event).encode()

    async def aclose(self) -> None:
        self.closed = True


class Gateway(httpx.AsyncClient):
    """A client of the gateway in this process, before a provider in this process."""

    def __init__(self, upstream: httpx.AsyncBaseTransport, tokens: int) -> None:
        self.limiter = RateLimiter(
            Repository.in_memory(clock=ManualClock()), default_limits=[Limit.custom("tokens", tokens, kind="total")]
        )
        self.upstream = httpx.AsyncClient(base_url="http://provider", transport=upstream)

        async def app(scope: Any, receive: Any, send: Any) -> None:
            state = {"limiter": self.limiter, "provider": self.upstream}
            await gateway.app({**scope, "state": state}, receive, send)

        self.app = app
        super().__init__(base_url="http://gateway", transport=httpx.ASGITransport(app))

    async def ask(self, path: str = CHAT, key: str = "sk-ann", **more: Any) -> httpx.Response:
        return await self.post(path, json=ASKED | more, headers={"Authorization": f"Bearer {key}"})

    async def left(self) -> int:
        return (await self.limiter.available("key-ann", "models"))["tokens"]


@asynccontextmanager
async def opened(upstream: httpx.AsyncBaseTransport, tokens: int = 1000) -> AsyncIterator[Gateway]:
    async with Gateway(upstream, tokens) as client, client.upstream:
        yield client


def events(answer: httpx.Response) -> list[Any]:
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: {")]
    return [json.loads(line) for line in lines]


@BOTH
async def test_a_stream_ends_where_the_tokens_end(path: str) -> None:
    endless = Endless(path)
    async with opened(httpx.MockTransport(lambda _: httpx.Response(200, stream=endless))) as client:
        answer = await client.ask(path)
        assert (answer.status_code, endless.closed) == (200, True)
        assert 0 <= await client.left() < WORD
        assert (await client.ask(path)).status_code == 429
    found = events(answer)
    if path == CHAT:
        assert answer.text.endswith("data: [DONE]\n\n")
        assert found[-1]["choices"] == [{"index": 0, "delta": {}, "finish_reason": "length"}]
    else:
        assert [each["type"] for each in found[-3:]] == ["content_block_stop", "message_delta", "message_stop"]
        assert found[-2]["delta"]["stop_reason"] == "max_tokens"
    refused = found[-1 if path == CHAT else -2]["rate_limit"]
    assert (refused["status"], refused["reason"], refused["violated-policies"]) == (429, "quota", ["tokens"])


@BOTH
async def test_a_stream_that_fits_is_settled_by_its_usage(path: str) -> None:
    async with opened(httpx.ASGITransport(provider.app)) as client:
        answer = await client.ask(path, max_tokens=100)
        assert "rate_limit" not in answer.text
        assert await client.left() == 1000 - provider.PROMPT - 100 * WORD


async def test_streams_at_once_share_what_is_left_and_none_is_over() -> None:
    async with opened(httpx.MockTransport(lambda _: httpx.Response(200, stream=Endless(CHAT))), 3000) as client:
        answers = await asyncio.gather(*(client.ask() for _ in range(5)))
        assert {answer.status_code for answer in answers} == {200}
        used = sum(events(answer)[-1]["usage"]["total_tokens"] for answer in answers)
        left = await client.left()
    assert used + left == 3000
    assert 0 <= left < 5 * gateway.PIECE  # what a stream that ended after the others has given back


async def test_a_client_that_leaves_pays_for_what_it_got() -> None:
    endless, seen, got = Endless(CHAT), asyncio.Event(), 0
    messages = [{"type": "http.request", "body": json.dumps(ASKED).encode(), "more_body": False}]
    fields = [(b"authorization", b"Bearer sk-ann"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": CHAT, "query_string": b"", "headers": fields}

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await seen.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal got
        got += message.get("body", b"").count(b"word")
        if got == 50:
            seen.set()

    upstream = httpx.MockTransport(lambda _: httpx.Response(200, stream=endless))
    async with opened(upstream, tokens=1_000_000) as client:
        await asyncio.wait_for(client.app({**scope, "server": ("gateway", 80)}, receive, send), 20)
        used = 1_000_000 - await client.left()
    assert endless.closed
    prompt = used - got * WORD
    assert 0 < prompt <= 40  # the word under way when it left may be one of those


async def test_a_provider_that_fails_costs_nothing() -> None:
    async with opened(httpx.MockTransport(lambda _: httpx.Response(503, json={"error": "overloaded"}))) as client:
        assert (await client.ask()).status_code == 503
        assert await client.left() == 1000


async def test_a_wrong_key_is_401() -> None:
    async with opened(httpx.ASGITransport(provider.app)) as client:
        assert (await client.ask(key="sk-nobody")).status_code == 401
