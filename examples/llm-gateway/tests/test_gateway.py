import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

HERE = Path(__file__).parent
HELLO = {"model": "gpt-5", "messages": [{"role": "user", "content": "Hello?"}]}


class Gateway(httpx.Client):
    def ask(self, key: str, **more: object) -> httpx.Response:
        return self.post("/v1/chat/completions", json=HELLO | more, headers={"Authorization": f"Bearer {key}"})

    def counted(self, name: str, **labels: str) -> float:
        """The sum of a counter over all workers."""
        lines = [
            line for line in self.get("/metrics").text.splitlines() if line.startswith(f"zae_limiter_{name}_total")
        ]
        wanted = [f'{label}="{value}"' for label, value in labels.items()]
        return sum(float(line.split()[-1]) for line in lines if all(each in line for each in wanted))


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def serving(app: str, *options: str, **environ: str) -> Iterator[str]:
    """Serve an application until the end of the block, and yield its URL."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "uvicorn", app, "--port", str(port), "--log-level", "warning", *options]
    process = subprocess.Popen(command, cwd=HERE.parent, env=os.environ | environ)
    try:
        while not listens(port):
            assert process.poll() is None
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


@pytest.fixture(scope="module")
def provider() -> Iterator[str]:
    with serving("provider:app", "--app-dir", str(HERE)) as url:
        yield f"{url}/v1"


@contextmanager
def gateway_before(provider: str, counts: Path, *options: str, **environ: str) -> Iterator[Gateway]:
    environ |= {"PROVIDER_URL": provider, "PROVIDER_KEY": "sk-provider", "PROMETHEUS_MULTIPROC_DIR": str(counts)}
    with (
        serving("gateway:app", *options, **environ) as url,
        Gateway(base_url=url, trust_env=False, timeout=60) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def gateway(local_stack: str, provider: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    subprocess.run([sys.executable, "set_up.py"], cwd=HERE.parent, check=True)
    with gateway_before(provider, tmp_path_factory.mktemp("counts"), "--workers", "2") as client:
        yield client


def await_count(gateway: Gateway, tokens: float) -> None:
    """A call is counted once its answer has been sent."""
    end = time.monotonic() + 60  # on a busy machine
    while (counted := gateway.counted("tokens", limit="tpm")) != tokens:
        assert time.monotonic() < end, f"{counted} tokens, not {tokens}"
        time.sleep(0.05)


def test_who_has_no_key_is_turned_away(gateway: Gateway) -> None:
    assert gateway.ask("sk-nobody").status_code == 401


def test_a_call_costs_a_key_and_its_project_what_the_provider_counted(gateway: Gateway) -> None:
    answer = gateway.ask("sk-ann")
    assert answer.json()["choices"][0]["message"]["content"] == "Hello."
    assert f'"tpm";r={20_000 - 30}' in answer.headers["ratelimit"]
    assert "project" not in answer.headers["ratelimit"]  # what is left to it is not the key's business
    await_count(gateway, 30)


def test_a_stream_arrives_whole_and_settles_the_usage_of_its_last_event(gateway: Gateway) -> None:
    before = gateway.counted("tokens", limit="tpm")
    answer = gateway.ask("sk-ann", stream=True)
    assert "".join(re.findall(r'"content": "(.*?)"', answer.text)) == "Hello."
    assert answer.text.endswith("data: [DONE]\n\n")
    await_count(gateway, before + 30)


def test_a_call_that_no_limit_can_ever_admit_is_no_call_of_the_provider(gateway: Gateway) -> None:
    answer = gateway.ask("sk-ann", n=50)
    assert (answer.status_code, "retry-after" in answer.headers) == (429, False)


def test_two_workers_admit_no_more_than_the_limits_of_a_key_and_its_project(gateway: Gateway) -> None:
    admitted = gateway.counted("acquires", outcome="admitted")
    begun = time.monotonic()
    with ThreadPoolExecutor(8) as pool:
        answers = [each for key in ("sk-ann", "sk-bob") for each in pool.map(gateway.ask, [key] * 16)]
    refilled = (time.monotonic() - begun) * 15 / 60
    passed = [answer for answer in answers if answer.status_code == 200]
    assert 15 - admitted <= len(passed) <= 15 + refilled + 1
    refusals = [answer for answer in answers if answer.status_code == 429]
    assert len(passed) + len(refusals) == 32
    assert all(0 < int(refusal.headers["retry-after"]) <= 6 for refusal in refusals)
    short = {tuple(refusal.json()["violated-policies"]) for refusal in refusals}
    short.discard(("rpm", "project/rpm"))  # where calls that the project is about to refuse have emptied the key
    assert short == {("rpm",), ("project/rpm",)}
    assert gateway.counted("acquires", outcome="refused") >= len(refusals)


def test_a_table_that_is_away_stops_no_call(provider: str, tmp_path: Path) -> None:
    away = {"AWS_ENDPOINT_URL": "http://127.0.0.1:9", "AWS_REGION": "eu-central-1"}
    keys = {"AWS_ACCESS_KEY_ID": "any", "AWS_SECRET_ACCESS_KEY": "any"}
    with gateway_before(provider, tmp_path, **away, **keys) as gateway:
        answer = gateway.ask("sk-ann")
        assert (answer.status_code, "ratelimit" in answer.headers) == (200, False)
        assert gateway.counted("acquires", outcome="degraded") == 1
