"""Real servers in processes of their own, and a client over a socket.

Lives here: starting, asking, leaving. Never: a claim.
"""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from typing import Any, Final, NamedTuple

TESTS: Final = Path(__file__).resolve().parents[3]
START_SECONDS: Final = 60
STOP_SECONDS: Final = 10
COMMANDS: Final = {
    "uvicorn": ["uvicorn", "--log-level", "warning", "--port", "{port}"],
    "gunicorn": ["gunicorn", "--log-level", "warning", "--threads", "4", "--bind", "127.0.0.1:{port}"],
}


class Answer(NamedTuple):
    """A response, read to its end."""

    status: int
    headers: dict[str, str]
    body: bytes


class Served:
    """An application that is being served on a port."""

    def __init__(self, port: int) -> None:
        self.port = port

    def get(self, path: str, user: str = "", **headers: str) -> Answer:
        """Ask on a connection of its own; the names of headers have ``_`` for ``-``."""
        return _read(*self._ask("GET", path, user, headers))

    def post(self, path: str, document: object) -> Answer:
        """Send JSON on a connection of its own."""
        return _read(*self._ask("POST", path, "", {"Content-Type": "application/json"}, json.dumps(document)))

    def balance(self, user: str) -> dict[str, int]:
        """What the user has left."""
        return dict(json.loads(self.get("/balance", user).body))

    def leave(self, path: str, user: str, *, after: int) -> None:
        """Ask, read so many bytes of the answer's body, and leave."""
        connection, response = self._ask("GET", path, user, {})
        with closing(connection):
            assert len(response.read(after)) == after
            response.close()

    @contextmanager
    def asking(self, path: str, user: str) -> Iterator[None]:
        """Ask; leave at the end of the block, without an answer."""
        with socket.create_connection(("127.0.0.1", self.port)) as connected:
            connected.sendall(f"GET {path} HTTP/1.1\r\nHost: test\r\nX-User: {user}\r\n\r\n".encode())
            yield

    def _ask(
        self, method: str, path: str, user: str, headers: Mapping[str, str], body: str | None = None
    ) -> tuple[HTTPConnection, HTTPResponse]:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=30)
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        connection.request(method, path, body, {"X-User": user, **named})
        return connection, connection.getresponse()


def _read(connection: HTTPConnection, response: HTTPResponse) -> Answer:
    with closing(connection):
        return Answer(response.status, {name.lower(): text for name, text in response.getheaders()}, response.read())


@contextmanager
def serving(server: str, application: str, folder: Path = TESTS, **environ: str) -> Iterator[Served]:
    """Serve ``module:name`` until the end of the block."""
    port = free_port()
    command = [sys.executable, "-m", *(each.format(port=port) for each in COMMANDS[server]), application]
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONUNBUFFERED": "1"} | environ
    process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        wait_for(port, process)
        yield Served(port)
    finally:
        print(stop(process), file=sys.stderr)


def stop(process: subprocess.Popen[Any]) -> Any:
    """End it; returns what it wrote on stderr."""
    process.terminate()
    try:
        return process.communicate(timeout=STOP_SECONDS)[1]
    except subprocess.TimeoutExpired:  # a server that waits for an application
        process.kill()
        return process.communicate()[1]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for(port: int, process: subprocess.Popen[Any]) -> None:
    """Wait until the process listens on the port."""
    end = time.monotonic() + START_SECONDS
    while time.monotonic() < end:
        assert process.poll() is None, process.communicate()[1]
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise TimeoutError(f"no server on port {port} within {START_SECONDS} s")
