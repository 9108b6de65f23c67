"""LiteLLM's proxy in a process of its own, with our callback, before a provider.

Lives here: its configuration, starting, asking. Never: a claim.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final
from urllib.error import HTTPError
from urllib.request import Request, urlopen

from support.core.web.serving import TESTS, free_port, stop, wait_for

MODELS: Final = ("plain", "silent", "broken", "busy", "cut", "endless", "slow")
HOOKS: Final = """
from litellm.proxy._types import UserAPIKeyAuth

from zae_limiter import Limit, RateLimiter, Repository
from zae_limiter.integrations.litellm import RateLimits

LIMITS = [Limit.per_day("rpm", 5), Limit.per_day("tpm", 1000)]


async def limiter():
    return RateLimiter(Repository.in_memory(), default_limits=LIMITS)


async def auth(request, api_key):
    return UserAPIKeyAuth(api_key=api_key)


limits = RateLimits(limiter, units={"tpm": "tokens"})
"""
TOO_MUCH: Final = 10**9
OFFLINE: Final = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOCAL_POLICY_TEMPLATES": "True", "DO_NOT_TRACK": "1"}


class Proxy:
    """A proxy that is being served."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def post(
        self,
        key: str,
        body: dict[str, Any],
        path: str = "/v1/chat/completions",
        headers: Mapping[str, str] | None = None,
    ) -> tuple[int, dict[str, str], bytes]:
        """Ask without a client library: status, header fields by their lower-case names, body."""
        fields = {"Authorization": f"Bearer {key}", "Content-Type": "application/json", **(headers or {})}
        return self._open(Request(f"{self.url}{path}", json.dumps(body).encode(), fields))

    def get(self, key: str, path: str) -> tuple[int, dict[str, str], bytes]:
        """Read a path: status, header fields by their lower-case names, body."""
        return self._open(Request(f"{self.url}{path}", headers={"Authorization": f"Bearer {key}"}))

    def _open(self, request: Request) -> tuple[int, dict[str, str], bytes]:
        try:
            with urlopen(request, timeout=30) as answer:
                return answer.status, {name.lower(): text for name, text in answer.headers.items()}, answer.read()
        except HTTPError as refusal:
            return refusal.code, {name.lower(): text for name, text in refusal.headers.items()}, refusal.read()

    def left(self, key: str, model: str = "plain") -> int:
        """The tokens that a key has left: what a refusal says of a call that is too large for ever."""
        status, headers, body = self.post(key, {"model": model, "messages": [], "max_tokens": TOO_MUCH})
        assert status == 429, body
        found = re.search(r'"tpm";r=(\d+)', headers["ratelimit"])
        assert found is not None, headers
        return int(found[1])


@contextmanager
def proxying(provider_url: str, folder: Path, hooks: str = HOOKS, **changes: Any) -> Iterator[Proxy]:
    """Serve the proxy until the end of the block; ``changes`` of its configuration by section."""
    port = free_port()
    (folder / "hooks.py").write_text(hooks, encoding="utf-8")
    (folder / "config.yaml").write_text(json.dumps(_config(provider_url, changes)), encoding="utf-8")  # is YAML
    command = [str(Path(sys.executable).with_name("litellm")), "--config", "config.yaml", "--port", str(port)]
    environment = os.environ | OFFLINE | _keys(provider_url) | {"PYTHONUNBUFFERED": "1", "PYTHONPATH": str(TESTS)}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1"], cwd=folder, env=environment, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        wait_for(port, process)
        yield Proxy(port)
    finally:
        stop(process)
        print((folder / "log").read_text(errors="replace"), file=sys.stderr)


def deployment(provider_url: str, group: str, model: str) -> dict[str, Any]:
    """One deployment of a model of the provider, under the name of a group."""
    return {
        "model_name": group,
        "litellm_params": {"model": model, "api_base": f"{provider_url}/v1", "api_key": "sk-provider"},
    }


def _keys(provider_url: str) -> dict[str, str]:
    """The settings that open the routes whose requests the proxy passes on as they are."""
    bases = {"OPENAI": f"{provider_url}/v1", "GEMINI": provider_url}
    return {f"{name}_API_BASE": base for name, base in bases.items()} | {f"{name}_API_KEY": "sk-p" for name in bases}


def _config(provider_url: str, changes: dict[str, Any]) -> dict[str, Any]:
    anthropic = {"api_base": provider_url, "api_key": "sk-provider"}
    models = [
        *(deployment(provider_url, name, f"openai/{name}") for name in MODELS),
        *(
            {"model_name": f"claude-{name}", "litellm_params": {"model": f"anthropic/{name}", **anthropic}}
            for name in MODELS
        ),
    ]
    return {
        "model_list": models + changes.get("model_list", []),
        "litellm_settings": {"callbacks": ["hooks.limits"], "num_retries": 0, "telemetry": False}
        | changes.get("litellm_settings", {}),
        "router_settings": {"num_retries": 0, "disable_cooldowns": True} | changes.get("router_settings", {}),
        "general_settings": {"master_key": "sk-master", "custom_auth": "hooks.auth"},
    }
