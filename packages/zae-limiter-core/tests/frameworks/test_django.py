"""What only Django has: streams of the other kind than the middleware, and middleware inside middleware."""

import asyncio
import re
from asyncio import CancelledError
from collections.abc import AsyncIterator, Iterator
from threading import Event
from typing import Any

import pytest

pytest.importorskip("django", reason="django is not installed: `just test-frameworks newest` has it")
from asgiref.sync import async_to_sync, sync_to_async
from django.conf import settings
from django.http import HttpResponse, StreamingHttpResponse
from django.test import RequestFactory
from django.urls import ResolverMatch

from zae_limiter import Limit, RateLimiter, Repository, SyncRateLimiter, SyncRepository
from zae_limiter.integrations.django import AsyncRateLimits, RateLimits, async_lease_of, lease_of

LIMITS = [Limit.per_day("rpd", 10)]
WHAT: dict[str, Any] = {"identity": lambda request: "ann", "resource": "api", "cost": {"rpd": 1}}
if not settings.configured:
    settings.configure()


@pytest.fixture
def limiter() -> SyncRateLimiter:
    return SyncRateLimiter(SyncRepository.in_memory(), default_limits=LIMITS)


@pytest.fixture
def async_limiter() -> RateLimiter:
    return RateLimiter(Repository.in_memory(), default_limits=LIMITS)


def request() -> Any:
    return RequestFactory().get("/here")


def left(limiter: SyncRateLimiter) -> int:
    return limiter.available("ann", "api")["rpd"]


async def parts() -> AsyncIterator[bytes]:
    yield b"one "
    yield b"two"


async def test_sync_middleware_around_an_async_stream_settles_at_its_end(limiter: SyncRateLimiter) -> None:
    def view(request: Any) -> Any:
        lease_of(request).settle(rpd=4)
        return StreamingHttpResponse(parts())

    response = RateLimits(limiter, **WHAT)(view)(request())
    assert left(limiter) == 9
    assert [part async for part in response] == [b"one ", b"two"]
    assert left(limiter) == 6


async def test_async_middleware_around_a_sync_stream_settles_at_its_end(async_limiter: RateLimiter) -> None:
    async def view(request: Any) -> Any:
        await async_lease_of(request).settle(rpd=4)
        return StreamingHttpResponse([b"one ", b"two"])

    response = await AsyncRateLimits(async_limiter, **WHAT)(view)(request())
    assert [part async for part in response] == [b"one ", b"two"]
    assert await async_limiter.available("ann", "api") == {"rpd": 6}


def test_a_stream_that_is_closed_early_settles_and_closes_its_parts(limiter: SyncRateLimiter) -> None:
    closed = []

    def endless() -> Iterator[bytes]:
        try:
            while True:
                yield b"again"
        finally:
            closed.append("closed")

    def view(request: Any) -> Any:
        lease_of(request).settle(rpd=2)
        return StreamingHttpResponse(endless())

    response = RateLimits(limiter, **WHAT)(view)(request())
    assert next(iter(response)) == b"again"
    response.close()
    assert (left(limiter), closed) == (8, ["closed"])


def test_a_stream_that_no_server_closes_settles_at_its_end(limiter: SyncRateLimiter) -> None:
    def view(request: Any) -> Any:
        lease_of(request).settle(rpd=4)
        return StreamingHttpResponse(iter([b"one ", b"two"]))

    assert list(RateLimits(limiter, **WHAT)(view)(request())) == [b"one ", b"two"]
    assert left(limiter) == 6


def test_a_stream_that_is_closed_while_a_thread_works_at_it_counts_that_work(limiter: SyncRateLimiter) -> None:
    def work(lease: Any) -> Iterator[bytes]:
        yield b"one "
        response.close()
        lease.settle(rpd=4)
        yield b"two"

    response = RateLimits(limiter, **WHAT)(lambda each: StreamingHttpResponse(work(lease_of(each))))(request())
    list(response)
    assert left(limiter) == 6


async def test_a_sync_stream_whose_client_left_counts_the_work_of_its_thread(async_limiter: RateLimiter) -> None:
    begun, left_alone = Event(), Event()

    def work(lease: Any) -> Iterator[bytes]:
        begun.set()
        left_alone.wait(10)
        async_to_sync(lease.settle)(rpd=4)
        yield b"one"

    async def view(request: Any) -> Any:
        return StreamingHttpResponse(work(async_lease_of(request)))

    response = await AsyncRateLimits(async_limiter, **WHAT)(view)(request())
    reading = asyncio.ensure_future(anext(aiter(response)))
    await asyncio.to_thread(begun.wait, 10)
    reading.cancel()
    await asyncio.sleep(0)
    left_alone.set()
    with pytest.raises(CancelledError):
        await reading
    assert await async_limiter.available("ann", "api") == {"rpd": 6}


def test_the_fields_are_of_the_middleware_that_is_further_in(limiter: SyncRateLimiter) -> None:
    inner = RateLimits(limiter, **{**WHAT, "resource": "inner", "cost": {"rpd": 5}})(lambda _: HttpResponse("hello"))
    response = RateLimits(limiter, **WHAT)(inner)(request())
    assert re.fullmatch(r'"rpd";r=5;t=86\d\d', response["RateLimit"])
    assert left(limiter) == 9


REFUND = pytest.mark.parametrize(("refund", "remaining"), [("never", 9), ("before_answer", 10)])


@REFUND
@pytest.mark.parametrize("kind", [SystemExit, ZeroDivisionError])
def test_what_a_view_raises_is_refunded_on_demand(
    limiter: SyncRateLimiter, kind: type[BaseException], refund: Any, remaining: int
) -> None:
    def view(request: Any) -> Any:
        raise kind

    with pytest.raises(kind):
        RateLimits(limiter, refund=refund, **WHAT)(view)(request())
    assert left(limiter) == remaining


@REFUND
def test_a_server_error_is_refunded_on_demand(limiter: SyncRateLimiter, refund: Any, remaining: int) -> None:
    RateLimits(limiter, refund=refund, **WHAT)(lambda _: HttpResponse(status=502))(request())
    assert left(limiter) == remaining


async def test_what_was_settled_counts_though_the_view_raises(
    limiter: SyncRateLimiter, async_limiter: RateLimiter
) -> None:
    def view(request: Any) -> Any:
        lease_of(request).settle(rpd=4)
        raise ZeroDivisionError

    async def async_view(request: Any) -> Any:
        await async_lease_of(request).settle(rpd=4)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        RateLimits(limiter, **WHAT)(view)(request())
    with pytest.raises(ZeroDivisionError):
        await AsyncRateLimits(async_limiter, **WHAT)(async_view)(request())
    assert (left(limiter), await async_limiter.available("ann", "api")) == (6, {"rpd": 6})


@REFUND
async def test_a_cancelled_async_view_is_refunded_on_demand(
    async_limiter: RateLimiter, refund: Any, remaining: int
) -> None:
    async def view(request: Any) -> Any:
        request.resolver_match = ResolverMatch(view, (), {})
        raise CancelledError

    with pytest.raises(CancelledError):
        await AsyncRateLimits(async_limiter, refund=refund, **WHAT)(view)(request())
    assert await async_limiter.available("ann", "api") == {"rpd": remaining}


def test_a_request_that_nothing_limits_has_no_lease() -> None:
    with pytest.raises(LookupError, match="'/here' has no SyncLease"):
        lease_of(request())


SLOTS = [Limit.per_minute("rpm", 100), Limit.concurrent("parallel", 1)]
HELD: dict[str, Any] = {**WHAT, "cost": {"rpm": 1, "parallel": 1}}


@pytest.mark.parametrize("refund", ["never", "before_answer"])
@pytest.mark.parametrize("end", ["answers", "answers 500", "raises", "streams", "is left"])
def test_a_view_holds_its_slot_until_its_answer_has_ended(end: str, refund: Any) -> None:
    limiter, seen = SyncRateLimiter(SyncRepository.in_memory(), default_limits=SLOTS), list[int]()

    def slots() -> int:
        return limiter.available("ann", "api")["parallel"]

    def stream() -> Iterator[bytes]:
        for part in (b"one ", b"two"):
            seen.append(slots())
            yield part

    def view(request: Any) -> Any:
        seen.append(slots())
        if end == "raises":
            raise ZeroDivisionError
        if end.startswith("answers"):
            return HttpResponse(status=500 if "500" in end else 200)
        return StreamingHttpResponse(stream())

    middleware = RateLimits(limiter, **HELD, refund=refund)(view)
    try:
        response = middleware(request())
        if end in ("streams", "is left"):
            next(iter(response))
            refused = middleware(request())
            assert (refused.status_code, refused["Retry-After"]) == (429, "1")
        if end == "streams":
            list(response)
        response.close()
    except ZeroDivisionError:
        assert end == "raises"
    assert (set(seen), slots()) == ({0}, 1)


EXPIRING = [Limit.per_minute("rpm", 100), Limit.concurrent("parallel", 1, expires=1)]


def test_a_client_that_reads_nothing_holds_its_slot_until_it_expires() -> None:
    limiter = SyncRateLimiter(SyncRepository.in_memory(), default_limits=EXPIRING)
    middleware = RateLimits(limiter, **HELD)(lambda _: StreamingHttpResponse(iter((b"one ", b"two"))))
    response = middleware(request())
    parts = iter(response)
    next(parts)
    with limiter.acquire("ann", "api", {"parallel": 1}, max_wait=20.0):
        with pytest.raises(OSError, match="slots of parallel are free for others"):
            next(parts)
        response.close()
        assert limiter.available("ann", "api")["parallel"] == 0
    assert limiter.available("ann", "api")["parallel"] == 1


@pytest.mark.parametrize("content", ["async", "sync"])
async def test_a_client_of_an_async_view_that_reads_nothing_holds_its_slot_until_it_expires(content: str) -> None:
    limiter = RateLimiter(Repository.in_memory(), default_limits=EXPIRING)

    async def stream() -> AsyncIterator[bytes]:
        yield b"one "
        yield b"two"

    async def view(request: Any) -> Any:
        return StreamingHttpResponse(stream() if content == "async" else iter((b"one ", b"two")))

    response = await AsyncRateLimits(limiter, **HELD)(view)(request())
    parts = aiter(response)
    await anext(parts)
    async with limiter.acquire("ann", "api", {"parallel": 1}, max_wait=20.0):
        with pytest.raises(OSError, match="slots of parallel are free for others"):
            await anext(parts)
        assert (await limiter.available("ann", "api"))["parallel"] == 0
    assert (await limiter.available("ann", "api"))["parallel"] == 1


@pytest.mark.parametrize("refund", ["never", "before_answer"])
@pytest.mark.parametrize("end", ["answers", "raises", "is cancelled", "streams"])
async def test_an_async_view_holds_its_slot_until_its_answer_has_ended(end: str, refund: Any) -> None:
    limiter, seen = RateLimiter(Repository.in_memory(), default_limits=SLOTS), list[int]()

    async def slots() -> int:
        return (await limiter.available("ann", "api"))["parallel"]

    async def stream() -> AsyncIterator[bytes]:
        seen.append(await slots())
        yield b"one"

    async def view(request: Any) -> Any:
        seen.append(await slots())
        if end == "raises":
            raise ZeroDivisionError
        if end == "is cancelled":
            raise CancelledError
        return StreamingHttpResponse(stream()) if end == "streams" else HttpResponse()

    try:
        response = await AsyncRateLimits(limiter, **HELD, refund=refund)(view)(request())
        if end == "streams":
            assert [part async for part in response] == [b"one"]
    except (ZeroDivisionError, CancelledError):
        assert end in ("raises", "is cancelled")
    assert (set(seen), await slots()) == ({0}, 1)


async def test_the_end_of_a_stream_needs_no_thread_that_a_waiting_request_holds() -> None:
    """Outside an ASGI server's own context all requests share the thread of sync middleware."""
    limiter = SyncRateLimiter(SyncRepository.in_memory(), default_limits=SLOTS)
    middleware = RateLimits(limiter, **HELD, max_wait=3.0)

    def view(request: Any) -> Any:
        return StreamingHttpResponse(parts())

    serve = sync_to_async(middleware(view))
    first = await serve(request())
    waiting = asyncio.create_task(serve(request()))
    await asyncio.sleep(0.1)
    assert [part async for part in first] == [b"one ", b"two"]
    assert (await waiting).status_code == 200
