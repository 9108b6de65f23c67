"""An LLM gateway with OpenAI's API: check the key, take requests, tokens and money, pass the call on, settle."""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any, Literal, NamedTuple, TypedDict

import httpx
from fastapi import Depends, FastAPI, HTTPException, Request, Response
from fastapi.responses import JSONResponse, StreamingResponse
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from prometheus_client import REGISTRY, CollectorRegistry, Counter, generate_latest
from prometheus_client.multiprocess import MultiProcessCollector
from pydantic import BaseModel, ConfigDict, Field

from set_up import set_up
from zae_limiter import Draw, Lease, RateLimiter, Repository, TokenUsage
from zae_limiter.integrations.fastapi import RateLimited, install
from zae_limiter.integrations.prices import Prices
from zae_limiter.integrations.tokens import estimate
from zae_limiter.integrations.usage import UsageReader, read_usage
from zae_limiter.observers import AcquireEvent, Event

ACQUIRES = Counter("gateway_acquires", "Calls, by what became of them", ["model", "outcome"])
REFUSALS = Counter("gateway_refusals", "Limits that were short", ["model", "limit", "reason"])
TOKENS = Counter("gateway_tokens", "Tokens that ended calls used", ["model"])
PRICES = Prices.from_dict(  # dollars for a million tokens; yours are in a file
    {
        "version": 1,
        "models": {
            "gpt-5": [{"from": "2026-07-01", "input": 1.10, "cached": 0.11, "output": 9}],
            "gpt-5-mini": [{"from": "2026-07-01", "input": 0.25, "cached": 0.025, "output": 2}],
        },
    }
)


class Key(NamedTuple):
    """Whom a key belongs to."""

    entity: str
    account: str


KEYS = {  # yours are in a database, as hashes
    "sk-ann": Key("key-ann", "acme"),
    "sk-bob": Key("key-bob", "acme"),
    "sk-nightly": Key("key-nightly", "acme"),
}


class Call(BaseModel):
    """What a client may ask; every other field is passed on."""

    model_config = ConfigDict(extra="allow")
    model: Literal["gpt-5", "gpt-5-mini"]
    messages: list[dict[str, Any]]
    max_completion_tokens: int = Field(500, ge=1, le=4000)
    n: Literal[1] = 1
    stream: bool = False


class State(TypedDict):
    """What a process opens once."""

    limiter: RateLimiter
    provider: httpx.AsyncClient


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[State]:
    """Open the limiter and the provider; a store that is away does not stop the start."""
    if "GATEWAY_IN_MEMORY" in os.environ:
        repository = Repository.in_memory("gateway")
        await set_up(repository)
    else:
        repository = await Repository.open("gateway", on_unavailable="allow")  # DynamoDB, or the file of ZAEL_STORE
    async with RateLimiter(repository, observers=[count]) as limiter, provider_client() as provider:
        yield {"limiter": limiter, "provider": provider}


def provider_client() -> httpx.AsyncClient:
    """Return the client of the provider."""
    key = {"Authorization": f"Bearer {os.environ['PROVIDER_KEY']}"}
    return httpx.AsyncClient(base_url=os.environ["PROVIDER_URL"], headers=key, timeout=120, trust_env=False)


def shared_limiter(request: Request) -> RateLimiter:
    """Return the limiter of this process."""
    limiter: RateLimiter = request.state.limiter
    return limiter


def key(credentials: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())]) -> Key:
    """Return whose key it is."""
    if credentials.credentials not in KEYS:
        raise HTTPException(401, "Incorrect API key.")
    return KEYS[credentials.credentials]


def entity(key: Annotated[Key, Depends(key)]) -> str:
    """Return the entity that is limited; its team and its organisation are above it."""
    return key.entity


def model(call: Call) -> str:
    """Return the resource: each model has limits of its own."""
    return call.model


def cost(call: Call) -> dict[str, int]:
    """Return what the call takes of the model's limits until its usage is known."""
    return {"rpm": 1, "tpm": estimate(call.model_dump())} | ({"streams": 1} if call.stream else {})


def money(call: Call, key: Annotated[Key, Depends(key)]) -> list[Draw]:
    """Return what the call takes of the account's budget, in micro-dollars: one bucket for all models."""

    def price(usage: TokenUsage) -> dict[str, int]:
        return {"usd": PRICES.micro_usd(call.model, usage)}

    output = call.max_completion_tokens
    guess = TokenUsage(input=estimate(call.model_dump()) - output, output=output)
    return [Draw(key.account, "budget", price(guess), by_usage=price)]


limited = RateLimited(shared_limiter, identity=entity, resource=model, cost=cost, draws=money)
app = FastAPI(lifespan=lifespan)
install(app, units={"tpm": "tokens"}, style="openai")  # refusals and outages, as OpenAI answers them


@app.post("/v1/chat/completions")
async def complete(call: Call, request: Request, lease: Annotated[Lease, Depends(limited)]) -> Response:
    """Pass a call on, and its answer back."""
    provider: httpx.AsyncClient = request.state.provider
    body = call.model_dump() | ({"stream_options": {"include_usage": True}} if call.stream else {})
    asked = provider.build_request("POST", "/chat/completions", json=body)
    try:
        answer = await provider.send(asked, stream=call.stream)
    except httpx.ConnectError as error:  # nothing was used; after any other error the estimates stay
        await settle(lease, call.model, TokenUsage())
        raise HTTPException(502, "The provider cannot be reached.") from error
    if call.stream and answer.is_success:
        return StreamingResponse(settled(answer, lease, call.model), media_type="text/event-stream")
    content = await answer.aread()
    await settle(lease, call.model, read_usage(content) if answer.is_success else TokenUsage())
    return Response(content, answer.status_code, media_type=answer.headers.get("content-type"))


async def settled(answer: httpx.Response, lease: Lease, model: str) -> AsyncIterator[str]:
    """Yield the lines of a stream; one whose client leaves before the usage came keeps its estimate."""
    reader = UsageReader()
    try:
        async for line in answer.aiter_lines():
            reader.add(line)
            if line == "data: [DONE]":
                await settle(lease, model, reader.usage)
            yield f"{line}\n"
    finally:
        await answer.aclose()  # the provider stops, too


async def settle(lease: Lease, model: str, usage: TokenUsage | None) -> None:
    """Replace the estimates by what the provider counted; without a usage they stay."""
    if usage is not None:
        TOKENS.labels(model).inc(usage.total)
        await lease.settle(usage, tpm=usage.total)
        await lease.draws[0].settle(usage)


@app.exception_handler(HTTPException)
async def wrong(_: Request, error: HTTPException) -> Response:
    """Answer a wrong key, or a provider that is away, as OpenAI does."""
    kind = "server_error" if error.status_code >= 500 else "invalid_request_error"
    told = {"message": error.detail, "type": kind, "param": None, "code": None}
    return JSONResponse({"error": told}, error.status_code)


def count(event: Event) -> None:
    """Count what became of a call: an observer of the limiter."""
    if isinstance(event, AcquireEvent):
        ACQUIRES.labels(event.resource, event.outcome).inc()
        for status in event.violations:
            REFUSALS.labels(event.resource, status.limit_name, status.reason).inc()


@app.get("/metrics")
def metrics() -> Response:
    """Return the counts for Prometheus: with PROMETHEUS_MULTIPROC_DIR, those of all workers."""
    registry = REGISTRY
    if "PROMETHEUS_MULTIPROC_DIR" in os.environ:
        registry = CollectorRegistry()
        MultiProcessCollector(registry)
    return Response(generate_latest(registry), media_type="text/plain; version=0.0.4")
