"""What lives here: many connections at a server of the local AWS, from those who may ask it and from others.
What does not: what is refused by a head, which is the door's.
"""

import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from urllib.parse import urlsplit

import pytest

from zae_limiter_cli.local.gate import Gate
from zae_limiter_cli.local.lambdas.runtime_api import RuntimeApi
from zae_limiter_cli.local.server import Server, listen
from zae_limiter_cli.local.wsgi import Environ, StartResponse, reply

MOST = 4
KEY = "KEYOFTHESTACK"


class Stack:
    """A server that answers once ``go`` is set."""

    def __init__(self, listening: socket.socket) -> None:
        self.go, self.under_way = threading.Event(), threading.Semaphore(0)
        self.host, self.port = listening.getsockname()
        self.server = Server(listening, Gate(self._answer, self.port, KEY))

    def _answer(self, environ: Environ, start_response: StartResponse) -> list[bytes]:
        self.under_way.release()
        self.go.wait(60)
        return [*reply(start_response, (200, [], b"answered"))]

    def connected(self) -> socket.socket:
        return socket.create_connection((self.host, self.port), timeout=60)

    def asking(self) -> socket.socket:
        connection = self.connected()
        head = f"GET / HTTP/1.1\r\nHost: {self.host}:{self.port}\r\nAuthorization: AWS {KEY}:any\r\n\r\n"
        connection.sendall(head.encode())
        return connection


@pytest.fixture
def stack(monkeypatch: pytest.MonkeyPatch) -> Iterator[Stack]:
    monkeypatch.setattr("zae_limiter_cli.local.crowd.MOST_CONNECTIONS", MOST)
    with listen(0) as listening:
        stack = Stack(listening)
        yield stack
        stack.go.set()
        stack.server.close()


def said(connection: socket.socket) -> bytes:
    """What a server says until it hangs up."""
    return b"".join(iter(lambda: connection.recv(65_536), b""))


def test_connections_that_ask_nothing_have_a_bound(stack: Stack) -> None:
    with ExitStack() as clients:
        idle = [clients.enter_context(stack.connected()) for _ in range(5 * MOST)]
        assert [said(each) for each in idle[:-MOST]] == [b""] * 4 * MOST
        idle[-1].settimeout(0.05)
        with pytest.raises(TimeoutError):
            said(idle[-1])


def test_who_has_the_key_is_answered_whoever_else_holds_connections(stack: Stack) -> None:
    stack.go.set()
    with ExitStack() as clients:
        for _ in range(3):
            for _ in range(2 * MOST):
                clients.enter_context(stack.connected())
            assert b"answered" in said(clients.enter_context(stack.asking()))


def test_more_requests_than_there_is_room_for_are_refused_and_the_others_answered(stack: Stack) -> None:
    with ExitStack() as clients:
        under_way = [clients.enter_context(stack.asking()) for _ in range(MOST)]
        for _ in under_way:
            assert stack.under_way.acquire(timeout=60)
        refused = said(clients.enter_context(stack.asking()))
        assert refused.startswith(b"HTTP/1.1 503 ")
        assert refused.endswith(b"as many requests under way as it takes at a time; try again\n")
        stack.go.set()
        assert all(b"answered" in said(each) for each in under_way)
        assert b"answered" in said(clients.enter_context(stack.asking()))


def test_the_runtime_api_has_the_bound_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zae_limiter_cli.local.crowd.MOST_CONNECTIONS", MOST)
    with closing(RuntimeApi(KEY)) as api, ExitStack() as clients:
        place = urlsplit(f"//{api.address}")
        idle = [
            clients.enter_context(socket.create_connection((str(place.hostname), place.port or 0), timeout=60))
            for _ in range(2 * MOST)
        ]
        assert [said(each) for each in idle[:-MOST]] == [b""] * MOST
