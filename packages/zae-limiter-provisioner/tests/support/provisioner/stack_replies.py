"""A ResponseURL as CloudFormation has one: it takes replies, refuses some, or does not answer.

Lives here: that. Never: a claim.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Replies:
    """What came; ``refusing`` so many of the next PUTs are answered with 503."""

    url: str = ""
    bodies: list[bytes] = field(default_factory=list)
    types: list[str | None] = field(default_factory=list)
    refusing: int = 0
    came: threading.Event = field(default_factory=threading.Event)

    @property
    def only(self) -> dict[str, Any]:
        """The one reply that was taken."""
        (body,) = self.bodies
        told: dict[str, Any] = json.loads(body)
        return told


@contextmanager
def slow_response_url() -> Iterator[str]:
    """An address that accepts each reply, and says so byte by byte, for some seconds."""
    left = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            for byte in b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n":
                if left.wait(0.1):
                    return
                self.wfile.write(bytes([byte]))

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    with _serving(Handler) as url:
        yield url
        left.set()


@contextmanager
def response_url() -> Iterator[Replies]:
    """An address that takes replies."""
    replies = Replies()

    class Handler(BaseHTTPRequestHandler):
        def do_PUT(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if replies.refusing:
                replies.refusing -= 1
                self.send_response(503)
            else:
                replies.bodies.append(body)
                replies.types.append(self.headers.get("Content-Type"))
                self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()
            if replies.bodies:
                replies.came.set()

        def log_message(self, *_: object) -> None:
            """Keep quiet."""

    with _serving(Handler) as replies.url:
        yield replies


@contextmanager
def _serving(handler: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}/reply?signature=x"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
