"""A gateway that ends a stream when the tokens of its key are used up: in OpenAI's form, and in Anthropic's."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, TypedDict

import httpx
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import StreamingResponse

from zae_limiter import Lease, Limit, RateLimiter, Repository
from zae_limiter.integrations.cut import CutStream, events_of
from zae_limiter.integrations.fastapi import RateLimited, install
from zae_limiter.integrations.tokens import estimate_prompt
from zae_limiter.streams import Pieces

PIECE = 200  # tokens that a stream takes at once
KEYS = {"sk-ann": "key-ann", "sk-bob": "key-bob"}  # yours are in a database, as hashes


class State(TypedDict):
    """What a process opens once."""

    limiter: RateLimiter
    provider: httpx.AsyncClient


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[State]:
    """Open the limiter, on the table or the file of ZAEL_STORE, and the provider."""
    in_memory = "GATEWAY_IN_MEMORY" in os.environ
    repository = Repository.in_memory() if in_memory else await Repository.open("cut-streams")
    async with (
        RateLimiter(repository, default_limits=[Limit.per_day("tokens", 100_000)]) as limiter,
        provider_client() as provider,
    ):
        yield {"limiter": limiter, "provider": provider}


def provider_client() -> httpx.AsyncClient:
    """Return the client of the provider."""
    return httpx.AsyncClient(base_url=os.environ["PROVIDER_URL"], timeout=120, trust_env=False)


def shared_limiter(request: Request) -> RateLimiter:
    """Return the limiter of this process."""
    limiter: RateLimiter = request.state.limiter
    return limiter


def key(request: Request) -> str:
    """Return the entity of a key: OpenAI's clients send it as a bearer token, Anthropic's as ``x-api-key``."""
    sent = request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")
    if sent not in KEYS:
        raise HTTPException(401, "Incorrect API key.")
    return KEYS[sent]


async def asked(request: Request) -> dict[str, Any]:
    """Return the body of the request."""
    found: dict[str, Any] = await request.json()
    return found


def cost(asked: Annotated[dict[str, Any], Depends(asked)]) -> dict[str, int]:
    """Return what the call takes at once: its prompt and the first piece."""
    return {"tokens": estimate_prompt(asked) + PIECE}


app = FastAPI(lifespan=lifespan)
install(app, units={"tokens": "tokens"}, style="openai")
limited = RateLimited(shared_limiter, identity=key, resource="models", cost=cost)


@app.post("/v1/chat/completions")
@app.post("/v1/messages")
async def stream(
    request: Request, asked: Annotated[dict[str, Any], Depends(asked)], lease: Annotated[Lease, Depends(limited)]
) -> Response:
    """Pass a call on, and its stream back as far as the tokens of the key go."""
    provider: httpx.AsyncClient = request.state.provider
    counted = {"stream_options": {"include_usage": True}} if request.url.path.endswith("completions") else {}
    body = {**asked, "stream": True, **counted}
    answer = await provider.send(provider.build_request("POST", request.url.path, json=body), stream=True)
    if not answer.is_success:
        content = await answer.aread()
        await lease.settle(tokens=0)
        return Response(content, answer.status_code, media_type=answer.headers.get("content-type"))
    return StreamingResponse(cut(answer, lease, asked), media_type="text/event-stream")


async def cut(answer: httpx.Response, lease: Lease, asked: dict[str, Any]) -> AsyncIterator[str]:
    """Yield the events that the key pays for, then the end of a stream that was too long."""
    pieces = Pieces(lease, {"tokens": PIECE}, growth=2)
    try:
        async with CutStream(events_of(answer.aiter_bytes()), pieces, request=asked) as stream:
            async for event in stream:
                yield event
    finally:
        await answer.aclose()  # the provider stops, too
