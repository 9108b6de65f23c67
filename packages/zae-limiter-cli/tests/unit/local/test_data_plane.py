import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from zae_limiter_cli.errors import CommandError
from zae_limiter_cli.local import engine_process
from zae_limiter_cli.local.data_plane import DataPlane
from zae_limiter_cli.local.engine_process import Connect, can_be_alone
from zae_limiter_cli.local.engines import Engine
from zae_limiter_cli.local.http_data_plane import HttpDataPlane
from zae_limiter_cli.local.wsgi import Refused, ask, call, dynamodb_request

KEY = "KEYOFTHEPLANE"


class Echo(BaseHTTPRequestHandler):
    """Answers with the request, and hangs up after every third one."""

    protocol_version = "HTTP/1.1"
    count = 0

    def do_POST(self) -> None:
        Echo.count += 1
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("X-Amz-Crc32", "17")
        self.send_header("X-Target", self.headers["X-Amz-Target"])
        self.send_header("X-Key", self.headers["Authorization"].partition("Credential=")[2].partition("/")[0])
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = Echo.count % 3 == 0

    def log_message(self, *args: object) -> None:
        """Say nothing."""


def to(address: str) -> Connect:
    host, port = address.split(":")
    return lambda: socket.create_connection((host, int(port)), timeout=60)


@pytest.fixture
def echo() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    yield f"127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()
    thread.join()


def test_requests_are_passed_on_with_the_data_plane_s_own_key(echo: str) -> None:
    request = dynamodb_request("PutItem", {"a": 1}, region="eu-central-1")
    request["HTTP_AUTHORIZATION"] = "AWS4-HMAC-SHA256 Credential=not/20200101/eu-central-1/dynamodb/aws4_request"
    with closing(HttpDataPlane("echo", to(echo), KEY)) as data_plane:
        status, headers, body = call(data_plane, request)
    assert (status, body) == (200, b'{"a": 1}')
    told = {name.lower(): value for name, value in headers}
    assert (told["x-amz-crc32"], told["x-target"], told["x-key"]) == ("17", "DynamoDB_20120810.PutItem", KEY)
    assert told["content-length"] == "8"


def test_a_connection_that_was_hung_up_is_not_used_again(echo: str) -> None:
    with closing(HttpDataPlane("echo", to(echo), KEY)) as data_plane:
        for number in range(12):
            assert ask(data_plane, "GetItem", {"n": number}, region="us-east-1") == {"n": number}


def test_a_data_plane_that_is_gone_is_dynamodb_s_own_error() -> None:
    with pytest.raises(Refused, match="InternalServerError: the data plane, gone, does not answer"):
        ask(HttpDataPlane("gone", to("127.0.0.1:1"), KEY), "GetItem", {}, region="us-east-1")


def test_one_that_ends_at_once_says_its_last_words(tmp_path: Path) -> None:
    engine = Engine("broken", "broken", lambda *_: [sys.executable, "-c", "raise SystemExit('no licence')"])
    data_plane = DataPlane(engine, tmp_path / "log", KEY)
    with pytest.raises(CommandError, match="--data-plane broken: it ended with code 1: no licence"):
        data_plane.application(lambda *_: [])
    data_plane.close()


# Echoes, and listens on every address, as DynamoDB Local does.
EVERYWHERE = """
import sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Echo(BaseHTTPRequestHandler):
    def do_POST(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(self.rfile.read(int(self.headers["Content-Length"])))

HTTPServer(("", int(sys.argv[1])), Echo).serve_forever()
"""


@pytest.fixture(params=["in a network of its own", "on loopback"])
def alone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    alone = bool(request.param == "in a network of its own")
    if alone and not can_be_alone():
        pytest.skip("this system gives no process a network of its own")
    monkeypatch.setattr(engine_process, "can_be_alone", lambda: alone)
    return alone


@pytest.mark.usefixtures("alone")
def test_one_that_listens_is_ready(tmp_path: Path) -> None:
    told: list[tuple[str, int]] = []

    def command(host: str, port: int) -> list[str]:
        told.append((host, port))
        return [sys.executable, "-c", EVERYWHERE, str(port)]

    prepared: list[int] = []
    engine = Engine("own", "own", command, lambda: prepared.append(len(told)))
    with closing(DataPlane(engine, tmp_path / "log", KEY)) as data_plane:
        application = data_plane.application(lambda *_: [])
        assert prepared == [1]
        for number in range(3):
            assert ask(application, "GetItem", {"n": number}, region="us-east-1") == {"n": number}
    assert told[0][0].startswith("127.")


@pytest.mark.skipif(not can_be_alone(), reason="this system gives no process a network of its own")
def test_one_that_listens_everywhere_is_out_of_everybody_s_reach(tmp_path: Path) -> None:
    ports: list[int] = []

    def command(_: str, port: int) -> list[str]:
        ports.append(port)
        return [sys.executable, "-c", EVERYWHERE, str(port)]

    with closing(DataPlane(Engine("own", "own", command), tmp_path / "log", KEY)) as data_plane:
        data_plane.application(lambda *_: [])
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", ports[0]), timeout=60)


@pytest.mark.skipif(not can_be_alone(), reason="this system gives no process a network of its own")
def test_the_way_to_one_that_was_killed_is_an_error(tmp_path: Path) -> None:
    sleeping = [sys.executable, "-c", "import time; time.sleep(600)"]
    with engine_process.running(lambda *_: sleeping, output=subprocess.DEVNULL) as (child, connect):
        with pytest.raises(ConnectionRefusedError):
            connect()
        child.end()
        with pytest.raises(ConnectionError):
            connect()
