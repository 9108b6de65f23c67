"""Litestar, with the middleware of plain ASGI."""

from typing import Any

from litestar import Litestar, Request, Response, get
from litestar.response import Stream

from support.core.web import limits
from support.core.web.plain_app import limiter, user
from zae_limiter.integrations.asgi import RateLimitMiddleware, lease_of


@get("/answer")
async def answer(request: Request[Any, Any, Any]) -> dict[str, str]:
    return {"user": request.headers["x-user"]}


@get("/stream")
async def stream(request: Request[Any, Any, Any]) -> Stream:
    return Stream(limits.parts(lease_of(request.scope)))  # type: ignore[arg-type]


@get("/endless")
async def endless(request: Request[Any, Any, Any]) -> Stream:
    return Stream(limits.endless(lease_of(request.scope)))  # type: ignore[arg-type]


@get("/fail")
async def fail() -> None:
    raise limits.Failed


@get("/broken")
async def broken() -> Response[str]:
    return Response("broken", status_code=500)


@get("/more")
async def more(request: Request[Any, Any, Any]) -> None:
    await lease_of(request.scope).consume(tokens=limits.MORE)  # type: ignore[arg-type]


@get("/balance")
async def balance(request: Request[Any, Any, Any]) -> dict[str, int]:
    return await limits.present().available(request.headers["x-user"], "api")


app = RateLimitMiddleware(
    Litestar([answer, stream, endless, fail, broken, more, balance]),  # type: ignore[arg-type]
    limiter=limiter,
    identity=user,
    resource="api",
    cost=lambda scope: limits.cost_of(scope["path"]),
    units=limits.UNITS,
)
