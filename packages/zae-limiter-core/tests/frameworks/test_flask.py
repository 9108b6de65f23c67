"""What only Flask has: a lease in its context, and views that may be async."""

import gc
import io
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any

import pytest

pytest.importorskip("flask", reason="flask is not installed: `just test-frameworks newest` has it")
from flask import Flask, Response, send_file

from zae_limiter import (
    Limit,
    RateLimiter,
    Repository,
    SyncRateLimiter,
    SyncRepository,
    ValidationError,
)
from zae_limiter.integrations.flask import RateLimited, current_lease, init_app

LIMITS = [Limit.per_day("rpd", 10)]


@pytest.fixture
def limiter() -> SyncRateLimiter:
    return SyncRateLimiter(SyncRepository.in_memory(), default_limits=LIMITS)


def application(limiter: SyncRateLimiter, *, installed: bool = True, refund: Any = "never") -> Flask:
    app = Flask(__name__)
    limited = RateLimited(limiter, identity=lambda: "ann", resource="api", cost={"rpd": 1}, refund=refund)

    @app.get("/answer")
    @limited
    def answer() -> str:
        current_lease().settle(rpd=3)
        return "hello"

    @app.get("/twice")
    @limited
    @limited
    def twice() -> str:
        return "hello"

    @app.get("/async")
    @limited
    async def in_async() -> str:
        return "hello"

    @app.get("/fail")
    @limited
    def fail() -> str:
        raise ZeroDivisionError

    @app.get("/settled")
    @limited
    def settled() -> str:
        current_lease().settle(rpd=3)
        raise ZeroDivisionError

    @app.get("/own")
    @limited
    def own() -> Response:
        return Response(headers={"ratelimit": '"up";r=1', "Retry-After": "3"})

    @app.get("/forgotten")
    @RateLimited(limiter, identity=lambda: "ann", resource="api", cost=lambda: None)  # type: ignore[arg-type, return-value]
    def forgotten() -> str:
        return "hello"

    @app.get("/free")
    def free() -> str:
        return str(current_lease())

    if installed:
        init_app(app, legacy=True)
    return app


def left(limiter: SyncRateLimiter) -> int:
    return limiter.available("ann", "api")["rpd"]


def test_a_view_settles_and_the_fields_show_what_is_left(limiter: SyncRateLimiter) -> None:
    response = application(limiter).test_client().get("/answer")
    assert re.fullmatch(r'"rpd";r=7;t=86\d\d', response.headers["RateLimit"])
    assert response.headers["X-RateLimit-Remaining"] == "7"
    response.close()
    assert left(limiter) == 7


@pytest.mark.parametrize(("path", "taken"), [("/twice", 2), ("/async", 1)])
def test_a_view_may_be_limited_twice_or_be_async(limiter: SyncRateLimiter, path: str, taken: int) -> None:
    if path == "/async":
        pytest.importorskip("asgiref", reason="flask[async] is not installed")
    assert application(limiter).test_client().get(path).status_code == 200
    assert left(limiter) == 10 - taken


@pytest.mark.parametrize("propagates", [False, True])
@pytest.mark.parametrize(("refund", "remaining"), [("never", 9), ("before_answer", 10)])
def test_an_exception_is_refunded_on_demand(
    limiter: SyncRateLimiter, refund: str, remaining: int, *, propagates: bool
) -> None:
    app = application(limiter, refund=refund)
    app.config["PROPAGATE_EXCEPTIONS"] = propagates
    with pytest.raises(ZeroDivisionError) if propagates else nullcontext():
        assert app.test_client().get("/fail").status_code == 500
    assert left(limiter) == remaining


def test_a_refusal_of_the_second_limit_gives_back_what_the_first_took(limiter: SyncRateLimiter) -> None:
    app, cost = Flask(__name__), {"rpd": 9}
    first, second = (RateLimited(limiter, identity=lambda: "ann", resource="api", cost=cost) for _ in range(2))
    app.get("/both")(first(second(lambda: "never")))
    init_app(app)
    assert app.test_client().get("/both").status_code == 429
    assert left(limiter) == 10


@pytest.mark.parametrize("propagates", [False, True])
def test_what_was_settled_counts_though_the_view_raises(limiter: SyncRateLimiter, *, propagates: bool) -> None:
    app = application(limiter)
    app.config["PROPAGATE_EXCEPTIONS"] = propagates
    with pytest.raises(ZeroDivisionError) if propagates else nullcontext():
        assert app.test_client().get("/settled").status_code == 500
    assert left(limiter) == 7


@pytest.mark.parametrize(
    ("path", "installed", "message"),
    [("/answer", False, "call init_app"), ("/free", True, "'/free' has no lease: nothing limits it")],
)
def test_a_mistake_says_what_is_missing(limiter: SyncRateLimiter, path: str, message: str, *, installed: bool) -> None:
    app = application(limiter, installed=installed)
    app.config["PROPAGATE_EXCEPTIONS"] = True
    with pytest.raises(LookupError, match=message):
        app.test_client().get(path)


def test_the_fields_replace_those_of_the_view_that_have_the_same_name(limiter: SyncRateLimiter) -> None:
    headers = application(limiter).test_client().get("/own").headers
    assert len(headers.getlist("RateLimit")) == 1
    assert headers["RateLimit"].startswith('"rpd";r=9;')
    assert (headers["RateLimit-Policy"], headers["Retry-After"]) == ('"rpd";q=10;w=86400', "3")


def test_a_cost_that_is_no_mapping_is_refused(limiter: SyncRateLimiter) -> None:
    app = application(limiter)
    app.config["PROPAGATE_EXCEPTIONS"] = True
    with pytest.raises(ValidationError, match="cost None: must map limits to amounts"):
        app.test_client().get("/forgotten")


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"limiter": RateLimiter(Repository.in_memory())}, "limiter .*: must be a SyncRateLimiter, or a function"),
        ({"cost": None}, "cost None: must map limits to amounts"),
        ({"maxwait": 3}, "maxwait 3: is not an option of acquire"),
    ],
)
def test_what_no_request_could_be_limited_with_is_refused_at_once(
    limiter: SyncRateLimiter, more: dict[str, Any], message: str
) -> None:
    given: dict[str, Any] = {"identity": lambda: "ann", "resource": "api", "cost": {"rpd": 1}, "limiter": limiter}
    with pytest.raises(ValidationError, match=message):
        RateLimited(**{**given, **more})


def test_a_test_client_ends_the_lease_when_it_closes_the_response(limiter: SyncRateLimiter) -> None:
    client = application(limiter).test_client()
    answer = client.get("/answer")
    assert limiter.available("ann", "api") == {"rpd": 9}  # the estimate of 1, not yet the 3 of the view
    answer.close()
    assert limiter.available("ann", "api") == {"rpd": 7}
    client.get("/answer", buffered=True)
    assert limiter.available("ann", "api") == {"rpd": 4}
    with client.get("/answer"):
        pass
    assert limiter.available("ann", "api") == {"rpd": 1}


SLOTS = [Limit.per_minute("rpm", 100), Limit.concurrent("parallel", 1)]


def holding(limiter: SyncRateLimiter, refund: Any = "never", **more: Any) -> tuple[Flask, list[int]]:
    """An application whose views hold a slot, and the slots that were free while they ran."""
    app, seen = Flask(__name__), list[int]()
    what: dict[str, Any] = {"identity": lambda: "ann", "resource": "api", "cost": {"rpm": 1, "parallel": 1}}
    limited = RateLimited(limiter, refund=refund, **what, **more)

    def parts() -> Iterator[str]:
        for part in ("one ", "two"):
            seen.append(slots(limiter))
            yield part

    @app.get("/stream")
    @limited
    def stream() -> Response:
        return Response(parts())

    @app.get("/<end>")
    @limited
    def other(end: str) -> Response:
        seen.append(slots(limiter))
        if end == "fails":
            raise ZeroDivisionError
        return Response(status=int(end))

    init_app(app)
    return app, seen


def slots(limiter: SyncRateLimiter) -> int:
    return limiter.available("ann", "api")["parallel"]


@pytest.fixture
def of_slots() -> SyncRateLimiter:
    return SyncRateLimiter(SyncRepository.in_memory(), default_limits=SLOTS)


@pytest.mark.parametrize("refund", ["never", "before_answer"])
@pytest.mark.parametrize("path", ["/stream", "/200", "/404", "/500", "/fails"])
def test_a_view_holds_its_slot_until_its_answer_has_ended(of_slots: SyncRateLimiter, path: str, refund: str) -> None:
    app, seen = holding(of_slots, refund)
    app.test_client().get(path, buffered=True)
    assert (set(seen), slots(of_slots)) == ({0}, 1)


def test_a_stream_holds_its_slot_until_the_server_closes_it(of_slots: SyncRateLimiter) -> None:
    client = holding(of_slots)[0].test_client()
    first = client.get("/stream", buffered=False)
    refused = client.get("/stream")
    assert (refused.status_code, refused.headers["Retry-After"]) == (429, "1")
    first.close()  # the client has left
    assert slots(of_slots) == 1
    assert client.get("/stream", buffered=True).status_code == 200


EXPIRING = [Limit.per_minute("rpm", 100), Limit.concurrent("parallel", 1, expires=1)]


@pytest.mark.parametrize("path", ["/stream", "/file"])
def test_a_client_that_reads_nothing_holds_its_slot_until_it_expires(path: str) -> None:
    limiter = SyncRateLimiter(SyncRepository.in_memory(), default_limits=EXPIRING)
    app = holding(limiter)[0]
    limited = RateLimited(limiter, identity=lambda: "ann", resource="api", cost={"rpm": 1, "parallel": 1})
    app.add_url_rule("/file", view_func=limited(lambda: send_file(io.BytesIO(b"x" * 100_000), "text/plain")))
    first = app.test_client().get(path, buffered=False)
    parts = iter(first.response)
    next(parts)
    with limiter.acquire("ann", "api", {"parallel": 1}, max_wait=20.0):
        with pytest.raises(OSError, match="slots of parallel are free for others"):
            next(parts)
        first.close()
        assert slots(limiter) == 0
    assert slots(limiter) == 1


def test_a_file_of_a_view_ends_its_lease() -> None:
    limiter = SyncRateLimiter(SyncRepository.in_memory(), default_limits=SLOTS)
    app = Flask(__name__)
    init_app(app)

    @app.get("/")
    @RateLimited(limiter, identity=lambda: "ann", resource="api", cost={"rpm": 1})
    def view() -> Response:
        current_lease().settle(rpm=5)
        return send_file(io.BytesIO(b"x" * 100_000), "text/plain")

    assert len(app.test_client().get("/", buffered=True).data) == 100_000
    assert limiter.available("ann", "api")["rpm"] == 95


def test_a_slot_ends_with_max_hold_however_fast_the_client_reads() -> None:
    limiter = SyncRateLimiter(SyncRepository.in_memory(), default_limits=SLOTS)
    client = holding(limiter, max_hold=0.3)[0].test_client()
    parts = iter(client.get("/stream", buffered=False).response)
    next(parts)
    with limiter.acquire("ann", "api", {"parallel": 1}, max_wait=20.0), pytest.raises(OSError, match="free for others"):
        next(parts)


def test_a_slot_of_a_response_that_another_function_replaces_is_not_renewed_for_ever(of_slots: SyncRateLimiter) -> None:
    app, _ = holding(of_slots)
    app.after_request_funcs[None].insert(0, lambda _: Response("another"))  # so it runs last, and nobody closes ours
    with app.test_client() as client:
        assert client.get("/stream").text == "another"
    gc.collect()
    cached = of_slots.repository.namespace_state.cached_shards.get(("ann", "api", 0))
    assert cached is not None
    assert cached.slots is not None
    assert cached.slots.all() == []


def test_requests_that_wait_end_on_their_own_threads(of_slots: SyncRateLimiter) -> None:
    """A server of three threads: two wait for the slot of the third one, whose stream ends on that one."""
    app, seen = holding(of_slots, max_wait=20.0)
    begun = time.monotonic()
    with ThreadPoolExecutor(3) as threads:
        answers = list(threads.map(lambda _: app.test_client().get("/stream", buffered=True), range(9)))
    assert [each.status_code for each in answers] == [200] * 9
    assert ({*seen}, slots(of_slots), time.monotonic() - begun < 10) == ({0}, 1, True)


def test_decorated_functions_that_wait_end_on_their_own_threads(of_slots: SyncRateLimiter) -> None:
    @of_slots.limit("ann", "api", {"parallel": 1}, max_wait=20.0)
    def work() -> int:
        return slots(of_slots)

    begun = time.monotonic()
    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(lambda _: work(), range(9))) == [0] * 9
    assert (slots(of_slots), time.monotonic() - begun < 10) == (1, True)
