"""Starlette, with the middleware of plain ASGI."""

from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from support.core.web import limits
from support.core.web.plain_app import limiter, user
from zae_limiter.integrations.asgi import RateLimitMiddleware, lease_of


async def answer(request: Request) -> Response:
    return JSONResponse({"user": request.headers["x-user"]})


async def stream(request: Request) -> Response:
    return StreamingResponse(limits.parts(request.state.rate_limit_lease))


async def endless(request: Request) -> Response:
    return StreamingResponse(limits.endless(lease_of(request.scope)))


async def gone(request: Request) -> Response:
    await limits.until_gone(request.is_disconnected)
    return Response("nobody reads this", 503)


async def late(request: Request) -> Response:
    await limits.work(lease_of(request.scope))
    return StreamingResponse(limits.endless(lease_of(request.scope)))


async def fail(request: Request) -> Response:
    raise limits.Failed


async def broken(request: Request) -> Response:
    return Response("broken", 500)


async def more(request: Request) -> Response:
    await lease_of(request.scope).consume(tokens=limits.MORE)
    return Response("too much")


async def balance(request: Request) -> Response:
    return JSONResponse(await limits.present().available(request.headers["x-user"], "api"))


app = Starlette(
    routes=[
        Route(f"/{each.__name__}", each) for each in (answer, stream, endless, gone, late, fail, broken, more, balance)
    ],
    middleware=[
        Middleware(
            RateLimitMiddleware,
            limiter=limiter,
            identity=user,
            resource="api",
            cost=lambda scope: limits.cost_of(scope["path"]),
            units=limits.UNITS,
        )
    ],
)
