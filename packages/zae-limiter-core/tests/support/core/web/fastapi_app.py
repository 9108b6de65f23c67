"""FastAPI, with the dependency."""

from typing import Annotated, Any

from fastapi import APIRouter, Depends, FastAPI, Header, HTTPException, Request
from fastapi.responses import PlainTextResponse, StreamingResponse

from support.core.web import limits
from zae_limiter import Lease
from zae_limiter.integrations.fastapi import RateLimited, install


def user(x_user: Annotated[str, Header()]) -> str:
    return x_user


async def limiter(user: Annotated[str, Depends(user)]) -> Any:
    return await limits.limiter_of(user)


limited = RateLimited(limiter, identity=user, resource="api", cost=limits.COST)
Limited = Annotated[Lease, Depends(limited)]
User = Annotated[str, Depends(user)]

app = FastAPI()
install(app, units=limits.UNITS)
router = APIRouter()


@app.get("/answer")
async def answer(user: User, lease: Limited) -> dict[str, str]:
    return {"user": user}


@router.get("/stream")
async def stream(lease: Limited) -> StreamingResponse:
    return StreamingResponse(limits.parts(lease))


@router.get("/endless")
async def endless(lease: Limited) -> StreamingResponse:
    return StreamingResponse(limits.endless(lease))


@router.get("/gone")
async def gone(request: Request, lease: Limited) -> None:
    await limits.until_gone(request.is_disconnected)
    raise HTTPException(503)


@router.get("/late")
async def late(lease: Limited) -> StreamingResponse:
    await limits.work(lease)
    return StreamingResponse(limits.endless(lease))


@app.get("/fail")
async def fail(lease: Limited) -> None:
    raise limits.Failed


@app.get("/broken")
async def broken(lease: Limited) -> PlainTextResponse:
    return PlainTextResponse("broken", 500)


@app.get("/more")
async def more(lease: Limited) -> None:
    await lease.consume(tokens=limits.MORE)


@app.get("/missing", dependencies=[Depends(limited)])
def missing() -> None:
    raise HTTPException(404)


@app.get("/balance")
async def balance(user: User) -> dict[str, int]:
    return await limits.present().available(user, "api")


app.include_router(router)
