"""Slots behind the middleware of plain ASGI: held while the request and its stream run, free however they end."""

import asyncio
import json
from contextlib import nullcontext, suppress
from typing import Any

import pytest

from support.core.web.asgi_world import BODY, START, World, hello
from zae_limiter import Limit, Options, RateLimiter, Repository
from zae_limiter.integrations import asgi
from zae_limiter.integrations.asgi import RateLimitMiddleware, Receive, Scope, Send, lease_of
from zae_limiter.integrations.leases import SlotEnded
from zae_limiter.runtime.log_throttle import LogThrottle
from zae_limiter.stores import MemoryStore

pytest_plugins = ["zae_limiter.testing.plugin"]
LIMITS = [Limit.per_minute("rpm", 10), Limit.concurrent("parallel", 1)]
WHAT: dict[str, Any] = {"limits": LIMITS, "cost": {"rpm": 1, "parallel": 1}}
GONE = {"type": "http.disconnect"}
REFUNDS = pytest.mark.parametrize("refund", ["never", "before_answer"])


class Failed(Exception):
    """What an application raises."""


class RemoteStore(MemoryStore):
    """A store whose answers take a while, so that a request can be cancelled meanwhile."""

    async def perform(self, operation: Any) -> Any:
        await asyncio.sleep(0.01)
        return await super().perform(operation)


@pytest.fixture
def world(limiter: RateLimiter) -> World:
    return World(limiter)


async def free_slots(world: World) -> int:
    bucket = await world.limiter.repository.get_bucket("user", "api")
    assert bucket is not None
    return next(each.available for each in bucket.limits if each.limit.name == "parallel")


async def test_a_stream_holds_its_slot_until_its_last_byte_and_a_refusal_says_when_to_ask_again(world: World) -> None:
    other = World(world.limiter)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(dict(START))
        for _ in range(2):
            await other.ask(hello, **WHAT)
            await send({**BODY, "more_body": True})
        await send(dict(BODY))

    await world.ask(app, **WHAT)
    begin, body = other.sent
    fields, document = dict(begin["headers"]), json.loads(body["body"])
    assert (begin["status"], fields[b"retry-after"], fields[b"ratelimit"]) == (429, b"1", b'"parallel";r=0;t=1')
    assert (document["violated-policies"], document["retry-after"]) == (["parallel"], 1)
    assert await free_slots(world) == 1
    await other.ask(hello, **WHAT)
    assert other.sent[0]["status"] == 200


@REFUNDS
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("end", ["raises", "is cancelled", "answers 500", "never answers", "sees its client leave"])
async def test_a_slot_is_free_however_the_application_ends(world: World, refund: str, end: str, *, begun: bool) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert await free_slots(world) == 0
        if begun:
            await send(dict(START))
        if end == "raises":
            raise Failed
        if end == "is cancelled":
            raise asyncio.CancelledError
        if end == "answers 500" and not begun:
            await send({**START, "status": 500})
        if end == "sees its client leave":
            assert await receive() == GONE

    world.received = [GONE]
    with suppress(Failed, asyncio.CancelledError):
        await world.ask(app, **WHAT, refund=refund)
    assert await free_slots(world) == 1


@REFUNDS
async def test_a_server_that_goes_on_cancelling_leaves_no_slot_held(refund: str) -> None:
    """As the task groups of anyio do, inside which other middleware runs the application."""
    world = World(RateLimiter(await Repository.over(RemoteStore(), Options())))

    async def app(*_: Any) -> None:
        reached.set()
        await asyncio.Future()

    reached = asyncio.Event()
    asking = asyncio.create_task(world.ask(app, **WHAT, refund=refund))
    await reached.wait()
    while not asking.done():
        asking.cancel()
        await asyncio.sleep(0)
    await world.limiter.driver.drain()
    assert await free_slots(world) == 1


class Reader(World):
    """A client that stops reading after some messages."""

    reads = 1

    async def send(self, message: Any) -> None:
        if len(self.sent) == self.reads:
            await asyncio.Future()
        await super().send(message)


class Wrapped(Exception):
    """What a framework makes of the error of a client that is gone."""


@REFUNDS
@pytest.mark.parametrize("framework", ["raises it", "makes another of it", "goes on"])
async def test_a_client_that_reads_nothing_holds_its_slot_until_it_expires(
    refund: str, framework: str, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = Reader(RateLimiter(Repository.in_memory()))  # in real time
    other = World(client.limiter)
    limits = [Limit.per_day("rpd", 10), Limit.concurrent("parallel", 1, expires=1)]
    what: dict[str, Any] = {"limits": limits, "cost": {"rpd": 1, "parallel": 1}}
    monkeypatch.setattr(asgi, "_cut_off", LogThrottle())  # of the process

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(dict(START))
        try:
            while True:
                await send({**BODY, "more_body": True})
        except OSError as error:  # as a server tells of a client that is gone
            if framework == "raises it":
                raise
            if framework == "makes another of it":
                raise Wrapped from error
            with pytest.raises(OSError, match="has not read"):
                await send(dict(BODY))

    asking = asyncio.create_task(client.ask(app, **what, refund=refund))
    await asyncio.sleep(0.1)
    await other.ask(hello, **what)
    assert other.sent[0]["status"] == 429
    await other.ask(hello, **what, max_wait=20.0)
    assert other.sent[0]["status"] == 200
    with nullcontext() if framework == "goes on" else pytest.raises(SlotEnded):  # so the server cuts the answer off
        await asking
    assert [message["type"] for message in client.sent] == ["http.response.start"]
    told = "the answer to '/here' was cut off: its client has not read for 1 s, in which a slot expires"
    assert (told in caplog.text) == (framework != "goes on")
    assert await client.limiter.available("user", "api", limits) == {"rpd": 8, "parallel": 1}


async def test_a_client_that_reads_slowly_holds_its_slot_until_max_hold() -> None:
    client = World(RateLimiter(Repository.in_memory()))  # in real time
    other, holds = World(client.limiter), asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(dict(START))
        holds.set()
        while True:
            await send({**BODY, "more_body": True})
            await asyncio.sleep(0.05)

    asking = asyncio.create_task(client.ask(app, **WHAT, max_hold=2.0))
    await asyncio.wait_for(holds.wait(), 20)
    await other.ask(hello, **WHAT)
    assert other.sent[0]["status"] == 429
    await other.ask(hello, **WHAT, max_wait=20.0)
    assert other.sent[0]["status"] == 200
    with pytest.raises(SlotEnded, match="slots of parallel are free for others"):
        await asyncio.wait_for(asking, 20)
    assert client.sent[-1]["more_body"]


async def test_a_client_that_sends_no_body_holds_its_slot_until_it_expires() -> None:
    client = World(RateLimiter(Repository.in_memory()))  # in real time
    client.received = [{"type": "http.request", "body": b"a", "more_body": True}]
    limits = [Limit.per_day("rpm", 10), Limit.concurrent("parallel", 1, expires=1)]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        pytest.fail("the body is not whole")

    await asyncio.wait_for(client.ask(app, **{**WHAT, "limits": limits}), 20)
    assert [message.get("status") for message in client.sent] == [408, None]
    assert await free_slots(client) == 1


async def test_a_client_that_sends_its_body_slowly_gets_no_work_done_without_a_slot() -> None:
    client = World(RateLimiter(Repository.in_memory()))  # in real time
    client.received = [{"type": "http.request", "body": b"a", "more_body": True}]
    client.later = {"type": "http.request", "body": b"a", "more_body": True}  # again and again

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        pytest.fail("the body is not whole")

    await asyncio.wait_for(client.ask(app, **WHAT, max_hold=0.5), 20)
    assert [message.get("status") for message in client.sent] == [408, None]
    assert await free_slots(client) == 1


async def test_an_application_may_watch_for_a_client_that_leaves_for_as_long_as_it_likes() -> None:
    client = World(RateLimiter(Repository.in_memory()))  # in real time
    client.received = [{"type": "http.request", "body": b"a", "more_body": False}]
    limits = [Limit.per_day("rpm", 10), Limit.concurrent("parallel", 1, expires=1)]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(receive(), 1.3)
        await hello(scope, receive, send)

    await client.ask(app, **{**WHAT, "limits": limits})
    assert client.sent[0]["status"] == 200


async def test_an_answer_that_is_whole_goes_out_though_its_slot_has_ended() -> None:
    client = World(RateLimiter(Repository.in_memory()))  # in real time

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async with client.limiter.acquire("user", "api", {"parallel": 1}, limits=LIMITS, max_wait=20):
            await hello(scope, receive, send)

    await client.ask(app, **WHAT, max_hold=0.3)
    assert [message["type"] for message in client.sent] == ["http.response.start", "http.response.body"]


async def test_a_slot_of_a_request_has_an_end_unless_the_application_says_none(world: World) -> None:
    ends: list[float | None] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        ends.append(lease_of(scope)._request.max_hold)
        await hello(scope, receive, send)

    await world.ask(app, **WHAT)
    await world.ask(app, **WHAT, max_hold=None)
    assert ends == [600, None]


async def test_a_client_that_leaves_while_it_waits_for_a_slot_leaves_it_to_others(world: World) -> None:
    waiting = World(world.limiter)
    waiting.received = [GONE]

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await waiting.ask(hello, **WHAT, max_wait=60.0)
        await hello(scope, receive, send)

    await asyncio.wait_for(world.ask(app, **WHAT), 60)
    assert waiting.sent[0]["status"] == 499
    assert await free_slots(world) == 1


async def test_a_request_waits_for_the_slot_of_another_one() -> None:
    world = World(RateLimiter(Repository.in_memory()))  # in real time
    waiting = World(world.limiter)
    asked: list[asyncio.Task[None]] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        asked.append(asyncio.create_task(waiting.ask(hello, **WHAT, max_wait=30.0)))
        await asyncio.sleep(0.05)
        assert waiting.sent == []
        await hello(scope, receive, send)

    await world.ask(app, **WHAT)
    await asyncio.wait_for(asked[0], 60)
    assert waiting.sent[0]["status"] == 200
    assert await free_slots(world) == 1


async def test_a_slot_of_an_outer_layer_is_free_after_an_inner_refusal(world: World) -> None:
    inner = RateLimitMiddleware(
        hello, limiter=world.limiter, identity="other", resource="api", cost={"rpm": 11}, limits=LIMITS
    )
    await world.ask(inner, **WHAT)
    assert world.sent[0]["status"] == 429
    assert await free_slots(world) == 1
