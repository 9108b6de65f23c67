"""A gateway before a provider with OpenAI's API: it checks the key, takes tokens, passes the call on, and settles."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypedDict

import httpx
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import StreamingResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel, ConfigDict, Field

from metrics import count, exposition
from zae_limiter import Lease, LimitStatus, RateLimiter, Repository
from zae_limiter.integrations.fastapi import RateLimited, install
from zae_limiter.integrations.tokens import estimate
from zae_limiter.integrations.usage import read_usage

ENTITIES = {"sk-ann": "key-ann", "sk-bob": "key-bob"}  # yours are in a database


class Call(BaseModel):
    """What a client may ask; every other field is passed on."""

    model_config = ConfigDict(extra="allow")
    model: str = Field(pattern="^gpt-[a-z0-9.-]+$")
    messages: list[dict[str, Any]]
    max_completion_tokens: int = Field(500, ge=1, le=4000)
    stream: bool = False


class State(TypedDict):
    """What a process opens once."""

    limiter: RateLimiter
    provider: httpx.AsyncClient


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[State]:
    """Open the limiter and the provider; a store that is away stops neither this nor a call."""
    repository = await Repository.open(on_unavailable="allow")
    provider = httpx.AsyncClient(base_url=os.environ["PROVIDER_URL"], timeout=120, trust_env=False)
    provider.headers["Authorization"] = f"Bearer {os.environ['PROVIDER_KEY']}"
    async with RateLimiter(repository, observers=[count]) as limiter, provider:
        yield {"limiter": limiter, "provider": provider}


def shared_limiter(request: Request) -> RateLimiter:
    """Return the limiter of this process."""
    return request.state.limiter


def entity(credentials: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())]) -> str:
    """Return whose key it is."""
    if credentials.credentials not in ENTITIES:
        raise HTTPException(401)
    return ENTITIES[credentials.credentials]


def model(call: Call) -> str:
    """Return the resource: each model has limits of its own."""
    return call.model


def cost(call: Call) -> dict[str, int]:
    """Return what the call takes until its usage is known."""
    return {"rpm": 1, "tpm": estimate(call.model_dump())}


def name(status: LimitStatus) -> str:
    """Return the public name of a limit: a key may know that it belongs to a project."""
    return f"project/{status.limit_name}" if status.place else status.limit_name


limited = RateLimited(shared_limiter, identity=entity, resource=model, cost=cost)
app = FastAPI(lifespan=lifespan)
install(app, names=name, units={"tpm": "tokens"})


@app.post("/v1/chat/completions")
async def complete(call: Call, request: Request, lease: Annotated[Lease, Depends(limited)]) -> Response:
    """Pass a call on, and its answer back."""
    provider: httpx.AsyncClient = request.state.provider
    body = call.model_dump() | ({"stream_options": {"include_usage": True}} if call.stream else {})
    answer = await provider.send(provider.build_request("POST", "/chat/completions", json=body), stream=call.stream)
    if call.stream:
        return StreamingResponse(settled(answer, lease), answer.status_code, media_type="text/event-stream")
    if answer.is_success:
        await settle(lease, answer.json())
    return Response(answer.content, answer.status_code, media_type=answer.headers.get("content-type"))


async def settled(answer: httpx.Response, lease: Lease) -> AsyncIterator[str]:
    """Yield the lines of a stream; one that ends before its usage is known keeps its estimate."""
    try:
        async for line in answer.aiter_lines():
            await settle(lease, line)
            yield f"{line}\n"
    finally:
        await answer.aclose()


async def settle(lease: Lease, answer: object) -> None:
    """Replace the estimate by what the provider counted, if this part of its answer says it."""
    usage = read_usage(answer)
    if usage is not None:
        await lease.settle(tpm=usage.total)


@app.get("/metrics")
def metrics() -> Response:
    """Return the counts of all workers, for Prometheus."""
    return Response(exposition(), media_type="text/plain; version=0.0.4")
