"""Limits and budgets of LiteLLM's own beside ours: what either refuses costs nothing of the other."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import uuid4

import pytest

pytest.importorskip("litellm", reason="litellm is not installed: `just test-llm newest` has it")

from support.core.llm.provider import USED, Provider, providing
from support.core.llm.proxy import HOOKS, Proxy, proxying

pytestmark = pytest.mark.slow
WHOLE = 1000
ASKED: Any = [{"role": "user", "content": "x" * 40}]
BODY: Any = {"messages": ASKED, "max_tokens": 100}
OF_PATH: Any = {
    "chat/completions": BODY,
    "completions": {"prompt": "x", "max_tokens": 100},
    "embeddings": {"input": "x"},
    "responses": {"input": "x", "max_output_tokens": 100},
    "messages": BODY,
    "images/generations": {"prompt": "x", "max_tokens": 100},
    "audio/speech": {"input": "x", "voice": "alloy", "max_tokens": 100},
    "moderations": {"input": "x", "max_tokens": 100},
}
# The first part of a key says what LiteLLM limits, the second whose it is.
AUTH = """
import litellm
from litellm.integrations.custom_logger import CustomLogger

OF_KEY = {
    "free": {},
    "key": {"rpm_limit": 2},
    "team": {"team_rpm_limit": 2},
    "none": {"max_parallel_requests": 0},
    "one": {"max_parallel_requests": 1},
    "spent": {"max_budget": 1.0, "spend": 2.0},
    "hook": {"max_budget": 1.0, "spend": 2.0},
}


def exceeded(user):
    return litellm.BudgetExceededError(current_cost=user.spend, max_budget=user.max_budget)


async def auth(request, api_key):
    kind, name = api_key.removeprefix("sk-").split("-")
    user = UserAPIKeyAuth(api_key=api_key, user_id=name, team_id=f"team-{name}", **OF_KEY[kind])
    if kind == "spent":
        raise exceeded(user)
    return user


class Budget(CustomLogger):
    async def async_pre_call_hook(self, user_api_key_dict, cache, data, call_type):
        if user_api_key_dict.max_budget:
            raise exceeded(user_api_key_dict)


limits = RateLimits(limiter, identity=lambda user: user.user_id, units={"tpm": "tokens"})
budget = Budget()
"""


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with providing() as provider:
        yield provider


@pytest.fixture(scope="module")
def proxy(provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Proxy]:
    hooks = HOOKS[: HOOKS.index("async def auth")] + AUTH
    callbacks = {"callbacks": ["hooks.limits", "hooks.budget"]}
    with proxying(provider.url, tmp_path_factory.mktemp("proxy"), hooks, litellm_settings=callbacks) as proxy:
        yield proxy


@pytest.fixture
def name(provider: Provider) -> str:
    provider.asked.clear()
    return uuid4().hex


def ask(proxy: Proxy, kind: str, name: str, model: str = "plain") -> int:
    return proxy.post(f"sk-{kind}-{name}", {"model": model, **BODY})[0]


@pytest.mark.parametrize("kind", ["key", "team"])
def test_what_a_limit_of_litellm_refuses_takes_nothing_of_ours(
    proxy: Proxy, provider: Provider, name: str, kind: str
) -> None:
    assert [ask(proxy, kind, name) for _ in range(8)] == [200] * 2 + [429] * 6
    assert len(provider.asked) == 2
    assert proxy.left(f"sk-free-{name}") == WHOLE - 2 * USED
    assert [ask(proxy, "free", name) for _ in range(4)] == [200] * 3 + [429]  # of five calls a day


@pytest.mark.parametrize("kind", ["spent", "hook", "none"])
def test_what_a_budget_of_litellm_refuses_before_or_after_us_takes_nothing_of_ours(
    proxy: Proxy, provider: Provider, name: str, kind: str
) -> None:
    assert 200 not in {ask(proxy, kind, name) for _ in range(6)}  # each release has its own status for it
    assert (provider.asked, proxy.left(f"sk-free-{name}")) == ([], WHOLE)


def test_what_we_refuse_frees_no_place_of_litellm(proxy: Proxy, provider: Provider, name: str) -> None:
    assert [ask(proxy, "free", name) for _ in range(5)] == [200] * 5
    assert {ask(proxy, "one", name) for _ in range(6)} == {429}
    provider.asked.clear()
    with ThreadPoolExecutor(4) as clients:
        assert list(clients.map(lambda _: ask(proxy, "one", name, "slow"), range(4))).count(200) == 1
    assert len(provider.asked) == 1
    assert proxy.left(f"sk-free-{name}", "slow") == WHOLE - USED


@pytest.mark.parametrize("path", OF_PATH)
def test_a_call_that_a_provider_fails_keeps_its_estimate_on_every_path(proxy: Proxy, name: str, path: str) -> None:
    for model in ("broken", "busy"):
        status, _, body = proxy.post(f"sk-free-{name}", {"model": model, **OF_PATH[path]}, f"/v1/{path}")
        assert status not in {200, 400}, body
        assert proxy.left(f"sk-free-{name}", model) < WHOLE
