"""The header fields and documents of plain ASGI's answers."""

import json

import pytest

from support.core.web.asgi_world import BODY, START, World, away, hello
from zae_limiter import Limit, RateLimiter, RateLimiterUnavailable
from zae_limiter.integrations.answers import Answers
from zae_limiter.integrations.asgi import Receive, Scope, Send, lease_of

pytest_plugins = ["zae_limiter.testing.plugin"]


@pytest.fixture
def world(limiter: RateLimiter) -> World:
    return World(limiter)


async def test_an_answer_keeps_its_own_fields_and_gets_more(world: World) -> None:
    await world.ask(hello)
    assert world.sent[0]["headers"] == [
        (b"x-own", b"1"),
        (b"ratelimit-policy", b'"rpm";q=10;w=60'),
        (b"ratelimit", b'"rpm";r=9;t=6'),
    ]
    assert world.sent[1] == BODY


async def test_the_fields_replace_those_of_the_application_that_have_the_same_name(world: World) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await send({**START, "headers": [(b"RateLimit", b'"up";r=1'), (b"Retry-After", b"3"), (b"ratelimit", b"2")]})

    await world.ask(app)
    assert world.sent[0]["headers"] == [
        (b"Retry-After", b"3"),
        (b"ratelimit-policy", b'"rpm";q=10;w=60'),
        (b"ratelimit", b'"rpm";r=9;t=6'),
    ]


async def test_the_fields_are_those_of_the_drafts_examples(world: World) -> None:
    burst, daily = Limit.per_minute("burst", 100), Limit.per_day("daily", 1000)
    await world.ask(hello, cost={"burst": 1, "daily": 1}, limits=[burst, daily], resource="two")
    assert dict(world.sent[0]["headers"])[b"ratelimit-policy"] == b'"burst";q=100;w=60, "daily";q=1000;w=86400'
    default = Limit.custom("default", 100, refill_amount=2)
    await world.ask(hello, cost={"default": 50}, limits=[default], resource="one")
    assert dict(world.sent[0]["headers"])[b"ratelimit"] == b'"default";r=50;t=30'


async def test_an_outage_lets_through_without_fields_where_the_policy_allows() -> None:
    limiter, store = await away()
    store.away = True
    world = World(limiter)
    await world.ask(hello, on_unavailable="allow")
    assert world.sent[0]["headers"] == START["headers"]


@pytest.mark.parametrize(
    ("path", "instance"),
    [
        ("/answers/1", "/answers/1"),
        ("//evil.example/x", "/evil.example/x"),
        ("/a\r\nb c?#%", "/a%0D%0Ab%20c%3F%23%25"),
        ("/\ufffd\udcff", "/%EF%BF%BD%3F"),
        ("", "/"),
    ],
)
def test_the_instance_of_a_document_is_a_uri_reference_on_this_server(path: str, instance: str) -> None:
    answer = Answers().to(RateLimiterUnavailable("away"), path)
    assert json.loads(answer.body)["instance"] == instance


async def test_a_request_that_a_shadow_limit_would_have_refused_passes_without_fields(world: World) -> None:
    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        lease = lease_of(scope)
        seen.append([status.limit_name for status in lease.shadowed])
        await send(dict(START))
        await send(dict(BODY))

    seen: list[list[str]] = []
    for _ in range(2):
        await world.ask(app, limits=[Limit.per_minute("rpm", 1, shadow=True)])
        assert world.sent[0]["status"] == 200
        assert not [name for name, _ in world.sent[0]["headers"] if name.lower().startswith(b"ratelimit")]
    assert seen == [[], ["rpm"]]
