"""Middleware inside middleware, and middleware that calls its application again: each layer ends its own leases."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from support.core.web.limits import limiter_of
from zae_limiter import Limit, RateLimiter, Repository
from zae_limiter.integrations.asgi import (
    AnswerMiddleware,
    Exchange,
    Message,
    RateLimitMiddleware,
    Receive,
    Scope,
    Send,
    lease_of,
)

App = Callable[[Scope, Receive, Send], Awaitable[None]]
LIMITS = [Limit.per_day("ip", 5), Limit.per_day("user", 1)]


@pytest.fixture
def limiter() -> RateLimiter:
    return RateLimiter(Repository.in_memory(), default_limits=LIMITS)


async def left(limiter: RateLimiter) -> dict[str, int]:
    return await limiter.available("ann", "api")


async def ask(app: App, *received: Message) -> tuple[int, dict[bytes, bytes]]:
    sent: list[Message] = []
    messages = list(received)

    async def receive() -> Message:
        return messages.pop(0) if messages else await asyncio.Future()

    async def send(message: Message) -> None:
        sent.append(message)

    await app({"type": "http", "path": "/here", "headers": []}, receive, send)
    assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
    assert len(sent[0]["headers"]) == len(dict(sent[0]["headers"]))
    return sent[0]["status"], dict(sent[0]["headers"])


async def hello(scope: Scope, receive: Receive, send: Send) -> None:
    await reply(send, 200)


async def reply(send: Send, status: int) -> None:
    await send({"type": "http.response.start", "status": status, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def limited(app: App, limiter: RateLimiter, cost: dict[str, int], **more: Any) -> RateLimitMiddleware:
    return RateLimitMiddleware(app, limiter=limiter, identity="ann", resource="api", cost=cost, **more)


async def answer_of(app: App, scope: Scope, receive: Receive) -> list[Message]:
    """What the application answers, held back."""
    held: list[Message] = []

    async def hold(message: Message) -> None:
        held.append(message)

    await app(scope, receive, hold)
    return held


def mounted(app: App) -> App:
    """What Starlette puts around every application that is mounted."""

    async def with_errors_as_500(scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await app(scope, receive, send)
        except Exception:
            await reply(send, 500)
            raise

    return with_errors_as_500


async def test_the_layer_inside_answers_its_refusal_and_the_one_outside_gives_back(limiter: RateLimiter) -> None:
    app = limited(mounted(limited(hello, limiter, {"user": 1})), limiter, {"ip": 1})
    assert [(await ask(app))[0] for _ in range(4)] == [200, 429, 429, 429]
    assert await left(limiter) == {"ip": 4, "user": 0}


async def test_the_layer_inside_answers_an_outage_and_the_one_outside_gives_back(limiter: RateLimiter) -> None:
    away = await limiter_of("away")
    app = limited(mounted(limited(hello, away, {"requests": 1})), limiter, {"ip": 1})
    status, fields = await ask(app)
    assert (status, fields[b"retry-after"], b"ratelimit" in fields) == (503, b"1", False)
    assert await left(limiter) == {"ip": 5, "user": 1}


async def test_a_client_that_leaves_the_line_of_the_layer_inside_gets_back_what_the_one_outside_took(
    limiter: RateLimiter,
) -> None:
    app = limited(mounted(limited(hello, limiter, {"user": 1}, max_wait=1e6)), limiter, {"ip": 1})
    assert [(await ask(app, *gone))[0] for gone in ([], [{"type": "http.disconnect"}])] == [200, 499]
    assert await left(limiter) == {"ip": 4, "user": 0}


async def test_a_cancelled_wait_of_the_layer_inside_gives_back_what_the_one_outside_took(limiter: RateLimiter) -> None:
    app = limited(mounted(limited(hello, limiter, {"user": 1}, max_wait=1e6)), limiter, {"ip": 1})
    await ask(app)
    asking = asyncio.create_task(ask(app))
    await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await left(limiter) == {"ip": 4, "user": 0}


@pytest.mark.parametrize(("refund", "ip"), [("never", 4), ("before_answer", 5)])
async def test_a_refusal_in_the_application_is_refunded_on_demand_by_every_layer(
    limiter: RateLimiter, refund: str, ip: int
) -> None:
    async def more(scope: Scope, receive: Receive, send: Send) -> None:
        await lease_of(scope).consume(user=2)

    app = limited(limited(more, limiter, {"user": 1}, refund=refund), limiter, {"ip": 1}, refund=refund)
    assert (await ask(app))[0] == 429
    assert await left(limiter) == {"ip": ip, "user": ip - 4}


async def test_each_layer_shows_its_lease_with_its_own_options(limiter: RateLimiter) -> None:
    inside = limited(hello, limiter, {"user": 1}, units={"user": "calls"}, legacy=True)
    app = limited(inside, limiter, {"ip": 1}, units={"ip": "clicks"})
    _, fields = await ask(app)
    assert fields[b"ratelimit-policy"] == b'"user";q=1;qu="calls";w=86400'
    assert fields[b"x-ratelimit-remaining"] == b"0"
    status, fields = await ask(app)
    assert (status, fields[b"ratelimit-policy"]) == (429, b'"user";q=1;qu="calls";w=86400')
    assert fields[b"x-ratelimit-remaining"] == b"0"
    _, fields = await ask(limited(AnswerMiddleware(hello, legacy=True), limiter, {"ip": 1}, units={"ip": "clicks"}))
    assert fields[b"ratelimit-policy"] == b'"ip";q=5;qu="clicks";w=86400'
    assert b"x-ratelimit-remaining" not in fields


@pytest.mark.parametrize("outside", [False, True])
async def test_an_application_that_is_called_again_is_limited_and_settles_again(
    limiter: RateLimiter, *, outside: bool
) -> None:
    answers = [503, 200]

    async def failing_once(scope: Scope, receive: Receive, send: Send) -> None:
        await lease_of(scope).settle(ip=2)
        await reply(send, answers.pop(0))

    again = limited(failing_once, limiter, {"ip": 1})

    async def retrying(scope: Scope, receive: Receive, send: Send) -> None:
        held = await answer_of(again, scope, receive)
        if held[0]["status"] == 503:
            held = await answer_of(again, scope, receive)
        for message in held:
            await send(message)

    status, fields = await ask(AnswerMiddleware(retrying) if outside else retrying)
    assert (status, fields[b"ratelimit"].split(b";")[1]) == (200, b"r=1")
    assert await left(limiter) == {"ip": 1, "user": 1}


@pytest.mark.parametrize("outside", [False, True])
async def test_the_second_of_two_applications_is_limited_though_the_first_did_not_know_the_path(
    limiter: RateLimiter, *, outside: bool
) -> None:
    first, second = limited(missing, limiter, {}), limited(hello, limiter, {"user": 1})

    async def cascade(scope: Scope, receive: Receive, send: Send) -> None:
        await first(scope, receive, swallow)
        await second(scope, receive, send)

    app = limited(cascade, limiter, {"ip": 1}) if outside else cascade
    answers = [await ask(app) for _ in range(2)]
    assert [status for status, _ in answers] == [200, 429]
    assert all(b'"user"' in fields[b"ratelimit"] for _, fields in answers)
    assert await left(limiter) == {"ip": 4 if outside else 5, "user": 0}


async def test_an_application_in_between_that_gives_another_answer_than_a_refusal_is_limited_by_the_layer_outside(
    limiter: RateLimiter,
) -> None:
    premium = limited(hello, limiter, {"user": 1})

    async def friendly(scope: Scope, receive: Receive, send: Send) -> None:
        held = await answer_of(premium, scope, receive)
        if held[0]["status"] == 429:
            return await hello(scope, receive, send)
        for message in held:
            await send(message)
        return None

    app = limited(friendly, limiter, {"ip": 1})
    answers = [await ask(app) for _ in range(6)]
    assert [status for status, _ in answers] == [200, 200, 200, 200, 200, 429]
    assert all(b'"ip"' in fields[b"ratelimit"] for _, fields in answers[1:])


async def missing(scope: Scope, receive: Receive, send: Send) -> None:
    await reply(send, 404)


async def swallow(message: Message) -> None: ...


async def test_a_layer_whose_request_has_ended_is_no_longer_in_the_scope(limiter: RateLimiter) -> None:
    scope = {"type": "http", "path": "/here"}
    await limited(hello, limiter, {"ip": 1})(scope, asyncio.Future, swallow)
    with pytest.raises(LookupError, match="install it"):
        Exchange.of(scope)
