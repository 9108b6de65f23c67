"""The command line, and a stack's planner and provisioner behind HTTP whose table is in memory.

Lives here: how a test sets them up. Never: a claim.
"""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from click.testing import CliRunner, Result

from support.provisioner.provisions import World
from zae_limiter_cli.main import main
from zae_limiter_provisioner import handler
from zae_limiter_provisioner.table import Table

PATH = "/2015-03-31/functions/my-app-limits-{}/invocations"
PLANNER, PROVISIONER = PATH.format("planner"), PATH.format("provisioner")
HANDLERS = {PLANNER: "on_plan_event", PROVISIONER: "on_event"}
CODES = {403: "AccessDeniedException", 404: "ResourceNotFoundException"}


class Stack:
    """What the stack my-app answers, and what a shell that talks to it finds."""

    def __init__(self, url: str, directory: Path) -> None:
        self.url = url
        self.directory = directory
        self.world = World()
        self.paths: list[str] = []
        self.asked: list[dict[str, Any]] = []
        self.before: Callable[[dict[str, Any]], None] = lambda _: None
        self.failing: dict[str, Any] | None = None
        self.aliases: set[str] = set()  # of both functions
        self.refused: dict[str, int] = {}  # status by path, where a function is missing or forbidden
        self.dropping = False  # whether connections end without an answer

    def table(self) -> Table:
        """The table of its world now."""
        return self.world.table()

    def write(self, content: str, name: str = "alpha.yaml") -> str:
        """A file, by its path."""
        path = self.directory / name
        path.write_text(content, encoding="utf-8")
        return str(path)

    def run(self, *args: str, input: str | None = None) -> Result:  # noqa: A002  click's name
        return CliRunner().invoke(main, ["limits", "-n", "my-app", "--endpoint-url", self.url, *args], input=input)

    def ok(self, *args: str, code: int = 0) -> str:
        """Standard output of a command that ends so."""
        done = self.run(*args)
        assert done.exit_code == code, done.output
        assert done.stderr == "", done.stderr
        return done.stdout

    def error(self, *args: str) -> str:
        """The error of a command that fails, without what stands before it."""
        done = self.run(*args)
        assert (done.exit_code, done.stdout) == (1, ""), done.output
        return done.stderr.removeprefix("Error: ")

    def actions(self) -> list[str]:
        """What was asked since."""
        asked = [each.get("action", "packed") for each in self.asked]
        self.asked.clear()
        return asked


def invoked(path: str, alias: str) -> Any:
    """What Lambda tells a handler that was invoked by an alias, if by one."""
    arn = f"arn:aws:lambda:us-east-1:123456789012:function:{path.split('/')[3]}:{alias}".removesuffix(":")
    return SimpleNamespace(invoked_function_arn=arn, get_remaining_time_in_millis=lambda: 900_000)


class _Server(ThreadingHTTPServer):
    daemon_threads = False  # its end waits for a request whose command was interrupted: what it asks is still patched

    def handle_error(self, *_: object) -> None:
        """Keep quiet about a command that was interrupted."""


@contextmanager
def serving(directory: Path) -> Iterator[Stack]:
    """The stack my-app, which answers."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            event = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            stack.paths.append(self.path)
            stack.asked.append(event)
            failing = stack.failing
            path, _, alias = self.path.partition("?Qualifier=")
            there = path in HANDLERS and (not alias or alias in stack.aliases)
            status = stack.refused.get(self.path, 200 if there else 404)
            told = (
                failing or getattr(handler, HANDLERS[path])(event, invoked(path, alias))
                if status == 200
                else {"Message": "by a test"}
            )
            stack.before(event)
            if stack.dropping:
                self.close_connection = True
                return
            body = json.dumps(told).encode()
            self.send_response(status)
            if status in CODES:
                self.send_header("X-Amzn-ErrorType", CODES[status])
            if failing:
                self.send_header("X-Amz-Function-Error", "Unhandled")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    server = _Server(("127.0.0.1", 0), Handler)
    stack = Stack(f"http://127.0.0.1:{server.server_port}", directory)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield stack
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
