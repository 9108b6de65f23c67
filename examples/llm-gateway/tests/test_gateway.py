import asyncio
import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

import gateway
import provider
from set_up import set_up
from zae_limiter import Limit, Repository
from zae_limiter.testing import ManualClock
from zae_limiter_cli.main import main

pytestmark = pytest.mark.anyio
HERE = Path(__file__).parent
PROVIDER = httpx.ASGITransport(provider.app)
HELLO = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hello?"}]}
FULL = {"rpm": 60, "tpm": 100_000, "streams": 3}
COSTS, DAY = 191, 50_000_000  # micro-dollars: of 10 tokens in and 20 out, and of a day
FAST = [Limit.custom("rpm", 1, refill_amount=20, refill_period=1), "tpm: 50k/min"]  # the next call comes in 50 ms


class Served(httpx.AsyncClient):
    """A client of the gateway in this process."""

    def __init__(self, state: gateway.State) -> None:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await gateway.app({**scope, "state": dict(state)}, receive, send)

        super().__init__(base_url="http://gateway", transport=httpx.ASGITransport(app))
        self.app, self.limiter = app, state["limiter"]
        self.repository = self.limiter.repository

    async def ask(self, key: str = "sk-ann", **more: object) -> httpx.Response:
        return await self.post("/v1/chat/completions", json=HELLO | more, headers={"Authorization": f"Bearer {key}"})

    async def left(self, entity: str, resource: str = "gpt-5") -> dict[str, int]:
        return await self.limiter.available(entity, resource)

    async def counted(self, name: str, **labels: str) -> float:
        lines = [line for line in (await self.get("/metrics")).text.splitlines() if line.startswith(f"{name}_total")]
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(float(line.split()[-1]) for line in lines if all(each in line for each in wanted))


@asynccontextmanager
async def opened(patch: pytest.MonkeyPatch, transport: httpx.AsyncBaseTransport = PROVIDER) -> AsyncIterator[Served]:
    client = httpx.AsyncClient(base_url="http://provider/v1", transport=transport)
    patch.setattr(gateway, "provider_client", lambda: client)
    async with gateway.lifespan(gateway.app) as state, Served(state) as found:
        yield found


@pytest.fixture
def still(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """The gateway runs in memory, where nothing refills."""
    repository = Repository.in_memory("gateway", clock=ManualClock())
    monkeypatch.setenv("GATEWAY_IN_MEMORY", "1")
    monkeypatch.setattr(gateway.Repository, "in_memory", lambda _: repository)
    return monkeypatch


@pytest.fixture
async def served(still: pytest.MonkeyPatch) -> AsyncIterator[Served]:
    async with opened(still) as found:
        yield found


def error(answer: httpx.Response) -> tuple[int, str, str | None]:
    found = answer.json()["error"]
    assert found["message"]
    assert "acme" not in answer.text
    return answer.status_code, found["type"], found["code"]


async def test_a_wrong_key_is_401(served: Served) -> None:
    assert error(await served.ask("sk-nobody")) == (401, "invalid_request_error", None)


async def test_a_call_charges_key_team_organisation_and_budget(served: Served) -> None:
    answer = await served.ask()
    assert answer.json()["choices"][0]["message"]["content"] == "Hello."
    assert '"rpm";r=59' in answer.headers["ratelimit"]
    assert await served.left("key-ann") == FULL | {"rpm": 59, "tpm": 99_970}
    assert await served.left("search") == {"rpm": 199, "tpm": 999_970}
    assert await served.left("acme") == {"rpm": 499, "tpm": 1_999_970}
    assert await served.left("acme", "budget") == {"usd": DAY - COSTS}


async def test_a_stream_settles_by_its_last_event(served: Served) -> None:
    answer = await served.ask(stream=True)
    assert "".join(re.findall(r'"content": "(.*?)"', answer.text)) == "Hello."
    assert answer.text.endswith("data: [DONE]\n\n")
    assert await served.left("key-ann") == FULL | {"rpm": 59, "tpm": 99_970}
    assert await served.left("acme", "budget") == {"usd": DAY - COSTS}


async def test_a_provider_that_fails_costs_a_request_alone(served: Served) -> None:
    assert (await served.ask(user="unlucky")).status_code == 503
    assert await served.left("key-ann") == FULL | {"rpm": 59}
    assert await served.left("acme", "budget") == {"usd": DAY}


async def test_a_provider_that_is_away_is_502(still: pytest.MonkeyPatch) -> None:
    def away(_: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    async with opened(still, httpx.MockTransport(away)) as served:
        assert error(await served.ask()) == (502, "server_error", None)
        assert await served.left("acme", "budget") == {"usd": DAY}


async def test_a_refusal_has_the_shape_of_openai(served: Served) -> None:
    answers = [await served.ask() for _ in range(61)]
    assert {each.status_code for each in answers[:60]} == {200}
    assert error(answers[60]) == (429, "requests", "rate_limit_exceeded")
    assert answers[60].headers["retry-after"] == "1"
    assert answers[60].headers["x-ratelimit-remaining-requests"] == "0"


async def test_too_many_tokens_are_named(served: Served) -> None:
    answer = await served.ask(messages=[{"role": "user", "content": "x" * 400_000}])
    assert error(answer) == (429, "tokens", "rate_limit_exceeded")
    assert "retry-after" not in answer.headers
    assert answer.headers["x-should-retry"] == "false"  # it can never pass


async def test_a_spent_budget_is_not_to_be_repeated(served: Served) -> None:
    await served.repository.set_limits("acme", ["usd: $0.0047/day Europe/Berlin"], "budget")
    assert (await served.ask()).status_code == 200
    answer = await served.ask("sk-bob")
    assert error(answer) == (429, "insufficient_quota", "insufficient_quota")
    assert answer.headers["x-should-retry"] == "false"
    assert await served.left("key-bob") == FULL  # all or none


async def test_a_call_above_the_whole_budget_says_so(served: Served) -> None:
    await served.repository.set_limits("acme", ["usd: $0.001/day Europe/Berlin"], "budget")
    answer = await served.ask()
    assert error(answer) == (429, "insufficient_quota", "insufficient_quota")
    assert answer.json()["error"]["message"] == "Request Can Never Pass: usd: not enough left."


async def test_streams_at_once_are_bounded(served: Served) -> None:
    async with served.limiter.acquire("key-ann", "gpt-5", {"streams": 3}):
        assert error(await served.ask(stream=True)) == (429, "requests", "rate_limit_exceeded")
        assert (await served.ask()).status_code == 200


async def test_a_tier_waits_where_others_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_IN_MEMORY", "1")
    async with opened(monkeypatch) as served:
        await served.repository.set_tier_limits("batch", FAST)
        await served.repository.set_limits("key-ann", FAST)
        nightly = await asyncio.gather(*(served.ask("sk-nightly") for _ in range(4)))
        ann = await asyncio.gather(*(served.ask("sk-ann") for _ in range(4)))
    assert {each.status_code for each in nightly} == {200}
    assert 429 in {each.status_code for each in ann}


async def test_a_disabled_team_is_403(served: Served) -> None:
    await served.repository.set_switches("search", disabled=True)
    assert error(await served.ask()) == (403, "invalid_request_error", "access_disabled")


async def test_metrics_count_calls_refusals_and_tokens(served: Served) -> None:
    tokens = await served.counted("gateway_tokens", model="gpt-5")
    refused = await served.counted("gateway_refusals", limit="rpm")
    for _ in range(61):
        await served.ask("sk-bob")
    assert await served.counted("gateway_tokens", model="gpt-5") == tokens + 60 * 30
    assert await served.counted("gateway_refusals", limit="rpm") == refused + 1


class Hanging(httpx.AsyncByteStream):
    """A stream of one event, and then nothing."""

    closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b'data: {"choices": [{"delta": {"content": "Hel"}}]}\n\n'
        await asyncio.Event().wait()

    async def aclose(self) -> None:
        self.closed = True


async def test_a_client_that_leaves_frees_its_stream(still: pytest.MonkeyPatch) -> None:
    stream, seen = Hanging(), asyncio.Event()
    messages = [{"type": "http.request", "body": json.dumps(HELLO | {"stream": True}).encode(), "more_body": False}]
    fields = [(b"authorization", b"Bearer sk-ann"), (b"content-type", b"application/json")]
    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "query_string": b"", "headers": fields}

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await seen.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message.get("body"):
            assert (await served.left("key-ann"))["streams"] == 2
            seen.set()

    async with opened(still, httpx.MockTransport(lambda _: httpx.Response(200, stream=stream))) as served:
        await asyncio.wait_for(served.app(scope, receive, send), 20)
        assert stream.closed
        left = await served.left("key-ann")
    assert (left["rpm"], left["streams"]) == (59, 3)
    assert left["tpm"] < 99_500  # the estimate stays


def cli(store: Path, *arguments: str) -> str:
    done = CliRunner().invoke(main, arguments, env={"ZAEL_STORE": f"sqlite:///{store}"})
    assert done.exit_code == 0, done.output
    return done.stdout


async def test_the_trial_sets_what_the_manifest_declares(tmp_path: Path) -> None:
    declared, tried = tmp_path / "declared.db", tmp_path / "tried.db"
    cli(declared, "limits", "apply", "-f", str(HERE.parent / "limits.yaml"), "--yes")
    async with await Repository.sqlite(tried, "gateway") as repository:
        await set_up(repository)
    assert cli(declared, "limits", "export", "-N", "gateway") == cli(tried, "limits", "export", "-N", "gateway")


async def test_a_file_keeps_the_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = tmp_path / "gateway.db"
    cli(store, "limits", "apply", "-f", str(HERE.parent / "limits.yaml"), "--yes")
    monkeypatch.setenv("ZAEL_STORE", f"sqlite:///{store}")
    for calls in (1, 2):
        async with opened(monkeypatch) as served:
            assert (await served.ask()).status_code == 200
            assert await served.left("acme", "budget") == {"usd": DAY - calls * COSTS}


async def test_a_store_that_is_away_stops_no_call(monkeypatch: pytest.MonkeyPatch) -> None:
    away = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_REGION": "eu-central-1"}
    keys = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"}
    for name, value in (away | keys).items():
        monkeypatch.setenv(name, value)
    async with opened(monkeypatch) as served:
        answer = await served.ask()
        assert (answer.status_code, "ratelimit" in answer.headers) == (200, False)
        assert await served.counted("gateway_acquires", outcome="degraded") >= 1
