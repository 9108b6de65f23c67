"""The door of a server: it reads a head of bounded size, and refuses a stranger's request by that alone."""

import socket
import time
from contextlib import suppress
from http.client import LineTooLong
from http.server import BaseHTTPRequestHandler
from io import BufferedIOBase
from typing import Any, Final, cast

from .crowd import Crowd
from .wsgi import Answer

MOST_HEAD_BYTES: Final = 65_536  # the longest presigned URL that SDKs make has some 10,000
HEAD_SECONDS: Final = 30.0  # without a byte of it

# A client that still sends when we hang up may lose our answer, so a little more is taken and dropped.
_MOST_DROPPED_BYTES: Final = 1_000_000
_DROPPING_SECONDS: Final = 0.5


class Door(BaseHTTPRequestHandler):
    """A handler of HTTP requests that ``refusal`` lets in; its server is a ``Crowd``."""

    raw_requestline: bytes

    def refusal(self) -> Answer | None:
        """Return the answer to a request that is refused, by its head; ``None`` to let it in."""
        raise NotImplementedError

    def setup(self) -> None:
        """Prepare the connection, and bound the wait for the first head."""
        super().setup()
        self.connection.settimeout(HEAD_SECONDS)

    def parse_request(self) -> bool:
        """Return whether a request is let in; answer one that is not, and hang up."""
        stream: Any = self.rfile
        self.rfile = _Head(stream, MOST_HEAD_BYTES - len(self.raw_requestline))  # type: ignore[assignment]  # it reads lines
        try:
            let_in = super().parse_request()
        finally:
            self.rfile = stream
        refused = self.refusal() if let_in else None
        if let_in and refused is None:
            self.connection.settimeout(None)
            return cast("Crowd", self.server).let_in(self.connection)
        with suppress(OSError):
            self._hang_up(refused)
        return False

    def handle_expect_100(self) -> bool:
        """Ask for no body before the request is let in."""
        return True

    def reply(self, answer: Answer) -> None:
        """Send an answer."""
        status, headers, body = answer
        self.send_response_only(status)
        for name, value in (*headers, ("Content-Length", str(len(body)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def _hang_up(self, refused: Answer | None) -> None:
        self.close_connection = True
        if refused is not None:  # or else it was not a request, and that has been answered
            status, headers, body = refused
            self.reply((status, [*headers, ("Connection", "close")], body))
        self.wfile.flush()
        self.connection.shutdown(socket.SHUT_WR)
        self.connection.settimeout(_DROPPING_SECONDS)
        left, deadline = _MOST_DROPPED_BYTES, time.monotonic() + _DROPPING_SECONDS
        while left > 0 and time.monotonic() < deadline and (dropped := self.connection.recv(65_536)):
            left -= len(dropped)


class _Head:
    """The lines of a head. Raises ``LineTooLong`` where they are longer together than ``most_bytes``."""

    def __init__(self, stream: BufferedIOBase, most_bytes: int) -> None:
        self._stream = stream
        self._left = most_bytes

    def readline(self, limit: int) -> bytes:
        line = self._stream.readline(min(limit, self._left + 1))
        self._left -= len(line)
        if self._left < 0:
            raise LineTooLong("head")
        return line
