"""Calls of LiteLLM's proxy whose answers come later (`background`), and what a request only names."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("litellm", reason="litellm is not installed: `just test-llm newest` has it")
from fastapi import HTTPException

from support.core.llm.provider import USED, Provider, providing
from support.core.llm.proxy import HOOKS, Proxy, proxying
from zae_limiter import Limit, RateLimiter, Repository
from zae_limiter.integrations.litellm import RateLimits
from zae_limiter.integrations.tokens import estimate

pytestmark = pytest.mark.slow
WHOLE = 1000
REQUEST: Any = {"model": "plain", "input": "x" * 40, "max_output_tokens": 100}
BACKGROUND: Any = {**REQUEST, "background": True}
STREAM: Any = {**BACKGROUND, "stream": True}
ESTIMATE = estimate(BACKGROUND)
NAMED = HOOKS.replace("RateLimits(limiter,", "RateLimits(limiter, fields=['background'],")
MOST = 100_000


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with providing() as provider:
        yield provider


@pytest.fixture
def key(provider: Provider) -> str:
    provider.asked.clear()
    return f"sk-{uuid4().hex}"


@pytest.fixture(scope="module")
def proxy(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    """A proxy whose owner has named nothing."""
    with proxying(provider.url, tmp_path_factory.mktemp("proxy")) as proxy:
        yield proxy


@pytest.mark.parametrize(
    "named",
    [
        {"background": True},
        {"previous_response_id": "resp_1"},
        {"conversation": "conv_1"},
        {"prompt": {"id": "pmpt_1"}},
        {"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "file-1"}]}]},
    ],
)
def test_what_a_request_only_names_is_refused_by_default(
    proxy: Proxy, provider: Provider, key: str, named: dict[str, Any]
) -> None:
    status, _, body = proxy.post(key, {**REQUEST, **named}, "/v1/responses")
    assert (status, provider.asked) == (400, []), body
    assert b"cannot see what that stands for" in body
    assert proxy.left(key) == WHOLE


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/realtime/client_secrets", {"model": "plain"}),
        ("/v1/realtime/client_secrets", {"session": {"model": "plain", "type": "realtime"}}),
        ("/v1/realtime/transcription_sessions", {"model": "plain"}),
        ("/v1/batches", {"model": "plain", "input_file_id": "f", "endpoint": "/v1/chat/completions"}),
        ("/v1/fine_tuning/jobs", {"model": "plain", "training_file": "f"}),
        ("/v1/containers", {"name": "x"}),
        ("/interactions", {"model": "plain", "input": "x", "background": True}),
        ("/v1/evals", {"model": "plain"}),
        ("/v1/threads/t/runs", {"model": "plain"}),
        ("/queue/chat/completions", {"model": "plain", "messages": [], "priority": 1}),
    ],
)
def test_no_other_asynchronous_form_reaches_the_provider(
    proxy: Proxy, provider: Provider, key: str, path: str, body: dict[str, Any]
) -> None:
    status, _, answer = proxy.post(key, body, path)
    assert (status >= 400, provider.asked) == (True, []), answer


def test_a_call_in_the_background_is_settled_once_when_its_answer_is_fetched(
    provider: Provider, key: str, tmp_path: Path
) -> None:
    if version("litellm") == "1.80.0":
        pytest.skip("this release tells of no call that reads an answer, so that each is refused")
    with proxying(provider.url, tmp_path, NAMED) as proxy:
        status, _, body = proxy.post(key, BACKGROUND, "/v1/responses")
        place = f"/v1/responses/{json.loads(body)['id']}"
        assert (status, proxy.left(key)) == (200, WHOLE - ESTIMATE)
        assert json.loads(proxy.get(key, place)[2])["status"] == "queued"
        assert proxy.left(key) == WHOLE - ESTIMATE
        for reader in (f"{key}-other", key):
            assert json.loads(proxy.get(reader, place)[2])["status"] == "completed"
            assert (proxy.left(key), proxy.left(f"{key}-other")) == (WHOLE - USED, WHOLE)
    (tmp_path / "again").mkdir()
    with proxying(provider.url, tmp_path / "again", NAMED) as proxy:
        status, _, body = proxy.get(key, place)
        assert (status, b"no longer knows" in body) == (410, True), body


class Hooks:
    """The callback, asked by its hooks, with a balance of its own."""

    def __init__(self, **options: Any) -> None:
        slots = [Limit.concurrent("parallel", 2, expires=60)] if "slots" in options else []
        daily = Limit("tpm", MOST, MOST, 1, 86_400)
        self.limiter = RateLimiter(Repository.in_memory(), default_limits=[daily, *slots])
        self.limits = RateLimits(
            self.limiter, identity=str, resource=lambda data: "m", requests=None, fields=["background"], **options
        )

    async def begin(self, **more: Any) -> dict[str, Any]:
        call = {**BACKGROUND, **more}
        await self.limits.async_pre_call_hook("ann", None, call, "aresponses")
        return call

    async def answer(self, call: dict[str, Any], **answer: Any) -> None:
        await self.limits.async_post_call_success_hook(call, "ann", {"id": "resp_1", **answer})

    async def left(self) -> dict[str, int]:
        return dict(await self.limiter.available("ann", "m"))


@pytest.mark.parametrize("said", [{"background": True}, {}], ids=["said", "unsaid"])
async def test_a_provider_that_does_not_say_it_again_is_settled_too(said: dict[str, bool]) -> None:
    hooks = Hooks()
    await hooks.answer(await hooks.begin(), status="queued", usage=None, **said)
    await hooks.answer({"response_id": "resp_1"}, status="in_progress", usage=None, **said)
    assert await hooks.left() == {"tpm": MOST - ESTIMATE}
    for _ in range(2):
        await hooks.answer({"response_id": "resp_1"}, status="completed", usage={"total_tokens": 90_000}, **said)
        assert await hooks.left() == {"tpm": MOST - 90_000}


async def test_two_that_fetch_at_the_same_time_settle_once() -> None:
    hooks = Hooks()
    await hooks.answer(await hooks.begin(), status="queued", background=True)
    fetched = [hooks.answer({}, status="completed", usage={"total_tokens": 500}) for _ in range(5)]
    await asyncio.gather(*fetched)
    assert await hooks.left() == {"tpm": MOST - 500}


async def test_an_answer_that_failed_keeps_the_estimate() -> None:
    hooks = Hooks(refund="before_answer")
    await hooks.answer(await hooks.begin(), status="queued", background=True)
    await hooks.answer({}, status="failed", background=True, usage=None)
    assert await hooks.left() == {"tpm": MOST - ESTIMATE}


async def test_a_call_in_the_background_holds_no_slot() -> None:
    hooks = Hooks(slots="parallel")
    call = await hooks.begin()
    assert (await hooks.left())["parallel"] == 1
    await hooks.answer(call, status="queued", background=True)
    assert await hooks.left() == {"tpm": MOST - ESTIMATE, "parallel": 2}
    await hooks.answer({}, status="completed", background=True, usage={"total_tokens": 500})
    assert await hooks.left() == {"tpm": MOST - 500, "parallel": 2}


async def test_calls_whose_answers_nobody_fetches_are_forgotten_with_their_estimates(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("zae_limiter.integrations.leases.MAX_OPEN", 3)
    hooks = Hooks()
    for number in range(5):
        await hooks.answer(await hooks.begin(), id=f"resp_{number}", status="queued", background=True)
    with pytest.raises(HTTPException) as gone:
        await hooks.answer({}, id="resp_0", status="completed", background=True, usage={"total_tokens": 9})
    assert gone.value.status_code == 410
    await hooks.answer({}, id="resp_4", status="completed", background=True, usage={"total_tokens": 9})
    assert await hooks.left() == {"tpm": MOST - 4 * ESTIMATE - 9}


async def test_an_earlier_answer_that_was_no_call_in_the_background_is_free_to_read() -> None:
    hooks = Hooks()
    await hooks.answer({"response_id": "resp_1"}, status="completed", background=False, usage={"total_tokens": 9})
    assert await hooks.left() == {"tpm": MOST}


@pytest.mark.parametrize("seen", [1, 2, 3])
async def test_a_stream_that_is_left_goes_on_in_the_background(seen: int) -> None:
    hooks = Hooks()
    call = await hooks.begin(stream=True)

    async def answer() -> AsyncIterator[Any]:
        going_on = SimpleNamespace(id="resp_1", status="in_progress", background=True, usage=None)
        yield SimpleNamespace(type="response.created", response=going_on)
        yield SimpleNamespace(type="response.output_text.delta", delta="x" * 4000)
        usage = {"input_tokens": 10, "output_tokens": 5000, "total_tokens": 5010}
        whole = SimpleNamespace(id="resp_1", status="completed", background=True, usage=usage)
        yield SimpleNamespace(type="response.completed", response=whole)

    stream = hooks.limits.async_post_call_streaming_iterator_hook("ann", answer(), call)
    for _ in range(seen):
        await anext(stream)
    await stream.aclose()
    assert await hooks.left() == {"tpm": MOST - (5010 if seen == 3 else estimate(STREAM))}
    for _ in range(2):
        await hooks.answer({}, status="completed", background=True, usage={"total_tokens": 5010})
        assert await hooks.left() == {"tpm": MOST - 5010}


async def test_what_came_of_a_stream_counts_when_nobody_fetches_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zae_limiter.integrations.leases.MAX_OPEN", 1)
    hooks = Hooks()

    async def answer() -> AsyncIterator[Any]:
        yield SimpleNamespace(response=SimpleNamespace(id="resp_1", status="in_progress", usage=None))
        yield SimpleNamespace(delta="x" * 4000)
        yield SimpleNamespace(delta="never seen")

    stream = hooks.limits.async_post_call_streaming_iterator_hook("ann", answer(), await hooks.begin(stream=True))
    await anext(stream)
    await anext(stream)
    await stream.aclose()
    await hooks.answer(await hooks.begin(), id="resp_2", status="queued")
    await asyncio.sleep(0)
    await asyncio.gather(*hooks.limits._ending)
    came = MOST - ESTIMATE - (await hooks.left())["tpm"]
    assert 1000 < came < 1000 + ESTIMATE  # with what the request has itself


async def test_a_call_in_the_background_that_is_answered_at_once_may_be_fetched_again() -> None:
    hooks = Hooks()
    await hooks.answer(await hooks.begin(), status="completed", background=True, usage={"total_tokens": 500})
    await hooks.answer({}, status="completed", background=True, usage={"total_tokens": 500})
    assert await hooks.left() == {"tpm": MOST - 500}
