"""The middleware of plain ASGI, without a server: what happens to the tokens, whatever the application does."""

import asyncio
import json
from contextlib import suppress
from typing import Any

import pytest

from support.core.web.asgi_world import BODY, RPM, START, World, away, hello
from zae_limiter import Lease, Limit, OnRefused, RateLimiter, RateLimitExceeded, Repository
from zae_limiter.integrations.asgi import (
    AnswerMiddleware,
    Exchange,
    Message,
    RateLimitMiddleware,
    Receive,
    Scope,
    Send,
    lease_of,
    resolve,
)
from zae_limiter.testing import ManualClock

pytest_plugins = ["zae_limiter.testing.plugin"]
GONE = {"type": "http.disconnect"}


class Failed(Exception):
    """What an application raises."""


@pytest.fixture
def world(limiter: RateLimiter) -> World:
    return World(limiter)


REFUND = pytest.mark.parametrize(("refund", "left"), [("never", 9), ("before_answer", 10)])


@REFUND
async def test_an_exception_before_the_answer_is_refunded_on_demand(world: World, refund: str, left: int) -> None:
    async def app(*_: Any) -> None:
        raise Failed

    with pytest.raises(Failed):
        await world.ask(app, refund=refund)
    assert (await world.left(), world.sent) == (left, [])


async def test_an_exception_after_the_answer_has_begun_keeps(world: World) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(dict(START))
        raise Failed

    with pytest.raises(Failed):
        await world.ask(app)
    assert await world.left() == 9


@REFUND
@pytest.mark.parametrize("begun", [False, True])
async def test_a_cancelled_request_is_refunded_on_demand_until_its_answer_begins(
    world: World, refund: str, left: int, *, begun: bool
) -> None:
    reached = asyncio.Event()

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if begun:
            await send(dict(START))
        reached.set()
        await asyncio.Future()

    asking = asyncio.create_task(world.ask(app, refund=refund))
    await reached.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert await world.left() == (9 if begun else left)


@REFUND
@pytest.mark.parametrize("looks", [False, True])
async def test_an_application_that_never_answers_is_refunded_on_demand(
    world: World, refund: str, left: int, *, looks: bool
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if looks:
            assert await receive() == GONE

    world.received = [GONE]
    await world.ask(app, refund=refund)
    assert await world.left() == left


@pytest.mark.parametrize("looks", [False, True])
async def test_an_answer_to_a_client_that_has_left_is_charged_because_the_work_is_done(
    world: World, *, looks: bool
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if looks:  # as Starlette's streams do, beside their work
            assert await receive() == GONE
        await hello(scope, receive, send)

    world.received = [GONE]
    await world.ask(app)
    assert await world.left() == 9


@pytest.mark.parametrize("end", ["raises", "is cancelled", "answers 500", "never answers"])
async def test_what_the_application_settled_counts_however_it_ends(world: World, end: str) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await lease_of(scope).settle(rpm=4)
        if end == "raises":
            raise Failed
        if end == "is cancelled":
            raise asyncio.CancelledError
        if end == "answers 500":
            await send({**START, "status": 500})

    with suppress(Failed, asyncio.CancelledError):
        await world.ask(app)
    assert await world.left() == 6


@pytest.mark.parametrize("waits_by", ["max_wait", "on_refused", "a level", "a level that is not known"])
async def test_a_client_that_leaves_while_it_waits_leaves_the_line(limiter: RateLimiter, waits_by: str) -> None:
    async def app(*_: Any) -> None:
        pytest.fail("the application ran")

    world = World(limiter)
    of_call: dict[str, dict[str, Any]] = {
        "max_wait": {"max_wait": 60.0},
        "on_refused": {"on_refused": OnRefused(wait=60)},
    }
    options = of_call.get(waits_by, {})
    await world.ask(hello, cost={"rpm": 10})
    if not options:
        await limiter.set_resource_defaults("api", [RPM], on_refused=OnRefused(wait=60))
        if waits_by == "a level":
            await world.limiter.repository.resolve_limits("user", "api")
    world.received = [{"type": "http.request", "body": b"question"}, GONE]
    await asyncio.wait_for(world.ask(app, **options), 30)
    assert [message.get("status") for message in world.sent] == [499, None]
    with pytest.raises(RateLimitExceeded) as caught:
        await world.limiter.acquire("user", "api", {"rpm": 1}, [RPM], on_refused=OnRefused()).__aenter__()
    assert caught.value.retry_after_seconds <= 6  # of one token: nobody else is in the line


async def test_a_request_that_waited_gets_every_message_of_its_client() -> None:
    world = World(RateLimiter(Repository.in_memory()))
    fast = [Limit.custom("rpm", 1, refill_amount=20, refill_period=1)]
    body = [{"type": "http.request", "body": part, "more_body": True} for part in (b"a", b"b")]
    seen: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        assert lease_of(scope).waited > 0
        seen.extend([await receive(), await receive(), await receive()])
        await hello(scope, receive, send)

    last = {"type": "http.request", "body": b"c"}
    await world.ask(hello, limits=fast)
    world.received, world.later = [*body], last
    await world.ask(app, limits=fast, max_wait=60.0)
    assert seen == [*body, last]


async def test_a_cancelled_request_that_waits_leaves_the_line() -> None:
    world = World(RateLimiter(Repository.in_memory(clock=ManualClock(jumps=False))))
    await world.ask(hello, cost={"rpm": 10})
    asking = asyncio.create_task(world.ask(hello, max_wait=60.0))
    await asyncio.sleep(0.01)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert len(asyncio.all_tasks()) == 1


@REFUND
async def test_a_server_error_is_refunded_on_demand_unless_the_lease_is_kept(
    world: World, refund: str, left: int
) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if keeps:
            lease_of(scope).keep()
        await send({**START, "status": 502})

    keeps = False
    await world.ask(app, refund=refund)
    assert await world.left() == left
    keeps = True
    await world.ask(app, refund=refund)
    assert await world.left() == left - 1


async def test_a_refusal_reaches_no_application(world: World) -> None:
    async def app(*_: Any) -> None:
        pytest.fail("the application ran")

    await world.ask(app, cost={"rpm": 11})
    assert world.sent[0]["status"] == 429
    assert json.loads(world.sent[1]["body"])["detail"] == "rpm: 11 requested, which can never pass: at most 10"


@REFUND
@pytest.mark.parametrize("fails", [False, True])
async def test_a_group_of_errors_is_answered_if_all_of_them_are_refusals(
    world: World, refund: str, left: int, *, fails: bool
) -> None:
    async def fail() -> None:
        raise Failed

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        async with asyncio.TaskGroup() as outside, asyncio.TaskGroup() as inside:
            inside.create_task(lease_of(scope).consume(rpm=10))
            if fails:
                outside.create_task(fail())

    if fails:
        with pytest.raises(ExceptionGroup):
            await world.ask(app, refund=refund)
    else:
        await world.ask(app, refund=refund)
    assert [message.get("status") for message in world.sent[:1]] == ([] if fails else [429])
    assert await world.left() == left


async def test_a_refusal_after_the_answer_has_begun_is_an_error_of_the_application(world: World) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send(dict(START))
        await lease_of(scope).consume(rpm=10)

    with pytest.raises(Exception, match="10 rpm requested"):
        await world.ask(app)
    assert [message["type"] for message in world.sent] == ["http.response.start"]


async def test_functions_of_the_scope_may_be_async_and_a_cost_of_nothing_limits_nothing(world: World) -> None:
    async def cost(scope: Scope) -> dict[str, int]:
        return {"rpm": 3} if scope["path"] == "/here" else {}

    await world.ask(hello, cost=cost, resource=lambda scope: "api")
    assert await world.left() == 7
    await world.ask(hello, cost=lambda scope: {})
    assert (await world.left(), world.sent[0]["headers"]) == (7, START["headers"])


async def test_middleware_inside_middleware_answers_once_and_ends_both(world: World) -> None:
    async def inner(scope: Scope, receive: Receive, send: Send) -> None:
        limited = RateLimitMiddleware(
            hello, limiter=world.limiter, identity="user", resource="api", cost={"rpm": 2}, limits=[RPM]
        )
        await AnswerMiddleware(limited)(scope, receive, send)

    await world.ask(inner)
    assert world.sent[0]["headers"][1:] == [
        (b"ratelimit-policy", b'"rpm";q=10;w=60'),
        (b"ratelimit", b'"rpm";r=7;t=6'),
    ]
    assert await world.left() == 7


async def test_a_refused_inner_acquire_gives_the_outer_one_back(world: World) -> None:
    async def inner(scope: Scope, receive: Receive, send: Send) -> None:
        await Exchange.of(scope).acquire(world.limiter.acquire("user", "api", {"rpm": 10}, [RPM]))

    await world.ask(inner)
    assert (world.sent[0]["status"], await world.left()) == (429, 10)


async def test_corrections_that_cannot_be_written_are_logged_and_the_answer_goes_out(
    caplog: pytest.LogCaptureFixture,
) -> None:
    limiter, store = await away()
    world = World(limiter)

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await lease_of(scope).settle(rpm=5)
        store.away = True
        await hello(scope, receive, send)

    for _ in range(3):
        store.away = False
        await world.ask(app)
        assert [message["type"] for message in world.sent] == [START["type"], BODY["type"]]
    [line] = [each for each in caplog.records if "corrections of a request's lease" in each.getMessage()]
    assert "RateLimiterUnavailable" in line.getMessage()
    assert line.exc_info is None


@pytest.mark.parametrize("kind", ["websocket", "lifespan"])
async def test_other_scopes_pass_through_as_they_are(world: World, kind: str) -> None:
    seen = []

    async def app(*given: Any) -> None:
        seen.append(given)

    scope = {"type": kind, "path": "/"}
    middleware = RateLimitMiddleware(app, limiter=world.limiter, identity="user", resource="api", cost={"rpm": 1})
    await middleware(scope, world.receive, world.send)
    assert seen == [(scope, world.receive, world.send)]
    assert scope == {"type": kind, "path": "/"}


def test_the_lease_of_a_request_that_nothing_limits_is_an_error_that_says_so() -> None:
    with pytest.raises(LookupError, match="'/here' has no lease"):
        lease_of({"type": "http", "path": "/here", "state": {}})
    with pytest.raises(LookupError, match="install it"):
        Exchange.of({"type": "http"})


async def test_the_lease_is_in_the_state_of_the_scope(world: World) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        lease = scope["state"]["rate_limit_lease"]
        assert isinstance(lease, Lease)
        assert lease is lease_of(scope)
        await lease.settle(rpm=4)
        await hello(scope, receive, send)

    await world.ask(app)
    assert await world.left() == 6


async def test_an_argument_is_a_value_or_what_a_function_of_the_request_returns() -> None:
    async def path(scope: Scope) -> Any:
        return scope["path"]

    ways: list[Any] = ["/a", lambda scope: scope["path"], path]
    assert [await resolve(each, {"path": "/a"}) for each in ways] == ["/a"] * 3
