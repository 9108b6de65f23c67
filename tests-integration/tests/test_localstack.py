"""What lives here: where LocalStack comes from, and that nothing of it stays.
What never does: what runs on it.
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from support.integration import stacks
from support.integration.fetch import Unavailable
from support.integration.last_will import afterwards
from support.integration.localstack import container, health, host, localstack
from support.integration.localstack.container import in_container


def test_a_container_without_an_engine_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    with pytest.raises(Unavailable, match="no container engine answers"), in_container():
        pytest.fail("nothing runs")


@contextmanager
def engine_without_images(pull: Callable[[], object]) -> Iterator[str]:
    """A container engine that has no image, and does this where one is to be pulled."""

    class Engine(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            known = self.path.endswith(("/version", "/_ping"))
            self._answer(200 if known else 404, b'{"ApiVersion": "1.44", "message": "no such image"}')

        def do_POST(self) -> None:
            pull()
            self._answer(404, b'{"message": "pull access denied"}')

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"tcp://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_localstack_without_its_image_says_why_it_cannot_be_pulled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZAEL_LOCALSTACK_IMAGE", "own/localstack:1")
    with engine_without_images(lambda: None) as url:
        monkeypatch.setenv("DOCKER_HOST", url)
        with pytest.raises(Unavailable, match=r"own/localstack:1 cannot be pulled: .*denied"), in_container():
            pytest.fail("nothing runs")


def test_localstack_whose_image_takes_too_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(container, "PULL_SECONDS", 0.2)
    enough = threading.Event()
    with engine_without_images(lambda: enough.wait(60)) as url:
        monkeypatch.setenv("DOCKER_HOST", url)
        with pytest.raises(Unavailable, match="was not pulled within"), in_container():
            pytest.fail("nothing runs")
        enough.set()


def test_localstack_that_starts_and_does_not_get_well_is_a_failure_and_no_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "READY_SECONDS", 0.2)
    with pytest.raises(RuntimeError, match=r"LocalStack at http://127.0.0.1:1 is not healthy after 0.2 s"):
        health.wait_until_healthy("http://127.0.0.1:1")


def test_without_an_engine_and_a_new_python_both_are_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    monkeypatch.setattr(host, "PYTHONS", ("3.99",))
    told = r"no container engine answers: .*; LocalStack as a process needs Python 3.99; found: .*3\.1"
    with pytest.raises(Unavailable, match=told), localstack():
        pytest.fail("nothing runs")


@contextmanager
def localstack_with(scripts: list[dict[str, str]]) -> Iterator[str]:
    """What answers as LocalStack does once it is ready, with these start scripts."""

    class Ready(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = json.dumps({"completed": {"READY": True}, "scripts": scripts}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *args: object) -> None:
            """Say nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Ready) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_start_script_that_fails_is_a_failure_of_localstack() -> None:
    failed = {"stage": "START", "name": health.CUSTOM_RESOURCES, "state": "ERROR"}
    with (
        localstack_with([failed]) as url,
        pytest.raises(RuntimeError, match=f"could not run: {health.CUSTOM_RESOURCES}"),
    ):
        health.wait_until_healthy(url, [health.CUSTOM_RESOURCES])


@pytest.mark.parametrize(("state", "lacks"), [("SUCCESSFUL", []), ("ERROR", ["custom-resource"])])
def test_a_localstack_that_runs_already_says_if_it_lacks_our_custom_resources(
    state: str, lacks: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = {"stage": "START", "name": health.CUSTOM_RESOURCES, "state": state}
    monkeypatch.setattr(stacks, "COMMAND", Path("/bin/true"))  # nothing is deployed to what only answers
    with localstack_with([ours]) as url:
        monkeypatch.setenv("ZAEL_LOCALSTACK_URL", url)
        with stacks.in_localstack() as place:
            assert place.services_url == url
            assert list(place.lacks) == lacks


KILLED = """
import os, signal, sys
from support.integration.last_will import afterwards

with afterwards(["touch", sys.argv[1]]):
    os.kill(os.getpid(), signal.SIGKILL)
"""


def test_a_last_will_is_done_even_where_the_process_is_killed(tmp_path: Path) -> None:
    done = tmp_path / "done"
    support = str(Path(__file__).parents[1])
    killed = subprocess.run(
        [sys.executable, "-c", KILLED, str(done)], env={**os.environ, "PYTHONPATH": support}, check=False
    )
    assert killed.returncode == -signal.SIGKILL
    deadline = time.monotonic() + 10
    while not done.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_a_last_will_is_done_on_leaving_and_not_before(tmp_path: Path) -> None:
    with afterwards(["touch", str(tmp_path / "done")]):
        assert not (tmp_path / "done").exists()
    assert (tmp_path / "done").exists()


@pytest.mark.long
def test_a_last_will_that_is_terminated_is_not_done(tmp_path: Path) -> None:
    with afterwards(["touch", str(tmp_path / "done")]) as last_will:
        last_will.terminate()
    assert not (tmp_path / "done").exists()
