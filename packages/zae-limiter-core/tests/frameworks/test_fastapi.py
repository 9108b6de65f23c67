"""What only FastAPI has: a dependency that other dependencies feed, and a document of the routes."""

import asyncio
import json
import time
from contextlib import nullcontext
from typing import Annotated, Any

import pytest

pytest.importorskip("fastapi", reason="fastapi is not installed: `just test-frameworks newest` has it")
import anyio.to_thread
from fastapi import APIRouter, Depends, FastAPI, Header, HTTPException, Request, WebSocket
from fastapi.responses import JSONResponse, StreamingResponse
from pydantic import BaseModel

from zae_limiter import Draw, Lease, Limit, RateLimiter, Repository, SyncRateLimiter, SyncRepository, ValidationError
from zae_limiter.exceptions import InvalidIdentifierError
from zae_limiter.integrations.asgi import App, RateLimitMiddleware
from zae_limiter.integrations.cut import CutStream
from zae_limiter.integrations.fastapi import RateLimited, install
from zae_limiter.streams import Pieces

LIMITS = [Limit.per_minute("tpm", 100)]


class Prompt(BaseModel):
    """A body that the cost depends on."""

    text: str


def user(x_user: Annotated[str, Header()]) -> str:
    return x_user


def cost(prompt: Prompt) -> dict[str, int]:
    return {"tpm": len(prompt.text)}


def model(name: str) -> str:
    return name


def no_limiter() -> RateLimiter:
    raise AssertionError("a test overrides it")


limited = RateLimited(no_limiter, identity=user, resource=model, cost=cost, limits=LIMITS)


def application() -> FastAPI:
    app = FastAPI()

    @app.post("/models/{name}")
    async def answer(name: str, prompt: Prompt, lease: Annotated[Lease, Depends(limited)]) -> dict[str, Any]:
        return {"consumed": lease.consumed, "resource": lease.statuses[0].resource, "text": prompt.text}

    @app.get("/open", responses={404: {"description": "nothing"}})
    async def unlimited() -> dict[str, str]:
        return {}

    limiter = RateLimiter(Repository.in_memory())
    app.dependency_overrides[no_limiter] = lambda: limiter
    return app


async def ask(
    app: App, path: str, body: bytes = b"", *, more: bool = False, stays: bool = False
) -> tuple[int, dict[bytes, bytes], bytes]:
    sent: list[Any] = []

    messages = [{"type": "http.request", "body": body, "more_body": more}, {"type": "http.disconnect"}]

    async def receive() -> Any:
        if stays and len(messages) == 1:
            await asyncio.Future()
        return messages.pop(0)

    async def send(message: Any) -> None:
        sent.append(message)

    headers = [(b"x-user", b"ann"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": headers}
    await app(scope, receive, send)
    return sent[0]["status"], dict(sent[0]["headers"]), b"".join(each.get("body", b"") for each in sent[1:])


async def test_identity_resource_and_cost_come_from_dependencies_and_the_limiter_can_be_overridden() -> None:
    app = application()
    install(app)
    status, headers, body = await ask(app, "/models/gpt", b'{"text": "hello"}')
    assert (status, body) == (200, b'{"consumed":{"tpm":5},"resource":"gpt","text":"hello"}')
    assert headers[b"ratelimit"] == b'"tpm";r=95;t=1'


async def test_draws_come_from_a_dependency() -> None:
    limiter = RateLimiter(Repository.in_memory(), default_limits=LIMITS)
    app = FastAPI()
    install(app)

    def account(x_user: Annotated[str, Header()]) -> list[Draw]:
        return [Draw(f"{x_user}-account", "budget", {"tpm": 60})]

    paid = RateLimited(limiter, identity=user, resource="api", cost={"tpm": 1}, draws=account)

    @app.post("/", dependencies=[Depends(paid)])
    async def answer() -> dict[str, str]:
        return {}

    assert [(await ask(app, "/"))[0] for _ in range(2)] == [200, 429]
    assert await limiter.available("ann-account", "budget") == {"tpm": 40}
    assert await limiter.available("ann", "api") == {"tpm": 99}


async def test_a_body_that_is_not_valid_takes_nothing() -> None:
    app = application()
    install(app)
    status, headers, _ = await ask(app, "/models/gpt", b"{}")
    assert (status, b"ratelimit" in headers) == (422, False)


async def test_an_application_without_install_is_told_what_is_missing() -> None:
    with pytest.raises(LookupError, match="install it in the application"):
        await ask(application(), "/models/gpt", b'{"text": "hello"}')


def test_the_document_has_every_answer_of_ours_for_the_routes_that_are_limited_and_no_parameter_of_ours() -> None:
    app = application()
    install(app)
    paths = app.openapi()["paths"]
    limited = paths["/models/{name}"]["post"]
    assert list(limited["responses"]["429"]["content"]) == ["application/problem+json"]
    assert set(limited["responses"]["429"]["headers"]) == {
        "RateLimit",
        "RateLimit-Policy",
        "Retry-After",
        "x-should-retry",
    }
    for status, fields in (("403", set()), ("503", {"Retry-After"})):
        described = limited["responses"][status]
        assert list(described["content"]) == ["application/problem+json"]
        assert set(described.get("headers", ())) == fields
    assert {each["name"] for each in limited["parameters"]} == {"name", "x-user"}
    assert set(paths["/open"]["get"]["responses"]) == {"200", "404"}
    assert app.openapi() is app.openapi()


def test_the_document_has_the_errors_of_openai() -> None:
    app = application()
    install(app, style="openai", payment_required=True)
    responses = app.openapi()["paths"]["/models/{name}"]["post"]["responses"]
    assert {
        status for status, each in responses.items() if "application/problem+json" in each.get("content", {})
    } == set()
    assert list(responses["402"]["content"]["application/json"]["schema"]["properties"]) == ["error"]


def test_the_document_of_a_router_has_them_too_and_what_a_route_says_itself_stays() -> None:
    app, router = FastAPI(), APIRouter()

    @router.get("/limited", dependencies=[Depends(limited)], responses={403: {"description": "not your model"}})
    async def answer() -> None: ...

    app.include_router(router, prefix="/v1")
    install(app)
    responses = app.openapi()["paths"]["/v1/limited"]["get"]["responses"]
    assert {"403", "429", "503"} <= set(responses)
    assert responses["403"] == {"description": "not your model"}


async def test_what_a_route_answers_fits_what_the_document_says_of_it() -> None:
    app = application()
    install(app)
    [limiter] = [each() for each in app.dependency_overrides.values()]
    await limiter.repository.set_system_switches(disabled=True, reason="incident 12")
    described = app.openapi()["paths"]["/models/{name}"]["post"]["responses"]
    for status, text in ((403, "hello"), (429, "x" * 101)):
        found, headers, body = await ask(app, "/models/gpt", json.dumps({"text": text}).encode())
        schema = described[str(status)]["content"][headers[b"content-type"].decode()]["schema"]
        assert (found, set(schema["required"]) - json.loads(body).keys()) == (status, set())
        assert json.loads(body).keys() <= schema["properties"].keys()
        await limiter.repository.set_system_switches(disabled=False)
        await limiter.repository.invalidate_config_cache()


def own(**more: Any) -> RateLimited:
    limiter = RateLimiter(Repository.in_memory(), default_limits=LIMITS)
    return RateLimited(limiter, **{"identity": lambda: "ann", "resource": "api", "cost": {"tpm": 60}, **more})


@pytest.mark.parametrize("where", ["application", "router"])
async def test_a_websocket_beside_limited_routes_works_and_is_not_limited(where: str) -> None:
    dependencies, sent = [Depends(own())], list[Any]()
    app = FastAPI(dependencies=dependencies if where == "application" else None)
    router = APIRouter(dependencies=dependencies if where == "router" else None)
    install(app)

    @router.get("/limited")
    async def answer() -> None: ...

    @router.websocket("/socket")
    async def socket(socket: WebSocket) -> None:
        await socket.accept()

    app.include_router(router)

    async def receive() -> Any:
        return {"type": "websocket.connect"}

    async def send(message: Any) -> None:
        sent.append(message)

    for _ in range(3):
        await app({"type": "websocket", "path": "/socket", "query_string": b"", "headers": []}, receive, send)
    assert [each["type"] for each in sent] == ["websocket.accept"] * 3
    assert "429" in app.openapi()["paths"]["/limited"]["get"]["responses"]


async def test_a_request_that_costs_nothing_has_no_lease() -> None:
    app = FastAPI()
    install(app)

    @app.post("/free")
    async def answer(lease: Annotated[Lease | None, Depends(own(cost={}))]) -> bool:
        return lease is None

    status, headers, body = await ask(app, "/free")
    assert (status, body, b"ratelimit" in headers) == (200, b"true", False)


async def test_a_client_that_leaves_while_it_waits_leaves_the_line() -> None:
    app = FastAPI()
    install(app)
    limited, ran = own(max_wait=60.0), list[str]()

    @app.post("/answer")
    async def answer(prompt: Prompt, lease: Annotated[Lease, Depends(limited)]) -> None:
        ran.append(prompt.text)

    assert [(await ask(app, "/answer", b'{"text": "hello"}'))[0] for _ in range(2)] == [200, 499]
    assert ran == ["hello"]


@pytest.mark.parametrize("path", ["/raw", "/parsed"])
async def test_a_body_that_does_not_come_is_a_408_also_around_an_application(path: str) -> None:
    app, limits = FastAPI(), [Limit.concurrent("parallel", 1, expires=1)]
    limiter = RateLimiter(Repository.in_memory(), default_limits=limits)

    @app.post("/raw")
    async def raw(request: Request) -> int:
        return len(await request.body())

    @app.post("/parsed")
    async def parsed(prompt: Prompt) -> str:
        return prompt.text

    around = RateLimitMiddleware(app, limiter=limiter, identity="ann", resource="r", cost={"parallel": 1})
    assert (await ask(around, path, b"{", more=True, stays=True))[0] == 408
    assert await limiter.available("ann", "r") == {"parallel": 1}


async def test_a_mounted_application_answers_its_refusals_with_its_own_options() -> None:
    app, mounted = FastAPI(), FastAPI()
    install(app)
    install(mounted, units={"tpm": "tokens"}, legacy=True)

    @mounted.post("/answer", dependencies=[Depends(own())])
    async def answer() -> None: ...

    app.mount("/v1", mounted)
    (first, fields, _), (second, *_, body) = [await ask(app, "/v1/answer") for _ in range(2)]
    assert (first, second) == (200, 429)
    assert fields[b"ratelimit-policy"] == b'"tpm";q=100;qu="tokens";w=60'
    assert fields[b"x-ratelimit-remaining"] == b"40"
    assert b'"instance": "/v1/answer"' in body


async def test_a_refusal_in_a_group_of_tasks_is_answered() -> None:
    app = FastAPI()
    install(app)

    @app.post("/answer")
    async def answer(lease: Annotated[Lease, Depends(own())]) -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(lease.consume(tpm=60))

    assert (await ask(app, "/answer"))[0] == 429


async def test_a_cost_that_is_no_mapping_is_refused() -> None:
    app = FastAPI()
    install(app)

    @app.post("/forgotten", dependencies=[Depends(own(cost=lambda: None))])
    async def answer() -> None: ...

    with pytest.raises(ValidationError, match="cost None: must map limits to amounts"):
        await ask(app, "/forgotten")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"limiter": SyncRateLimiter(SyncRepository.in_memory())}, "limiter .*: must be a RateLimiter, or a function"),
        ({"cost": None}, "cost None: must map limits to amounts"),
        ({"maxwait": 3}, "maxwait 3: is not an option of acquire"),
    ],
)
def test_what_no_request_could_be_limited_with_is_refused_at_once(more: dict[str, Any], message: str) -> None:
    given = {"limiter": no_limiter, "identity": user, "resource": "api", "cost": {"tpm": 1}, **more}
    with pytest.raises(ValidationError, match=message):
        RateLimited(**given)


async def test_an_error_handler_answers_an_id_that_is_none() -> None:
    app = FastAPI()
    install(app)

    @app.exception_handler(InvalidIdentifierError)
    async def refuse(request: Request, error: Exception) -> JSONResponse:
        return JSONResponse(str(error), 400)

    @app.post("/answer", dependencies=[Depends(own(identity=lambda: "ann smith"))])
    async def answer() -> None: ...

    status, _, body = await ask(app, "/answer")
    assert (status, b"entity_id 'ann smith'" in body) == (400, True)


@pytest.mark.parametrize(("refund", "left"), [("never", 40), ("before_answer", 100)])
async def test_an_answer_of_the_server_s_fault_is_refunded_on_demand(refund: Any, left: int) -> None:
    app, limiter = FastAPI(), RateLimiter(Repository.in_memory(), default_limits=[Limit.per_minute("tpm", 100)])
    install(app)
    limited = RateLimited(limiter, identity=lambda: "ann", resource="gpt", cost={"tpm": 60}, refund=refund)

    @app.post("/answer", dependencies=[Depends(limited)])
    async def answer() -> None:
        raise HTTPException(503)

    assert (await ask(app, "/answer"))[0] == 503
    assert await limiter.available("ann", "gpt") == {"tpm": left}


async def test_a_refusal_of_the_second_dependency_gives_back_what_the_first_took() -> None:
    app, limiter = FastAPI(), RateLimiter(Repository.in_memory(), default_limits=[Limit.per_minute("tpm", 100)])
    install(app)
    both = [RateLimited(limiter, identity=lambda: "ann", resource="gpt", cost={"tpm": cost}) for cost in (60, 61)]

    @app.post("/answer", dependencies=[Depends(each) for each in both])
    async def answer() -> None:
        pytest.fail("the route ran")

    assert (await ask(app, "/answer"))[0] == 429
    assert await limiter.available("ann", "gpt") == {"tpm": 100}


SLOTS = [Limit.per_minute("rpm", 100), Limit.concurrent("parallel", 1)]


@pytest.mark.parametrize("end", ["/stream", "/fails", "/breaks"])
async def test_a_route_holds_its_slot_until_its_stream_ends_or_fails(end: str) -> None:
    limiter = RateLimiter(Repository.in_memory(), default_limits=SLOTS)
    seen = []

    async def free() -> int:
        return (await limiter.available("ann", "api"))["parallel"]

    async def parts() -> Any:
        seen.append(await free())
        yield "one "
        if end == "/breaks":
            raise ZeroDivisionError
        seen.append(await free())
        yield "two"

    app = FastAPI()
    install(app)
    held = Depends(RateLimited(limiter, identity=user, resource="api", cost={"rpm": 1, "parallel": 1}))

    @app.post("/stream", dependencies=[held])
    @app.post("/breaks", dependencies=[held])
    async def stream() -> Any:
        return StreamingResponse(parts())

    @app.post("/fails", dependencies=[held])
    async def fails() -> None:
        seen.append(await free())
        raise ZeroDivisionError

    with nullcontext() if end == "/stream" else pytest.raises((ZeroDivisionError, ExceptionGroup)):
        await ask(app, end)
    assert (set(seen), await free()) == ({0}, 1)


@pytest.mark.parametrize("size", [1, 7, 1000])
async def test_a_stream_of_malformed_events_arrives_as_it_was_sent(size: int) -> None:
    limiter = RateLimiter(Repository.in_memory(), default_limits=[Limit.per_day("tpd", 10_000)])
    texts = ('data: {"choices": 5}', 'data: {"choices": [{"index": [], "delta"', "data: [[]]", "data: {", "\xff", "")
    raw = "\n\n".join(texts).encode("latin-1")

    async def parts() -> Any:
        for at in range(0, len(raw), size):
            yield raw[at : at + size]

    app = FastAPI()
    install(app)
    limited = RateLimited(limiter, identity=user, resource="api", cost={"tpd": 1})

    async def cut(lease: Lease) -> Any:
        async with CutStream(parts(), Pieces(lease, {"tpd": 5})) as stream:
            async for part in stream:
                yield part

    @app.post("/chat")
    async def chat(lease: Annotated[Lease, Depends(limited)]) -> Any:
        return StreamingResponse(cut(lease))

    _, _, answer = await ask(app, "/chat", stays=True)
    assert answer == raw
    used = 10_000 - (await limiter.available("ann", "api"))["tpd"]
    assert 0 < used <= -(-len(raw) // 4)


async def test_requests_that_wait_for_slots_hold_no_thread_that_plain_routes_need() -> None:
    """The pool has one thread: a route of another request needs it while five wait."""
    anyio.to_thread.current_default_thread_limiter().total_tokens = 1
    app = FastAPI()
    install(app)
    limits = [Limit.concurrent("parallel", 1)]
    limited = own(cost={"parallel": 1}, limits=limits, max_wait=20.0)

    @app.post("/limited", dependencies=[Depends(limited)])
    def answer() -> None:
        time.sleep(0.05)

    @app.post("/other")
    def other() -> None: ...

    begun = time.monotonic()
    waiting = [asyncio.create_task(ask(app, "/limited", stays=True)) for _ in range(5)]
    await asyncio.sleep(0.01)
    assert (await ask(app, "/other"))[0] == 200
    assert time.monotonic() - begun < 1
    assert [status for status, _, _ in await asyncio.gather(*waiting)] == [200] * 5
    assert time.monotonic() - begun < 5


@pytest.mark.parametrize("name", ["limiter", "identity", "resource", "cost"])
def test_a_function_whose_request_fastapi_would_not_know_is_refused_at_start(name: str) -> None:
    def untyped(request):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202 - that is the mistake
        raise AssertionError

    for function in (lambda request: "ann", lambda req: "ann", untyped):
        given: dict[str, Any] = {"limiter": no_limiter, "identity": user, "resource": "api", "cost": {}}
        with pytest.raises(ValidationError, match=rf"^{name} .* def {name}\(request: Request\)"):
            RateLimited(**{**given, name: function})


async def test_functions_that_fastapi_knows_pass() -> None:
    def typed(request: Request) -> str:
        return request.headers["x-user"]

    app = FastAPI()
    install(app)

    of_path, of_nothing = own(identity=lambda name: name), own(identity=lambda: "ann")

    @app.post("/answer/{name}", dependencies=[Depends(own(identity=typed)), Depends(of_path), Depends(of_nothing)])
    async def answer() -> None: ...

    assert (await ask(app, "/answer/bob", stays=True))[0] == 200
