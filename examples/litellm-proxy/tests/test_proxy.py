import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import httpx
import pytest

HERE = Path(__file__).parents[1]
HELLO = [{"role": "user", "content": "Hello?"}]
USED = 30
ANSWER = {
    "id": "1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-5",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Hello."}}],
    "usage": {"prompt_tokens": 10, "completion_tokens": 20, "total_tokens": USED},
}
OFFLINE = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_LOCAL_POLICY_TEMPLATES": "True", "DO_NOT_TRACK": "1"}


class Provider(ThreadingHTTPServer):
    """A fake provider, which counts its calls."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.calls = 0


class Handler(BaseHTTPRequestHandler):
    server: Provider

    def do_POST(self) -> None:
        self.server.calls += 1
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(ANSWER).encode())

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def provider() -> Iterator[Provider]:
    with Provider() as server:
        Thread(target=server.serve_forever, args=(0.05,)).start()
        yield server
        server.shutdown()


@pytest.fixture(scope="module")
def proxy(local_stack: str, provider: Provider) -> Iterator[httpx.Client]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    provided = {"PROVIDER_URL": f"http://127.0.0.1:{provider.server_address[1]}/v1", "PROVIDER_KEY": "sk-provider"}
    command = [str(Path(sys.executable).with_name("litellm")), "--config", "config.yaml", "--port", str(port)]
    environment = os.environ | OFFLINE | provided | {"MASTER_KEY": "sk-master"}
    process = subprocess.Popen([*command, "--host", "127.0.0.1"], cwd=HERE, env=environment)
    while not listens(port):
        assert process.poll() is None
        time.sleep(0.1)
    headers = {"Authorization": "Bearer sk-master"}
    with httpx.Client(base_url=f"http://127.0.0.1:{port}", headers=headers, trust_env=False, timeout=60) as client:
        yield client
    process.terminate()
    process.wait()


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ask(proxy: httpx.Client, most: int = 100) -> httpx.Response:
    body = {"model": "gpt-5", "messages": HELLO, "max_completion_tokens": most}
    return proxy.post("/v1/chat/completions", json=body)


def test_an_answer_is_settled_and_one_request_too_many_is_not_sent(proxy: httpx.Client, provider: Provider) -> None:
    answer = ask(proxy)
    assert answer.json()["choices"][0]["message"]["content"] == "Hello."
    never = ask(proxy, most=20_001)
    assert (never.status_code, "retry-after" in never.headers) == (429, False)
    left = int(re.search(r'"tpm";r=(\d+)', never.headers["ratelimit"])[1])
    assert left >= 20_000 - USED
    while (answer := ask(proxy)).status_code == 200:
        pass
    assert answer.status_code == 429
    assert 0 < int(answer.headers["retry-after"]) <= 6
    assert provider.calls >= 10
