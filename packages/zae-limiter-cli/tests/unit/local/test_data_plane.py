import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from zae_limiter_cli.errors import CommandError
from zae_limiter_cli.local.data_plane import DataPlane
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
    with closing(HttpDataPlane("echo", echo, KEY)) as data_plane:
        status, headers, body = call(data_plane, request)
    assert (status, body) == (200, b'{"a": 1}')
    told = {name.lower(): value for name, value in headers}
    assert (told["x-amz-crc32"], told["x-target"], told["x-key"]) == ("17", "DynamoDB_20120810.PutItem", KEY)
    assert told["content-length"] == "8"


def test_a_connection_that_was_hung_up_is_not_used_again(echo: str) -> None:
    with closing(HttpDataPlane("echo", echo, KEY)) as data_plane:
        for number in range(12):
            assert ask(data_plane, "GetItem", {"n": number}, region="us-east-1") == {"n": number}


def test_a_data_plane_that_is_gone_is_dynamodb_s_own_error() -> None:
    with pytest.raises(Refused, match="InternalServerError: the data plane, gone, does not answer"):
        ask(HttpDataPlane("gone", "127.0.0.1:1", KEY), "GetItem", {}, region="us-east-1")


def test_one_that_ends_at_once_says_its_last_words(tmp_path: Path) -> None:
    engine = Engine("broken", "broken", lambda *_: [sys.executable, "-c", "raise SystemExit('no licence')"])
    data_plane = DataPlane(engine, tmp_path / "log", KEY)
    with pytest.raises(CommandError, match="--data-plane broken: it ended with code 1: no licence"):
        data_plane.application(lambda *_: [])
    data_plane.close()


def test_one_that_listens_is_ready(tmp_path: Path) -> None:
    serve = "import http.server, sys; http.server.test(port=int(sys.argv[1]), bind=sys.argv[2])"
    data_plane = DataPlane(
        Engine("own", "own", lambda host, port: [sys.executable, "-c", serve, str(port), host]), tmp_path / "log", KEY
    )
    assert isinstance(data_plane.application(lambda *_: []), HttpDataPlane)
    data_plane.close()
