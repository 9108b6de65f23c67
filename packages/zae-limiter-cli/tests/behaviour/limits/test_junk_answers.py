"""What answers in the place of a Lambda, such as a proxy: what is not JSON is told in a line."""

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from click.testing import CliRunner

from zae_limiter_cli.main import main


class _Junk(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b"<html>sign in</html>")

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def junk() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), _Junk) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_an_answer_that_is_no_json_is_an_error_of_one_line(junk: str, tmp_path: Path) -> None:
    manifest = tmp_path / "limits.yaml"
    manifest.write_text("namespace: default\nresources:\n  gpt-4:\n    limits:\n      rpm: {capacity: 100}\n")
    result = CliRunner().invoke(
        main, ["limits", "plan", "--name", "demo-stack", "--endpoint-url", junk, "-f", str(manifest)]
    )
    assert result.exit_code == 1
    told = "demo-stack-limits-planner: the answer is not JSON: check --endpoint-url, and any proxy before it"
    assert result.stderr == f"Error: {told}\n"
