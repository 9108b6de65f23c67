import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs

import pytest

STACK = (
    "<DescribeStacksResponse><DescribeStacksResult><Stacks><member><StackName>my-app</StackName><StackId>arn</StackId>"
    "<CreationTime>2026-01-01T00:00:00Z</CreationTime><StackStatus>CREATE_IN_PROGRESS</StackStatus>"
    "</member></Stacks></DescribeStacksResult></DescribeStacksResponse>"
)
ANSWERS = {
    "DescribeStacks": STACK,
    "CreateStack": "<CreateStackResponse><CreateStackResult/></CreateStackResponse>",
    "DescribeStackEvents": (
        "<DescribeStackEventsResponse><DescribeStackEventsResult><StackEvents/>"
        "</DescribeStackEventsResult></DescribeStackEventsResponse>"
    ),
}
NO_STACK = (
    "<ErrorResponse><Error><Code>ValidationError</Code><Message>my-app does not exist</Message></Error></ErrorResponse>"
)

NO_TABLE = '{"__type": "com.amazonaws.dynamodb.v20120810#ResourceNotFoundException", "message": "none"}'


class NeverDone(BaseHTTPRequestHandler):
    """A CloudFormation that takes a stack, and goes on for ever; a DynamoDB without the table."""

    created = False
    watched = threading.Event()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"])).decode()
        if "X-Amz-Target" in self.headers:
            self.answer(400, NO_TABLE)
            return
        asked = parse_qs(body)
        (action,) = asked["Action"]
        if action == "DescribeStacks" and not NeverDone.created:
            self.answer(400, NO_STACK)
            return
        NeverDone.created |= action == "CreateStack"
        self.answer(200, ANSWERS[action])
        if action == "DescribeStackEvents":
            NeverDone.watched.set()

    def answer(self, status: int, body: str) -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the base class calls it so
        """Keep quiet."""


@pytest.fixture
def endpoint() -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), NeverDone)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_address[1]}"
    server.shutdown()
    server.server_close()


@pytest.mark.slow
def test_ctrl_c_says_what_goes_on(endpoint: str) -> None:
    ask = "from zae_limiter_cli.main import main; main()"
    waiting = subprocess.Popen(
        [sys.executable, "-c", ask, "deploy", "--yes", "-n", "my-app", "--endpoint-url", endpoint],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "AWS_CONFIG_FILE": os.devnull, "AWS_SHARED_CREDENTIALS_FILE": os.devnull},
    )
    try:
        assert NeverDone.watched.wait(60)
        waiting.send_signal(signal.SIGINT)
        _, told = waiting.communicate(timeout=60)
    finally:
        waiting.kill()
    assert waiting.returncode == 1
    (line,) = told.splitlines()
    assert line.startswith("Error: stopped waiting; CloudFormation continues: `zae-limiter status")
