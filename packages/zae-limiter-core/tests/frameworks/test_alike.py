"""What every framework does alike: who the client is, what it may read, and what it gets for an id that is none."""

import importlib
import json
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from zae_limiter import Draw, Limit, RateLimiter, Repository, SyncRateLimiter, SyncRepository
from zae_limiter.exceptions import InvalidIdentifierError, ValidationError
from zae_limiter.integrations.answers import InvalidClientId
from zae_limiter.integrations.arguments import Rule
from zae_limiter.integrations.retries import key_of_request

KINDS = ["asgi", "fastapi", "flask", "django", "django-async"]
COST = {"rpm": 1, "usd": 10_180}
OF_ANSWERS = ("names", "legacy", "units", "style", "payment_required")
SECRETS = ("acme", "parent", "15000", "4820", "10180")  # id, place, capacity, balance and price


class Got(NamedTuple):
    """An answer; the names of its header fields are lower-case."""

    status: int
    fields: dict[str, str]
    body: bytes


class Site:
    """One limited path of a framework; ``fields`` of a request are pairs, in their order."""

    def __init__(self, kind: str) -> None:
        framework, _, variant = kind.partition("-")
        self.kind, self.module = kind, importlib.import_module(f"zae_limiter.integrations.{framework}")
        sync = framework == "flask" or (framework == "django" and not variant)
        limits = [Limit.per_day("rpm", 10)]
        self.limiter: Any = (
            SyncRateLimiter(SyncRepository.in_memory(), default_limits=limits)
            if sync
            else RateLimiter(Repository.in_memory(), default_limits=limits)
        )

    async def spend_budget(self) -> None:
        """Make a family whose parent has a budget, and no more of it than for one call."""
        await self.call("create_entity", "acme")
        await self.call("create_entity", "key-1", parent_id="acme", cascade=True)
        await self.call("set_limits", "acme", [Limit.per_day("usd", 15_000)])

    async def call(self, name: str, *arguments: Any, **more: Any) -> Any:
        """Call a method of the limiter."""
        found = getattr(self.limiter, name)(*arguments, **more)
        return found if isinstance(self.limiter, SyncRateLimiter) else await found

    def identity(self, value: Any) -> Callable[..., Any]:
        return (lambda: value) if self.kind in ("fastapi", "flask") else (lambda _: value)

    async def ask(
        self, identity: Any, fields: list[tuple[str, str]] | None = None, *, peer: str = "192.0.2.1", **more: Any
    ) -> Got:
        asked: dict[str, Any] = {"identity": identity, "resource": "api", "cost": {"rpm": 1}, **more}
        return await getattr(self, f"_{self.kind.replace('-', '_')}")(asked, fields or [], peer)  # type: ignore[no-any-return]

    async def _asgi(self, asked: dict[str, Any], fields: list[tuple[str, str]], peer: str) -> Got:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await send({"type": "http.response.start", "status": 200})
            await send({"type": "http.response.body", "body": b"hello"})

        return await self._serve(self.module.RateLimitMiddleware(app, limiter=self.limiter, **asked), fields, peer)

    async def _fastapi(self, asked: dict[str, Any], fields: list[tuple[str, str]], peer: str) -> Got:
        from fastapi import Depends, FastAPI

        shown = {name: asked.pop(name) for name in OF_ANSWERS if name in asked}
        app, limited = FastAPI(), self.module.RateLimited(self.limiter, **asked)
        self.module.install(app, **shown)

        @app.get("/", dependencies=[Depends(limited)])
        async def hello() -> str:
            return "hello"

        return await self._serve(app, fields, peer)

    async def _serve(self, app: Any, fields: list[tuple[str, str]], peer: str) -> Got:
        sent: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": b""}

        async def send(message: Any) -> None:
            sent.append(message)

        raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in fields]
        scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": raw}
        await app({**scope, "client": (peer, 4711) if peer else None}, receive, send)
        got = {name.decode().lower(): value.decode() for name, value in sent[0].get("headers", ())}
        return Got(sent[0]["status"], got, sent[1]["body"])

    async def _flask(self, asked: dict[str, Any], fields: list[tuple[str, str]], peer: str) -> Got:
        from flask import Flask

        shown = {name: asked.pop(name) for name in OF_ANSWERS if name in asked}
        app = Flask(__name__)
        self.module.init_app(app, **shown)
        app.testing = True  # raises what a programmer has to see

        @app.get("/")
        @self.module.RateLimited(self.limiter, **asked)  # type: ignore[untyped-decorator]
        def hello() -> str:
            return "hello"

        environ = {"REMOTE_ADDR": peer}  # its client puts a length of its own in place of the field's
        environ["CONTENT_LENGTH"] = dict(fields).get("Content-Length", "")
        response = app.test_client().get("/", headers=fields, environ_overrides=environ)
        got = Got(response.status_code, {k.lower(): v for k, v in response.headers.items()}, response.data)
        response.close()
        return got

    def _request(self, fields: list[tuple[str, str]], peer: str) -> Any:
        from django.conf import settings
        from django.test import RequestFactory

        if not settings.configured:
            settings.configure()
        environ: dict[str, str] = {"REMOTE_ADDR": peer}
        for name, value in fields:  # as servers of WSGI join lines
            key = f"HTTP_{name.upper().replace('-', '_')}"
            environ[key] = f"{environ[key]},{value}" if key in environ else value
        return RequestFactory().get("/", **environ)

    async def _django(self, asked: dict[str, Any], fields: list[tuple[str, str]], peer: str) -> Got:
        request = self._request(fields, peer)
        from django.http import HttpResponse

        response = self.module.RateLimits(self.limiter, **asked)(lambda _: HttpResponse("hello"))(request)
        return Got(response.status_code, {k.lower(): v for k, v in response.items()}, response.content)

    async def _django_async(self, asked: dict[str, Any], fields: list[tuple[str, str]], peer: str) -> Got:
        request = self._request(fields, peer)
        from django.http import HttpResponse

        async def hello(_: Any) -> Any:
            return HttpResponse("hello")

        response = await self.module.AsyncRateLimits(self.limiter, **asked)(hello)(request)
        return Got(response.status_code, {k.lower(): v for k, v in response.items()}, response.content)


@pytest.fixture(params=KINDS)
def site(request: pytest.FixtureRequest) -> Site:
    if (framework := request.param.partition("-")[0]) != "asgi":
        pytest.importorskip(framework, reason=f"{framework} is not installed: `just test-frameworks newest` has it")
    return Site(request.param)


async def test_a_refusal_by_a_parent_tells_a_client_nothing_of_it(site: Site) -> None:
    await site.spend_budget()
    key = site.identity("key-1")
    assert (await site.ask(key, cost=COST)).fields["ratelimit-policy"] == '"rpm";q=10;w=86400'
    refused = await site.ask(key, cost=COST)
    assert (refused.status, refused.fields["ratelimit-policy"]) == (429, '"rpm";q=10;w=86400')
    assert refused.fields["ratelimit"].startswith('"usd";r=0;t=')
    document = json.loads(refused.body)
    assert document["violated-policies"] == ["usd"]
    assert document["detail"].startswith("usd: not enough left; retry in ")
    assert not [each for each in SECRETS if each in f"{refused.fields} {refused.body!r}".lower()]


async def test_draws_are_a_function_of_the_request(site: Site) -> None:
    await site.call("set_limits", "acme", [Limit.per_day("usd", 100), Limit.concurrent("calls", 1)], "budget")
    draws = site.identity([Draw("acme", "budget", {"usd": 60, "calls": 1})])
    first, refused = [await site.ask(site.identity("ann"), draws=draws, show="all") for _ in range(2)]
    assert (first.status, refused.status) == (200, 429)
    assert [each.split(";")[0] for each in first.fields["ratelimit"].split(", ")] == [
        '"rpm"',
        '"draw/usd"',
        '"draw/calls"',
    ]
    document = json.loads(refused.body)
    assert (document["violated-policies"], document["reason"]) == (["draw/usd"], "rate")
    assert refused.fields["x-should-retry"] == "false"
    assert await site.call("available", "ann", "api") == {"rpm": 9}  # all or nothing
    assert (await site.call("available", "acme", "budget"))["calls"] == 1


async def test_a_cost_that_is_a_float_is_a_mistake_with_its_reason(site: Site) -> None:
    for cost in ({"usd": 0.5}, site.identity({"usd": 0.5})):
        with pytest.raises(ValidationError, match="a float is not exact: give money as a Decimal"):
            await site.ask(site.identity("ann"), cost=cost, limits=[Limit.money("usd", 1, per="month")])


OPENAI: Any = {"style": "openai", "units": {"tpm": "tokens"}}


@pytest.mark.parametrize(
    ("limit", "kind", "code", "status"),
    [
        (Limit.per_day("rpm", 1), "requests", "rate_limit_exceeded", 429),
        (Limit.per_day("tpm", 1), "tokens", "rate_limit_exceeded", 429),
        (Limit.parse("usd: $0.000001/rolling day"), "requests", "rate_limit_exceeded", 429),
        (Limit.per_month("rpm", 1), "insufficient_quota", "insufficient_quota", 429),
        (Limit.money("usd", "0.000001", per="month"), "insufficient_quota", "insufficient_quota", 402),
    ],
)
async def test_errors_may_be_those_of_openai(site: Site, limit: Limit, kind: str, code: str, status: int) -> None:
    asked: dict[str, Any] = {"cost": {limit.name: 1}, "limits": [limit], **OPENAI, "payment_required": True}
    _, refused = [await site.ask(site.identity("ann"), **asked) for _ in range(2)]
    assert (refused.status, refused.fields["content-type"]) == (status, "application/json")
    error = json.loads(refused.body)["error"]
    assert (error["type"], error["param"], error["code"]) == (kind, None, code)
    assert limit.name in error["message"]
    assert refused.fields["x-should-retry"] == "false"


async def test_openai_reads_that_a_call_costs_more_than_a_budget(site: Site) -> None:
    limits = [Limit.money("usd", "1", per="month")]
    got = await site.ask(site.identity("ann"), cost={"usd": 1_000_001}, limits=limits, payment_required=True, **OPENAI)
    assert (got.status, json.loads(got.body)["error"]["code"]) == (429, "insufficient_quota")


async def test_openai_reads_requests_and_tokens_left(site: Site) -> None:
    limits = [Limit.per_minute("rpm", 60), Limit.per_minute("tpm", 600)]
    got = await site.ask(site.identity("ann"), cost={"rpm": 1, "tpm": 60}, limits=limits, **OPENAI)
    assert {name: text for name, text in got.fields.items() if name.startswith("x-")} == {
        "x-ratelimit-limit-requests": "60",
        "x-ratelimit-remaining-requests": "59",
        "x-ratelimit-reset-requests": "1s",
        "x-ratelimit-limit-tokens": "600",
        "x-ratelimit-remaining-tokens": "540",
        "x-ratelimit-reset-tokens": "1s",
    }


async def test_openai_reads_that_access_is_disabled(site: Site) -> None:
    switched = site.limiter.repository.set_switches("ann", disabled=True, reason="unpaid")
    if not isinstance(site.limiter, SyncRateLimiter):
        await switched
    got = await site.ask(site.identity("ann"), **OPENAI)
    assert (got.status, json.loads(got.body)["error"]["code"]) == (403, "access_disabled")


async def test_an_unknown_style_is_refused(site: Site) -> None:
    with pytest.raises(ValidationError, match="style 'open': must be one of problem, openai"):
        await site.ask(site.identity("ann"), style="open")


@pytest.mark.parametrize(("show", "fields"), [("retry_after", {"retry-after"}), ("nothing", set())])
async def test_a_sign_in_page_tells_less(site: Site, show: str, fields: set[str]) -> None:
    await site.spend_budget()
    key = site.identity("key-1")
    for status, told in ((200, set()), (429, fields)):
        got = await site.ask(key, cost=COST, show=show)
        assert got.status == status
        assert {name for name in got.fields if "ratelimit" in name or name == "retry-after"} == told
    document = json.loads(got.body)
    assert (document.pop("instance"), document.keys()) == ("/", {"type", "title", "status", "detail"})


async def test_a_client_may_read_more_under_names_of_the_owner(site: Site) -> None:
    await site.spend_budget()
    names = {"acme": "organisation", "key-1": "key"}
    got = await site.ask(
        site.identity("key-1"), cost=COST, show="all", names=lambda each: f"{names[each.entity_id]}/{each.limit_name}"
    )
    policies = [each.partition(";")[0] for each in got.fields["ratelimit-policy"].split(", ")]
    assert policies == ['"key/rpm"', '"organisation/usd"']


@pytest.mark.parametrize("bad", ["", "x" * 300, "ann smith", "$SYSTEM", "$RESOURCE:gpt", "a\nb", "\ud800"])
@pytest.mark.parametrize("what", ["identity", "resource"])
async def test_an_invalid_id_of_a_client_is_a_400(site: Site, what: str, bad: str) -> None:
    if what == "resource" and bad.startswith("$"):
        bad = "_default_"
    chosen: dict[str, Any] = {"identity": site.identity("ann"), what: site.identity(bad)}
    got = await site.ask(**chosen)
    assert (got.status, got.fields["content-type"]) == (400, "application/problem+json")
    document = json.loads(got.body)
    assert (document["title"], document["status"], document["instance"]) == ("Bad Request", 400, "/")
    assert not bad.strip() or bad not in document["detail"]
    assert "ratelimit" not in got.fields


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"cost": {"no such": 1}}, "no such"),
        ({"cost": {"tpm": 1}, "limits": [Limit.per_day("rpm", 1)]}, "tpm"),
        ({"cost": {"rpm": -1}}, "rpm"),
        ({"identity": None}, "entity_id"),
        ({"identity": 5}, "entity_id"),
    ],
)
async def test_a_mistake_of_the_programmer_stays_loud(site: Site, more: dict[str, Any], message: str) -> None:
    asked = {"identity": site.identity("ann"), **more}
    if "identity" in more:
        asked["identity"] = site.identity(more["identity"])
    with pytest.raises(ValidationError, match=message):
        await site.ask(**asked)


async def test_a_constant_that_no_id_can_be_is_refused_at_once(site: Site) -> None:
    with pytest.raises(InvalidIdentifierError, match="resource"):
        await site.ask(site.identity("ann"), resource="my api")
    with pytest.raises(ValidationError, match="show 'some': must be one of"):
        await site.ask(site.identity("ann"), show="some")


async def test_an_invalid_id_inside_the_application_is_no_400(site: Site) -> None:
    def fault() -> Any:
        raise InvalidIdentifierError("entity_id", "a b", "is a mistake of the application")

    with pytest.raises(InvalidIdentifierError, match="a mistake of the application"):
        await site.ask(site.identity("ann"), cost=fault if site.kind in ("fastapi", "flask") else lambda _: fault())


CHAINS: list[tuple[str, list[tuple[str, str]], str]] = [
    ("203.0.113.9", [("X-Forwarded-For", "198.51.100.7"), ("Forwarded", "for=198.51.100.8")], "203.0.113.9"),
    ("10.0.0.1", [("X-Forwarded-For", "198.51.100.7")], "198.51.100.7"),
    ("::ffff:10.0.0.1", [("X-Forwarded-For", "6.6.6.6, 198.51.100.7, 10.9.9.9")], "198.51.100.7"),
    ("10.0.0.1", [("X-Forwarded-For", "6.6.6.6"), ("X-Forwarded-For", "2001:db8:1:2:3::4")], "2001:db8:1:2::/64"),
    ("10.0.0.1", [("Forwarded", 'for="6'), ("Forwarded", 'for="[2001:db8:1:2::9]:4711"')], "2001:db8:1:2::/64"),
    ("", [("X-Forwarded-For", "198.51.100.7")], "unknown"),
]


@pytest.mark.parametrize(("peer", "fields", "client"), CHAINS)
async def test_the_client_is_the_same_in_every_framework(
    site: Site, peer: str, fields: list[tuple[str, str]], client: str
) -> None:
    identity = site.module.client_address(trusted_proxies=["10.0.0.0/8"])
    assert (await site.ask(identity, fields, peer=peer)).status == 200
    assert await site.call("available", client, "api") == {"rpm": 9}


def test_the_error_of_a_client_is_pickled() -> None:
    error = InvalidClientId("entity_id", "a b", "is bad")
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


KEY = ("Idempotency-Key", '"order-77"')


async def test_a_retried_request_counts_once_where_the_application_asks_for_it(site: Site) -> None:
    asked = {"identity": site.identity("user"), "idempotency_key": site.module.retry_key}
    for fields in ([KEY], [KEY], [KEY], [], []):
        assert (await site.ask(asked["identity"], fields, idempotency_key=asked["idempotency_key"])).status == 200
    assert await site.call("available", "user", "api") == {"rpm": 7}
    for _ in range(2):
        assert (await site.ask(asked["identity"], [KEY])).status == 200  # by itself it reads no key
    assert await site.call("available", "user", "api") == {"rpm": 5}


async def test_a_key_of_another_cost_is_a_422_that_shows_no_key(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    key = site.module.retry_key
    await site.ask(site.identity("user"), [KEY], idempotency_key=key)
    got = await site.ask(site.identity("user"), [KEY], cost={"rpm": 2}, idempotency_key=key)
    assert got.status == 422
    assert json.loads(got.body)["detail"].startswith("The Idempotency-Key was used for a request of another size")
    assert "order-77" not in f"{got}{caplog.text}"
    assert await site.call("available", "user", "api") == {"rpm": 9}


@pytest.mark.parametrize("field", ["", "x" * 256, "a\tb", "\u00e9"])
async def test_a_bad_key_is_a_400_and_takes_nothing(site: Site, field: str) -> None:
    got = await site.ask(site.identity("user"), [("Idempotency-Key", field)], idempotency_key=site.module.retry_key)
    assert got.status == 400
    assert (await site.ask(site.identity("user"))).fields["ratelimit"].startswith('"rpm";r=9')


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        ([("Content-Length", "7")], [("Content-Length", "7")], 9),
        ([("Content-Length", "7")], [("Content-Length", "8")], 8),
        ([("Content-Length", "7")], [], 8),
        ([("Content-Digest", "sha-256=:YQ==:")], [("Content-Digest", "sha-256=:YQ==:")], 9),
        ([("Content-Digest", "sha-256=:YQ==:")], [("Content-Digest", "sha-256=:Yg==:")], 8),
        ([("Content-Length", "7")], [("Content-Digest", "7")], 8),
    ],
)
async def test_a_key_is_of_the_body_as_far_as_the_header_says(
    site: Site, first: list[tuple[str, str]], second: list[tuple[str, str]], left: int
) -> None:
    for fields in (first, second):
        got = await site.ask(site.identity("user"), [KEY, *fields], idempotency_key=site.module.retry_key, key_life=60)
        assert got.status == 200
    assert await site.call("available", "user", "api") == {"rpm": left}


@pytest.mark.parametrize(
    ("life", "keyed", "says"), [(0, True, r"^key_life 0"), (60, False, r"^key_life 60: needs a key")]
)
async def test_a_bad_life_of_a_key_is_an_error_at_setup(site: Site, life: int, *, keyed: bool, says: str) -> None:
    own: Any = {"idempotency_key": site.module.retry_key} if keyed else {}
    with pytest.raises(ValidationError, match=says):
        await site.ask(site.identity("user"), [KEY], key_life=life, **own)


async def test_users_of_one_key_have_each_their_own(site: Site) -> None:
    for user in ("ann", "bob", "ann"):
        await site.ask(site.identity(user), [KEY], idempotency_key=site.module.retry_key)
    for user in ("ann", "bob"):
        assert await site.call("available", user, "api") == {"rpm": 9}


def test_a_key_that_all_requests_would_share_is_an_error_at_setup(site: Site) -> None:
    with pytest.raises(ValidationError, match=r"^idempotency_key 'order-77': must be a function of the call"):
        Rule(type(site.limiter), site.limiter, "user", "api", COST, (), "never", {}, "order-77")


def test_a_key_is_of_one_target_and_is_stored_as_a_hash() -> None:
    keys = [key_of_request(method, target, ["k"]) for method in ("GET", "POST") for target in ("/", "/a", "/a?b=1")]
    assert len({*keys}) == len(keys)
    assert all(key is not None and len(key) == 64 and key.isalnum() for key in keys)
    assert key_of_request("GET", "/", []) is None
    with pytest.raises(InvalidClientId):
        key_of_request("GET", "/", ["a", "a"])
