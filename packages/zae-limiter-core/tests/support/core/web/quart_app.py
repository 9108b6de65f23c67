"""Quart, with the middleware of plain ASGI."""

from quart import Quart, request

from support.core.web import limits
from support.core.web.plain_app import limiter, user
from zae_limiter.integrations.asgi import RateLimitMiddleware, lease_of

app = Quart(__name__)


@app.get("/answer")
async def answer() -> dict[str, str]:
    return {"user": request.headers["x-user"]}


@app.get("/stream")
async def stream() -> object:
    return limits.parts(lease_of(request.scope))


@app.get("/endless")
async def endless() -> object:
    return limits.endless(lease_of(request.scope))


@app.get("/fail")
async def fail() -> str:
    raise limits.Failed


@app.get("/broken")
async def broken() -> tuple[str, int]:
    return "broken", 500


@app.get("/more")
async def more() -> str:
    await lease_of(request.scope).consume(tokens=limits.MORE)
    return "too much"


@app.get("/balance")
async def balance() -> dict[str, int]:
    return await limits.present().available(request.headers["x-user"], "api")


app.asgi_app = RateLimitMiddleware(  # type: ignore[method-assign, assignment]
    app.asgi_app,  # type: ignore[arg-type]
    limiter=limiter,
    identity=user,
    resource="api",
    cost=lambda scope: limits.cost_of(scope["path"]),
    units=limits.UNITS,
)
