"""LiteLLM's proxy, served by its own command, with our callback, asked by clients over a socket."""

import asyncio
import json
import re
import sys
import time
from collections.abc import AsyncIterator, Iterator
from importlib.metadata import version
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("litellm", reason="litellm is not installed: `just test-llm newest` has it")
import anthropic
import openai
from fastapi import HTTPException
from litellm.integrations.custom_logger import CustomLogger
from litellm.proxy._types import ProxyException
from litellm.types.utils import ModelResponseStream

from support.core.llm.provider import USED, Provider, providing
from support.core.llm.proxy import HOOKS, Proxy, proxying
from zae_limiter import Limit, RateLimiter, Repository, ValidationError
from zae_limiter.integrations.litellm import RateLimits, key_of
from zae_limiter.integrations.tokens import estimate, floor

pytestmark = pytest.mark.slow
WHOLE = 1000
ASKED: Any = [{"role": "user", "content": "x" * 40}]


def estimated(model: str = "plain", max_tokens: int = 100, **options: Any) -> int:
    return estimate({"model": model, "messages": ASKED, "max_tokens": max_tokens, **options})


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with providing() as provider:
        yield provider


@pytest.fixture(scope="module")
def proxy(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    with proxying(provider.url, tmp_path_factory.mktemp("proxy")) as proxy:
        yield proxy


@pytest.fixture
def key(provider: Provider) -> str:
    provider.asked.clear()
    return f"sk-{uuid4().hex}"


@pytest.fixture
def client(proxy: Proxy, key: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{proxy.url}/v1", api_key=key, max_retries=0) as client:
        yield client


def call(client: Any, model: str = "plain", **options: Any) -> Any:
    return client.chat.completions.create(model=model, messages=ASKED, max_tokens=100, **options)


def test_an_answer_is_settled_by_its_usage(proxy: Proxy, provider: Provider, client: openai.OpenAI, key: str) -> None:
    assert call(client).choices[0].message.content == "one two three "
    assert proxy.left(key) == WHOLE - USED
    assert len(provider.asked) == 1
    assert "zae_limiter" not in json.dumps(provider.asked)


def test_an_answer_has_the_header_fields_where_litellm_lets_a_callback_add_them(proxy: Proxy, key: str) -> None:
    asks = hasattr(CustomLogger, "async_post_call_response_headers_hook")
    for stream in (False, True):
        _, headers, _ = proxy.post(key, {"model": "plain", "messages": ASKED, "max_tokens": 100, "stream": stream})
        assert ("ratelimit" in headers) == asks
    if asks:
        assert headers["ratelimit"].startswith('"rpm";r=3;t=17')


def test_tokens_are_taken_while_the_provider_answers(proxy: Proxy, client: openai.OpenAI, key: str) -> None:
    async def main() -> int:
        slow = asyncio.create_task(asyncio.to_thread(call, client, "slow"))
        await asyncio.sleep(0.5)
        meanwhile = await asyncio.to_thread(proxy.left, key, "slow")
        await slow
        return meanwhile

    assert asyncio.run(main()) == WHOLE - estimated("slow")
    assert proxy.left(key, "slow") == WHOLE - USED


def test_a_refusal_is_a_429_and_no_request_goes_out(
    proxy: Proxy, provider: Provider, client: openai.OpenAI, key: str
) -> None:
    for _ in range(5):
        call(client)
    with pytest.raises(openai.RateLimitError, match="rpm: 1 requested, 0 available") as refused:
        call(client)
    headers = refused.value.response.headers
    assert len(provider.asked) == 5
    assert 0 < int(headers["retry-after"]) <= 17280
    assert headers["ratelimit-policy"] == '"rpm";q=5;w=86400, "tpm";q=1000;qu="tokens";w=86400'
    assert key not in refused.value.response.text


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages"]
)
def test_a_refusal_has_its_fields_on_every_path_that_passes_them_on(proxy: Proxy, key: str, path: str) -> None:
    texts = {"messages": ASKED, "prompt": "x", "input": "x" * 5000}
    body = {"model": "plain", **texts, "max_tokens": 1001, "max_output_tokens": 1001}
    status, headers, _ = proxy.post(key, body, path)
    dropped = version("litellm") == "1.80.0" and path in {"/v1/completions", "/v1/messages"}
    assert (status, headers.get("ratelimit")) == (429, None if dropped else '"tpm";r=1000')


@pytest.mark.parametrize(
    "path", ["/v1/images/generations", "/v1/audio/speech", "/v1/rerank", "/v1/moderations", "/v1/responses/compact"]
)
def test_the_sound_requests_of_an_api_reach_the_limits(proxy: Proxy, provider: Provider, key: str, path: str) -> None:
    texts = {"prompt": "x", "input": "x" * 5000, "query": "x", "documents": ["x"], "voice": "alloy"}
    status, _, body = proxy.post(key, {"model": "plain", **texts}, path)
    if path.endswith("compact") and status == 405:
        pytest.skip("this release has no such path")
    assert (status, provider.asked) == (429, []), body


@pytest.mark.parametrize(
    "named",
    [
        {"fallbacks": ["plain"]},
        {"fallbacks": [{"model": "plain", "messages": ASKED}]},
        {"context_window_fallbacks": [{"broken": [{"model": "plain"}]}]},
        {"content_policy_fallbacks": [{"*": ["plain"]}]},
        {"router_settings_override": {"fallbacks": [{"broken": ["plain"]}]}},
        {"extra_body": {"model": "plain"}},
        {"user_config": {"model_list": []}},
        {"num_retries": 20},
        {"model_info": {"id": "1"}},
        {"specific_deployment": True},
        {"mock_testing_fallbacks": True},
        {"prompt_id": "p"},
        {"litellm_params": {"model": "plain"}},
        {"unheard_of": {"fallbacks": {"x": {"model": "plain"}}}},
        {"model": "broken,plain"},
        {"model": "nobody-knows"},
    ],
)
def test_a_client_names_no_model_beside_the_one_whose_limits_count(
    proxy: Proxy, provider: Provider, key: str, named: dict[str, Any]
) -> None:
    status, _, body = proxy.post(key, {"model": "broken", "messages": ASKED, **named})
    refused_by_litellm = status == 500 and "user_config" in named  # newer releases fail on it by themselves
    assert (status == 400 or refused_by_litellm, provider.asked) == (True, []), body
    assert refused_by_litellm or next(iter(named)).encode() in body
    assert proxy.left(key, "plain") == proxy.left(key, "broken") == WHOLE


@pytest.mark.parametrize("options", [{"include_usage": True}, {"include_usage": False}, None])
def test_a_stream_is_settled_by_its_last_part(
    proxy: Proxy, client: openai.OpenAI, key: str, options: dict[str, bool] | None
) -> None:
    extra: Any = {} if options is None else {"stream_options": options}
    parts = list(call(client, stream=True, **extra))
    assert "".join(part.choices[0].delta.content or "" for part in parts if part.choices) == "one two three "
    left = proxy.left(key)
    assert left == WHOLE - USED or (
        options != {"include_usage": True} and left == WHOLE - estimated(stream=True, **extra)
    )


def test_a_stream_without_usage_is_counted(proxy: Proxy, client: openai.OpenAI, key: str) -> None:
    list(call(client, "silent", stream=True))
    assert WHOLE - estimated("silent", stream=True) <= proxy.left(key, "silent") < WHOLE


@pytest.mark.parametrize(("longest", "parts"), [(100, 3), (1, 60)])
def test_a_client_that_leaves_a_stream_has_used_its_estimate_at_least(
    proxy: Proxy, client: openai.OpenAI, key: str, longest: int, parts: int
) -> None:
    asked: Any = {"model": "endless", "messages": ASKED, "max_tokens": longest, "stream": True}
    with client.chat.completions.create(**asked) as stream:
        for _ in range(parts):
            next(stream)
    time.sleep(1)
    used = WHOLE - proxy.left(key, "endless")
    assert estimated("endless", longest, stream=True) <= used < WHOLE  # the proxy may have read on meanwhile


@pytest.mark.parametrize(("model", "kind"), [("broken", openai.InternalServerError), ("busy", openai.RateLimitError)])
def test_a_call_that_fails_keeps_its_estimate(
    proxy: Proxy, client: openai.OpenAI, key: str, model: str, kind: type[Exception]
) -> None:
    with pytest.raises(kind):
        call(client, model)
    assert proxy.left(key, model) == WHOLE - estimated(model)


def test_a_stream_that_fails_has_used_its_estimate_at_least(proxy: Proxy, client: openai.OpenAI, key: str) -> None:
    try:
        list(call(client, "cut", stream=True))
    except openai.APIError as error:
        print(error, file=sys.stderr)  # or the proxy ends the stream as if it were whole
    assert WHOLE - estimated("cut", stream=True) <= proxy.left(key, "cut") < WHOLE


def test_calls_at_the_same_time_are_admitted_up_to_the_limit(proxy: Proxy, provider: Provider, key: str) -> None:
    async def main() -> list[Any]:
        async with openai.AsyncOpenAI(base_url=f"{proxy.url}/v1", api_key=key, max_retries=0) as client:
            calls = [client.chat.completions.create(model="plain", messages=ASKED, max_tokens=100) for _ in range(12)]
            return await asyncio.gather(*calls, return_exceptions=True)

    answers = asyncio.run(main())
    assert sum(isinstance(each, openai.RateLimitError) for each in answers) == 7
    assert len(provider.asked) == 5
    assert proxy.left(key) == WHOLE - 5 * USED


@pytest.mark.parametrize("stream", [False, True])
def test_calls_of_anthropics_api_are_settled(proxy: Proxy, key: str, *, stream: bool) -> None:
    with anthropic.Anthropic(base_url=proxy.url, api_key=key, max_retries=0) as client:
        answer = client.messages.create(model="claude-plain", messages=ASKED, max_tokens=100, stream=stream)
        if stream:
            assert any(event.type == "message_delta" for event in answer)
    assert proxy.left(key, "claude-plain") == WHOLE - USED


def test_a_client_that_leaves_a_stream_of_anthropics_api_has_used_its_estimate(proxy: Proxy, key: str) -> None:
    request: Any = {"model": "claude-endless", "messages": ASKED, "max_tokens": 100, "stream": True}
    client = anthropic.Anthropic(base_url=proxy.url, api_key=key, max_retries=0)
    with client, client.messages.create(**request) as stream:
        for _ in range(5):
            next(stream)
    time.sleep(1)
    assert proxy.left(key, "claude-endless") == WHOLE - estimated("claude-endless", stream=True)


@pytest.mark.filterwarnings("ignore:.*ReadOnly:UserWarning")  # of LiteLLM's own types
@pytest.mark.parametrize("seen", [1, 4, 5])
async def test_the_thoughts_of_a_model_count_though_its_client_leaves_before_the_usage(seen: int) -> None:
    limiter = RateLimiter(Repository.in_memory(), default_limits=[Limit("tpm", 100_000, 100_000, 1, 86_400)])
    limits = RateLimits(limiter, identity=str, resource=lambda data: "m", requests=None)
    call: Any = {"model": "m", "messages": ASKED, "max_tokens": 9000}
    await limits.async_pre_call_hook("ann", None, call, "acompletion")

    async def answer() -> AsyncIterator[Any]:
        for text, reason in [("one", None), ("two", None), ("three", None), (None, "stop")]:
            yield ModelResponseStream(choices=[{"index": 0, "delta": {"content": text}, "finish_reason": reason}])
        yield ModelResponseStream(choices=[], usage={"total_tokens": 8000})

    stream = limits.async_post_call_streaming_iterator_hook("ann", answer(), call)
    for _ in range(seen):
        await anext(stream)
    if seen == 5:
        assert await anext(stream, None) is None
    await stream.aclose()
    assert 100_000 - (await limiter.available("ann", "m"))["tpm"] == (8000 if seen == 5 else estimated("m", 9000))


@pytest.mark.filterwarnings("ignore:.*ReadOnly:UserWarning")  # of LiteLLM's own types
@pytest.mark.parametrize(("seen", "used"), [(1, estimated("m", 9000)), (3, 10 + 4 * 3000)])
async def test_a_limit_with_weights_is_settled_by_them(seen: int, used: int) -> None:
    weighted = Limit("tpm", 100_000, 100_000, 1, 86_400, weights={"input": 1, "output": 4})
    limiter = RateLimiter(Repository.in_memory(), default_limits=[weighted])
    limits = RateLimits(limiter, identity=str, resource=lambda data: "m", requests=None)
    call: Any = {"model": "m", "messages": ASKED, "max_tokens": 9000}
    await limits.async_pre_call_hook("ann", None, call, "acompletion")

    async def answer() -> AsyncIterator[Any]:
        yield ModelResponseStream(choices=[{"index": 0, "delta": {"content": "one"}, "finish_reason": "stop"}])
        usage = {"prompt_tokens": 10, "completion_tokens": 3000, "total_tokens": 3010}
        yield ModelResponseStream(choices=[], usage=usage)

    stream = limits.async_post_call_streaming_iterator_hook("ann", answer(), call)
    for _ in range(seen):
        await anext(stream, None)
    await stream.aclose()
    assert 100_000 - (await limiter.available("ann", "m"))["tpm"] == used


async def test_calls_whose_end_nobody_tells_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zae_limiter.integrations.leases.MAX_OPEN", 3)
    limiter = RateLimiter(
        Repository.in_memory(), default_limits=[Limit.per_day("rpm", 10), Limit.per_day("tpm", 10_000)]
    )
    limits = RateLimits(limiter, identity=str, resource=lambda data: "m")
    calls: list[Any] = [{"model": "m", "messages": ASKED, "max_tokens": 100} for _ in range(10)]
    for call in calls:
        await limits.async_pre_call_hook("ann", None, call, "acompletion")
    assert len(limits._open) == 3
    for call in calls:
        await limits.async_post_call_success_hook(call, "ann", {"usage": {"total_tokens": USED}})
    assert len(limits._open) == 0
    assert await limiter.available("ann", "m") == {"rpm": 0, "tpm": 10_000 - 7 * estimated("m") - 3 * USED}


@pytest.mark.filterwarnings("ignore:.*ReadOnly:UserWarning")  # of LiteLLM's own types
@pytest.mark.parametrize("show", ["own", "retry_after", "nothing"])
async def test_a_refusal_by_a_team_tells_a_key_nothing_of_it(show: Any) -> None:
    limiter = RateLimiter(Repository.in_memory(), default_limits=[Limit.per_day("rpm", 10)])
    await limiter.create_entity("team-red")
    await limiter.create_entity("ann", parent_id="team-red", cascade=True)
    await limiter.set_limits("team-red", [Limit.per_day("tpm", 150)])
    limits = RateLimits(limiter, identity=str, resource=lambda data: "m", show=show)

    async def ask(call_type: str) -> None:
        await limits.async_pre_call_hook("ann", None, {"model": "m", "messages": ASKED, "max_tokens": 100}, call_type)

    await ask("acompletion")
    for call_type in ("acompletion", "anthropic_messages"):
        with pytest.raises((HTTPException, ProxyException)) as refused:
            await ask(call_type)
        told: Any = refused.value
        detail = told.detail if isinstance(told, HTTPException) else told.message
        assert detail.startswith("tpm: not enough left; retry in" if show == "own" else "Too many requests.")
        assert not [each for each in ("team", "parent", "150") if each in f"{detail} {told.headers}".lower()]
        assert ("Retry-After" in told.headers) == (show != "nothing")
        assert ("RateLimit" in told.headers) == (show == "own")


@pytest.mark.filterwarnings("ignore:.*ReadOnly:UserWarning")  # of LiteLLM's own types
async def test_an_invalid_id_of_a_client_is_a_400_and_a_mistake_of_the_owner_a_500() -> None:
    limiter = RateLimiter(Repository.in_memory(), default_limits=[Limit.per_day("tpm", 1000)])
    for identity, requests, status in (("ann smith", None, 400), ("ann", "rpm", 500), (None, None, 500)):
        call: Any = {"model": "m", "messages": ASKED, "max_tokens": 100}
        chosen: Any = identity
        limits = RateLimits(limiter, identity=lambda user: chosen, resource=lambda data: "m", requests=requests)  # noqa: B023
        with pytest.raises(HTTPException) as refused:
            await limits.async_pre_call_hook("x", None, call, "acompletion")
        assert (refused.value.status_code, "smith" in str(refused.value.detail)) == (status, False)
    with pytest.raises(ValidationError, match="unnamed"):
        RateLimits(limiter, unnamed="my provider")


@pytest.mark.parametrize("body", [{"max_tokens": 10**40}, {"max_tokens": 100, "n": 10**40}])
def test_a_number_without_sense_is_refused(proxy: Proxy, provider: Provider, key: str, body: dict[str, Any]) -> None:
    status, headers, _ = proxy.post(key, {"model": "plain", "messages": ASKED, **body})
    assert (status, "retry-after" in headers, provider.asked) == (429, False, [])


@pytest.mark.parametrize(("body", "told"), [({}, True), ({"max_tokens": 1001}, False)])
def test_a_refusal_for_ever_says_which_part_of_the_estimate_was_assumed(
    proxy: Proxy, key: str, body: dict[str, Any], *, told: bool
) -> None:
    status, _, answer = proxy.post(key, {"model": "plain", "messages": ASKED, **body})
    assert (status, b"are assumed for the answer" in answer) == (429, told), answer


def test_a_client_cannot_name_the_call_whose_lease_it_ends(proxy: Proxy, key: str) -> None:
    note = {"zae_limiter": {"id": "guessed", "fields": {"X-Forged": "1"}}}
    status, headers, _ = proxy.post(
        key, {"model": "plain", "messages": ASKED, "max_tokens": 100, "metadata": note, "litellm_metadata": note}
    )
    assert (status, "x-forged" in headers) == (200, False)
    assert proxy.left(key) == WHOLE - USED


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of the proxy's own modules
def test_a_key_that_nobody_has_checked_is_no_identity(monkeypatch: pytest.MonkeyPatch) -> None:
    from litellm.proxy import proxy_server
    from litellm.proxy._types import UserAPIKeyAuth

    user = UserAPIKeyAuth(api_key="a secret")
    with pytest.raises(LookupError, match="checks no key"):
        key_of(user)
    monkeypatch.setattr(proxy_server, "master_key", "sk-master")
    assert re.fullmatch("key-[0-9a-f]{64}", key_of(user))
    with pytest.raises(LookupError, match="checks no key"):
        key_of(UserAPIKeyAuth())


def test_the_limits_of_an_outage_answer_503(provider: Provider, tmp_path: Path) -> None:
    away = """
from support.core.web.limits import limiter_of


async def limiter():
    return await limiter_of("away")
"""
    hooks = HOOKS.replace(HOOKS[HOOKS.index("async def limiter") : HOOKS.index("async def auth")], away + "\n\n")
    provider.asked.clear()
    with proxying(
        provider.url,
        tmp_path,
        hooks.replace("RateLimits(limiter,", "RateLimits(limiter, requests='requests', tokens='tokens',"),
    ) as proxy:
        status, headers, body = proxy.post("sk-1", {"model": "plain", "messages": ASKED})
    assert (status, headers["retry-after"], provider.asked) == (503, "1", [])
    assert b"connection refused" not in body


HIDDEN: Any = {"tools": [{"function": {"parameters": {"properties": {f"{i:032}": {} for i in range(10_000)}}}}]}
EVENT = (
    b'event: content_block_delta\ndata: {"type":"content_block_delta","delta":{"type":"text_delta","text":"%s"}}\n\n'
)


def chunk() -> Any:
    return ModelResponseStream(choices=[{"index": 0, "delta": {"content": "x" * 4000}, "finish_reason": None}])


@pytest.mark.filterwarnings("ignore:.*ReadOnly:UserWarning")  # of LiteLLM's own types
@pytest.mark.parametrize(
    ("part", "of_each"),
    [
        (chunk, 1000),
        ({"type": "response.output_text.delta", "delta": "x" * 4000}, 1000),
        (EVENT % (b"x" * 4000), 1000),
        ({"choices": [{"text": "x" * 4000, "index": 0}]}, 1000),
        ({"choices": [{"delta": {"tool_calls": [{"function": {"arguments": "x" * 4000}}]}}]}, 1000),
        ({"type": "message_start", "message": {"usage": {"input_tokens": 3}}}, 0),
    ],
    ids=["chat", "responses", "messages", "completions", "tool", "a prompt that is too small"],
)
@pytest.mark.parametrize("seen", [1, 9])
async def test_a_stream_that_is_left_counts_its_whole_request_and_what_came(part: Any, of_each: int, seen: int) -> None:
    """The owner's own estimate is low here, and so is the longest answer that the client has named."""
    limiter = RateLimiter(Repository.in_memory(), default_limits=[Limit("tpm", 900_000, 900_000, 1, 86_400)])
    limits = RateLimits(limiter, identity=str, resource=lambda data: "m", requests=None, estimate=lambda _: 15)
    call: Any = {"model": "m", "messages": ASKED, "max_tokens": 1, "stream": True, **HIDDEN}
    least = floor(call)
    await limits.async_pre_call_hook("ann", None, call, "acompletion")

    async def answer() -> AsyncIterator[Any]:
        while True:
            yield part() if callable(part) else part

    stream = limits.async_post_call_streaming_iterator_hook("ann", answer(), call)
    for _ in range(seen):
        await anext(stream)
    await stream.aclose()
    used = 900_000 - (await limiter.available("ann", "m"))["tpm"]
    assert least > 70_000
    assert least + seen * of_each <= used <= least + seen * of_each + 100


async def test_what_the_proxy_adds_to_a_request_and_its_clients_notes_are_not_estimated() -> None:
    limiter = RateLimiter(Repository.in_memory(), default_limits=[Limit("tpm", 900_000, 900_000, 1, 86_400)])
    limits = RateLimits(limiter, identity=str, resource=lambda data: "m", requests=None)
    body: Any = {"model": "m", "messages": ASKED, "max_tokens": 100}
    notes = {"metadata": {"note": "x" * 9000}}
    added = {"proxy_server_request": {"body": {**body, **notes}, "headers": {"x": "x" * 9000}}, "litellm_call_id": "x"}
    await limits.async_pre_call_hook("ann", None, {**body, **notes, **added, "secret_fields": "x" * 900}, "acompletion")
    assert await limiter.available("ann", "m") == {"tpm": 900_000 - estimate(body)}
