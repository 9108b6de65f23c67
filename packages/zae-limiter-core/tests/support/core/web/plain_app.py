"""Plain ASGI: no framework."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

from support.core.web import limits
from zae_limiter.integrations.asgi import RateLimitMiddleware, Receive, Scope, Send, lease_of

begun: list[str] = []


async def user(scope: Scope) -> str:
    return str(dict(scope["headers"])[b"x-user"], "ascii")


async def limiter(scope: Scope) -> Any:
    return await limits.limiter_of(await user(scope))


async def application(scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "lifespan":
        return await lifespan(receive, send)
    if scope["type"] == "websocket":
        return await websocket(receive, send)
    return await respond(scope, receive, send)


async def lifespan(receive: Receive, send: Send) -> None:
    assert (await receive())["type"] == "lifespan.startup"
    begun.append("lifespan")
    await send({"type": "lifespan.startup.complete"})
    assert (await receive())["type"] == "lifespan.shutdown"
    await send({"type": "lifespan.shutdown.complete"})


async def websocket(receive: Receive, send: Send) -> None:
    assert (await receive())["type"] == "websocket.connect"
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.send", "text": "hello"})
    await send({"type": "websocket.close"})


async def respond(scope: Scope, receive: Receive, send: Send) -> None:
    path = scope["path"]
    if path == "/fail":
        raise limits.Failed
    if path == "/more":
        await lease_of(scope).consume(tokens=limits.MORE)
    if path == "/gone":
        return await until_gone(receive)
    if path == "/late":
        await limits.work(lease_of(scope))
        await until_gone(receive)
        await lease_of(scope).settle(tokens=7)
    if path in {"/stream", "/endless"}:
        lease = lease_of(scope)
        return await stream(limits.parts(lease) if path == "/stream" else limits.endless(lease), receive, send)
    body: dict[str, Any] = {"user": await user(scope)}
    if path == "/balance":
        body = await limits.present().available(await user(scope), "api")
        body["lifespan"] = len(begun)
    await begin(send, {"/missing": 404, "/broken": 500}.get(path, 200))
    return await send({"type": "http.response.body", "body": json.dumps(body).encode()})


async def stream(parts: AsyncIterator[bytes], receive: Receive, send: Send) -> None:
    await begin(send, 200)
    leaving = asyncio.ensure_future(until_gone(receive))
    async for part in parts:
        await send({"type": "http.response.body", "body": part, "more_body": True})
        if leaving.done():
            await parts.aclose()  # type: ignore[attr-defined]
            return
    leaving.cancel()
    await send({"type": "http.response.body", "body": b""})


async def until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def begin(send: Send, status: int) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", b"text/plain")]})


app = RateLimitMiddleware(
    application,
    limiter=limiter,
    identity=user,
    resource="api",
    cost=lambda scope: limits.cost_of(scope["path"]),
    units=limits.UNITS,
)
