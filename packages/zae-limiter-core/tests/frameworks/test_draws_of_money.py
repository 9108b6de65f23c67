"""Dollars of an account that a request draws: settled, kept or given back in every framework."""

import asyncio
import importlib
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest

from zae_limiter import Draw, Limit, RateLimiter, Repository, SyncRateLimiter, SyncRepository, TokenUsage

KINDS = ["asgi", "fastapi", "flask", "django", "django-async"]
USAGE = TokenUsage(input=10, output=20)
COST, ESTIMATE, WHOLE = 213, 5_000, 1_000_000
LIMITS = [Limit.per_day("rpm", 10)]
PATH: Any = {"identity": "ann", "resource": "api", "cost": {"rpm": 1}}
ENDS = {
    "answer": COST,
    "stream": COST,
    "unsettled": ESTIMATE,
    "fails": ESTIMATE,
    "fails and is refunded": 0,
    "fails after it settled": COST,
    "leaves a stream": ESTIMATE,
    "leaves a stream that had settled": COST,
}


class Boom(Exception):
    pass


def draws() -> list[Draw]:
    return [Draw("acme", "budget", {"usd": ESTIMATE}, by_usage=lambda _: {"usd": Decimal("0.0002125")})]


class Request:
    """One request that ends in one way; ``serve`` and ``parts`` are of a view."""

    def __init__(self, kind: str, end: str) -> None:
        framework, _, variant = kind.partition("-")
        self.end, self.module = end, importlib.import_module(f"zae_limiter.integrations.{framework}")
        self.sync = framework == "flask" or (framework == "django" and not variant)
        self.run = getattr(self, f"_{kind.replace('-', '_')}")
        self.limiter: Any = (
            SyncRateLimiter(SyncRepository.in_memory(), default_limits=LIMITS)
            if self.sync
            else RateLimiter(Repository.in_memory(), default_limits=LIMITS)
        )
        refund = "before_answer" if end in ("fails and is refunded", "fails after it settled") else "never"
        self.asked: Any = {**PATH, "draws": draws(), "refund": refund}
        self.streams, self.leaves = "stream" in end, "leaves" in end
        self.settles_first = end in ("answer", "fails after it settled", "leaves a stream that had settled")

    async def call(self, name: str, *arguments: Any) -> Any:
        found = getattr(self.limiter, name)(*arguments)
        return found if self.sync else await found

    async def spent(self) -> int:
        return WHOLE - int((await self.call("available", "acme", "budget"))["usd"])

    def fail(self) -> None:
        if self.end.startswith("fails"):
            raise Boom

    def settle_sync(self, lease: Any, *, now: bool) -> None:
        if now:
            lease.draw("acme", resource="budget").settle(USAGE)

    async def settle(self, lease: Any, *, now: bool) -> None:
        if now:
            await lease.draw("acme", resource="budget").settle(USAGE)

    def parts_sync(self, lease: Any) -> Iterator[bytes]:
        yield b"one "
        self.settle_sync(lease, now=self.streams)
        yield b"two"

    async def parts(self, lease: Any) -> AsyncIterator[bytes]:
        yield b"one "
        if self.leaves:
            await asyncio.Future()  # no server asks for the next part any more
        await self.settle(lease, now=self.streams)
        yield b"two"

    async def _asgi(self) -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            lease = self.module.lease_of(scope)
            await self.settle(lease, now=self.settles_first)
            self.fail()
            await send({"type": "http.response.start", "status": 200})
            if self.streams:
                async for part in self.parts(lease):
                    await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b""})

        await self._serve(self.module.RateLimitMiddleware(app, limiter=self.limiter, **self.asked))

    async def _fastapi(self) -> None:
        from fastapi import Depends, FastAPI
        from fastapi.responses import StreamingResponse

        app = FastAPI()
        self.module.install(app)
        asked = {**self.asked, "identity": lambda: "ann"}
        limited = Depends(self.module.RateLimited(self.limiter, **asked))

        @app.get("/", response_model=None)
        async def view(lease: Any = limited) -> Any:
            await self.settle(lease, now=self.settles_first)
            self.fail()
            return StreamingResponse(self.parts(lease)) if self.streams else "hello"

        await self._serve(app)

    async def _serve(self, app: Any) -> None:
        messages = [{"type": "http.request", "body": b""}]

        async def receive() -> Any:
            return messages.pop() if messages else await asyncio.Future()

        async def send(message: Any) -> None:
            if self.leaves and message.get("body"):
                raise OSError("the client is gone")

        scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": []}
        with suppress(Boom, OSError, ExceptionGroup):
            await app({**scope, "client": ("192.0.2.1", 4711)}, receive, send)

    async def _flask(self) -> None:
        from flask import Flask

        app = Flask(__name__)
        self.module.init_app(app)

        @app.get("/")
        @self.module.RateLimited(self.limiter, **{**self.asked, "identity": lambda: "ann"})  # type: ignore[untyped-decorator]
        def view() -> Any:
            lease = self.module.current_lease()
            self.settle_sync(lease, now=self.settles_first)
            self.fail()
            return app.response_class(self.parts_sync(lease)) if self.streams else "hello"

        response = app.test_client().get("/")
        self._read(response.iter_encoded())
        response.close()

    def _read(self, parts: Any) -> None:
        parts = iter(parts)
        next(parts, None)
        if not self.leaves:
            list(parts)

    def _view_of_django(self, lease_of: Any) -> Any:
        from django.http import HttpResponse, StreamingHttpResponse

        def view(request: Any) -> Any:
            lease = lease_of(request)
            self.settle_sync(lease, now=self.settles_first)
            self.fail()
            return StreamingHttpResponse(self.parts_sync(lease)) if self.streams else HttpResponse("hello")

        async def view_on_loop(request: Any) -> Any:
            lease = lease_of(request)
            await self.settle(lease, now=self.settles_first)
            self.fail()
            return StreamingHttpResponse(self.parts(lease)) if self.streams else HttpResponse("hello")

        return view if self.sync else view_on_loop

    def _request(self) -> Any:
        from django.conf import settings
        from django.test import RequestFactory

        if not settings.configured:
            settings.configure()
        return RequestFactory().get("/")

    async def _django(self) -> None:
        request, view = self._request(), self._view_of_django(self.module.lease_of)
        with suppress(Boom):
            response = self.module.RateLimits(self.limiter, **{**self.asked, "identity": lambda _: "ann"})(view)(
                request
            )
            self._read(response)
            response.close()

    async def _django_async(self) -> None:
        request, view = self._request(), self._view_of_django(self.module.async_lease_of)
        middleware = self.module.AsyncRateLimits(self.limiter, **{**self.asked, "identity": lambda _: "ann"})
        with suppress(Boom):
            response = await middleware(view)(request)
            if response.streaming:
                parts = aiter(response)
                await anext(parts)
                rest = asyncio.ensure_future(anext(parts, None))
                if self.leaves:  # Django cancels the task that reads
                    await asyncio.sleep(0)
                    rest.cancel()
                    with suppress(asyncio.CancelledError):
                        await rest
                else:
                    assert (await rest, [part async for part in parts]) == (b"two", [])
            response.close()


@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("kind", KINDS)
async def test_dollars_of_a_draw_are_what_the_request_cost(kind: str, end: str) -> None:
    if (framework := kind.partition("-")[0]) != "asgi":
        pytest.importorskip(framework, reason=f"{framework} is not installed: `just test-frameworks newest` has it")
    request = Request(kind, end)
    await request.call("set_limits", "acme", [Limit.money("usd", 1, per="total")], "budget")
    await request.run()
    assert await request.spent() == ENDS[end]
