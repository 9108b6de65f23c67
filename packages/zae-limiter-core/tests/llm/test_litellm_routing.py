"""What a client of LiteLLM's proxy can reach: fallbacks, retries, aliases, wildcards, groups that share models."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("litellm", reason="litellm is not installed: `just test-llm newest` has it")

from support.core.llm.provider import USED, Provider, providing
from support.core.llm.proxy import HOOKS, Proxy, deployment, proxying
from zae_limiter.integrations.tokens import estimate

pytestmark = pytest.mark.slow
WHOLE = 1000
ASKED: Any = [{"role": "user", "content": "x" * 40}]


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
    """A proxy with a fallback, retries, an alias, and a second name for a model."""
    with proxying(
        provider.url,
        tmp_path_factory.mktemp("proxy"),
        model_list=[
            deployment(provider.url, "again", "openai/plain"),
            deployment(provider.url, "again", "openai/plain"),
        ],
        router_settings={
            "fallbacks": [{"broken": ["plain"]}, {"busy": ["broken"]}],
            "model_group_alias": {"best": "plain"},
            "num_retries": 2,
            "disable_cooldowns": False,
        },
    ) as proxy:
        yield proxy


def ask(proxy: Proxy, key: str, model: str, **more: Any) -> int:
    return proxy.post(key, {"model": model, "messages": ASKED, "max_tokens": 100, **more})[0]


def asked(provider: Provider) -> list[str]:
    return [each["model"] for each in provider.asked]


CREDENTIALS: Any = [
    ("headers", {"x-model": "dear"}),
    ("provider_specific_header", {"custom_llm_provider": "openai", "extra_headers": {"x-model": "dear"}}),
    ("api_key", "sk-of-the-client"),
]


@pytest.mark.parametrize(("field", "value"), CREDENTIALS)
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/chat/completions", {"messages": ASKED}),
        ("/v1/messages", {"messages": ASKED, "max_tokens": 100}),
        ("/v1/responses", {"input": "x"}),
        ("/v1/embeddings", {"input": "x"}),
    ],
)
def test_header_fields_and_credentials_in_a_body_reach_no_provider(
    proxy: Proxy, provider: Provider, key: str, path: str, body: dict[str, Any], field: str, value: object
) -> None:
    status, _, answer = proxy.post(key, {"model": "plain", **body, field: value}, path)
    assert (status, provider.asked) == (400, []), answer
    assert field.encode() in answer


OF_CLIENTS: Any = [
    {"anthropic-version": "2023-06-01", "anthropic-beta": "x"},
    {"x-api-key": "sk-other"},
    {"traceparent": f"00-{'1' * 32}-{'2' * 16}-01"},
    {"x-claude-code-session-id": "12345678"},
]


@pytest.mark.parametrize("fields", OF_CLIENTS)
def test_header_fields_of_honest_clients_are_no_fields_of_the_body(
    proxy: Proxy, provider: Provider, key: str, fields: dict[str, str]
) -> None:
    body = {"model": "plain", "messages": ASKED, "max_tokens": 100}
    status, _, answer = proxy.post(key, body, headers=fields)
    assert (status, asked(provider)) == (200, ["plain"]), answer


@pytest.mark.parametrize("other", ["best", "again"])
def test_every_name_of_a_model_draws_on_its_limit(proxy: Proxy, provider: Provider, key: str, other: str) -> None:
    assert [ask(proxy, key, model) for model in ("plain", other, "plain", other, "plain")] == [200] * 5
    assert [ask(proxy, key, model) for model in ("plain", other, "best", "again")] == [429] * 4
    assert asked(provider) == ["plain"] * 5


def test_a_fallback_of_the_configuration_takes_the_tokens_of_its_model(
    proxy: Proxy, provider: Provider, key: str
) -> None:
    assert ask(proxy, key, "broken") == 200
    assert asked(provider)[-1] == "plain"
    assert proxy.left(key, "plain") == WHOLE - USED
    assert proxy.left(key, "broken") == WHOLE - estimate({"model": "broken", "messages": ASKED, "max_tokens": 100})


def test_a_fallback_whose_limit_is_spent_is_not_asked(proxy: Proxy, provider: Provider, key: str) -> None:
    assert [ask(proxy, key, "plain") for _ in range(5)] == [200] * 5
    provider.asked.clear()
    assert ask(proxy, key, "broken") in {429, 500}
    assert "plain" not in asked(provider)


def test_a_refusal_pauses_no_deployment_for_others(proxy: Proxy, provider: Provider, key: str) -> None:
    for _ in range(8):
        ask(proxy, key, "again")
        ask(proxy, key, "broken")
    assert ask(proxy, f"{key}-other", "again") == 200


def test_the_retries_of_the_configuration_are_one_call(proxy: Proxy, provider: Provider, key: str) -> None:
    ask(proxy, key, "slow-and-unknown")
    assert asked(provider) == []
    assert ask(proxy, key, "cut") == 200
    assert proxy.left(key, "cut") == WHOLE - USED


@pytest.mark.parametrize(
    ("group", "model", "problem"),
    [
        ("openai/*", "openai/*", "the route openai/* admits any model"),
        ("both", "openai/silent", "share some of their models"),
    ],
)
def test_a_configuration_that_does_not_tell_the_limit_is_refused(
    provider: Provider, key: str, tmp_path: Path, group: str, model: str, problem: str
) -> None:
    more = [deployment(provider.url, group, model), deployment(provider.url, group, "openai/more")]
    with proxying(provider.url, tmp_path, model_list=more) as proxy:
        assert ask(proxy, key, "plain") == 500
    assert asked(provider) == []
    assert problem in (tmp_path / "log").read_text()


def test_a_resource_of_the_owner_serves_wildcards(provider: Provider, key: str, tmp_path: Path) -> None:
    hooks = HOOKS.replace(
        "RateLimits(limiter,", "RateLimits(limiter, resource=lambda data: data['model'].split('/')[-1],"
    )
    more = [deployment(provider.url, "openai/*", "openai/*")]
    settings = {"fallbacks": [{"broken": ["openai/plain"]}]}
    with proxying(provider.url, tmp_path, hooks, model_list=more, router_settings=settings) as proxy:
        assert [ask(proxy, key, model) for model in ("plain", "openai/plain", "broken", "broken", "plain")] == [200] * 5
        assert [ask(proxy, key, model) for model in ("plain", "openai/plain")] == [429, 429]
        provider.asked.clear()
        assert ask(proxy, key, "broken") in {429, 500}
    assert "plain" not in asked(provider)


BATCH: Any = {"input_file_id": "file-1", "endpoint": "/v1/chat/completions", "completion_window": "24h"}
TOLD_BY_NOBODY: Any = [
    ("/openai/chat/completions", {"messages": ASKED}),
    ("/openai/chat/completions", {"messages": ASKED, "model": "plain"}),
    ("/gemini/v1beta/models/plain:generateContent", {"contents": []}),
    ("/v1/batches", BATCH),
    ("/v1/batches", {**BATCH, "model": "plain"}),
]


@pytest.mark.parametrize(("path", "body"), TOLD_BY_NOBODY)
def test_a_call_whose_models_litellm_does_not_tell_is_refused(
    proxy: Proxy, provider: Provider, key: str, path: str, body: dict[str, Any]
) -> None:
    status, _, answer = proxy.post(key, body, path)
    assert (status >= 400, provider.asked) == (True, []), answer
    assert b"does not say which models" in answer or path == "/v1/batches"  # newer releases stumble over the refusal


def test_a_resource_of_the_owner_serves_calls_whose_models_litellm_does_not_tell(
    provider: Provider, key: str, tmp_path: Path
) -> None:
    hooks = HOOKS.replace("RateLimits(limiter,", "RateLimits(limiter, unnamed='anything',")
    with proxying(provider.url, tmp_path, hooks) as proxy:
        path, body = TOLD_BY_NOBODY[0]
        answers = [proxy.post(key, {**body, "max_tokens": 10}, path)[0] for _ in range(7)]
        assert (answers, len(provider.asked)) == ([200] * 5 + [429] * 2, 5)
        assert "zae_limiter" not in str(provider.asked)
        assert ask(proxy, key, "plain") == 200


GEMINI: Any = {
    "contents": [{"role": "user", "parts": [{"text": "x"}]}],
    "systemInstruction": {"parts": [{"text": "x"}]},
    "generationConfig": {"maxOutputTokens": 100},
}


def test_gemini_s_paths_are_limited_or_reach_no_model(provider: Provider, key: str, tmp_path: Path) -> None:
    provider.asked.clear()
    hooks = HOOKS.replace("RateLimits(limiter,", "RateLimits(limiter, estimate=lambda request: 100,")
    paths = [f"/v1beta/models/plain:{name}" for name in ("generateContent", "streamGenerateContent")]
    with proxying(provider.url, tmp_path, hooks) as proxy:
        answers = [proxy.post(key, GEMINI, path) for path in paths]
        if [status for status, _, _ in answers] == [200, 200]:
            assert [proxy.post(key, GEMINI, paths[0])[0] for _ in range(4)] == [200] * 3 + [429]
            assert len(provider.asked) == 5
        else:  # of older releases: they ask no callback
            assert (min(status for status, _, _ in answers) >= 400, provider.asked) == (True, []), answers


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/vllm/v1/chat/completions", {"model": "plain", "messages": ASKED}),
    ],
)
def test_a_path_on_which_litellm_asks_no_callback_reaches_no_model(
    proxy: Proxy, provider: Provider, key: str, path: str, body: dict[str, Any]
) -> None:
    status, _, _ = proxy.post(key, body, path)
    assert (status >= 400, provider.asked) == (True, [])


@pytest.mark.parametrize("path", ["/v1/files", "/v1/batches"])
def test_reading_what_is_stored_is_free(proxy: Proxy, provider: Provider, key: str, path: str) -> None:
    assert proxy.get(key, path)[0] != 400
    assert proxy.left(key) == WHOLE
