"""What lives here: a server between a client and an emulator that delays, drops or refuses what a test names.
What never does: an answer of its own to a request that no fault is for.
"""

import http.client
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Literal, cast
from urllib.parse import urlsplit

Kind = Literal["drop", "throttle", "late"]
Answer = tuple[int, dict[str, str], bytes]
THROTTLED = json.dumps(
    {
        "__type": "com.amazonaws.dynamodb.v20120810#ProvisionedThroughputExceededException",
        "message": "The level of configured provisioned throughput for the table was exceeded.",
        "ThrottlingReasons": [
            {
                "reason": "TableWriteKeyRangeThroughputExceeded",
                "resource": "arn:aws:dynamodb:us-east-1:123456789012:table/zae-limiter",
            }
        ],
    }
).encode()


@dataclass(slots=True)
class Fault:
    """What is done to requests of a name whose body has ``about`` in it, ``times`` times.

    ``drop``: the connection ends, nothing is passed on. ``throttle``: DynamoDB's refusal, nothing is passed on.
    ``late``: it is passed on at once, its answer comes after ``seconds``.
    """

    kind: Kind
    request: str
    about: str = ""
    times: int = 1_000_000
    seconds: float = 0.0

    def takes(self, request: str, body: bytes) -> bool:
        """Whether it is for this request; counts it."""
        hit = self.request == request and self.about.encode() in body and self.times > 0
        self.times -= hit
        return hit


@dataclass(frozen=True, slots=True)
class Call:
    """A request that came by: DynamoDB's name for it, when it came and when its answer went, in monotonic seconds."""

    request: str
    body: bytes
    begun: float
    ended: float


@dataclass
class Proxy:
    """Where to connect to, the faults to come, and the calls so far."""

    url: str
    faults: list[Fault] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    arrived: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(0))
    lock: threading.Lock = field(default_factory=threading.Lock)
    stop: Callable[[], None] = lambda: None

    def fault_for(self, request: str, body: bytes) -> Fault | None:
        """The first fault that is for this request."""
        with self.lock:
            return next((fault for fault in self.faults if fault.takes(request, body)), None)

    def clear(self) -> None:
        """No faults any more, no calls so far."""
        with self.lock:
            self.faults = []
            self.calls = []


@contextmanager
def between(upstream: str) -> Iterator[Proxy]:
    """A proxy in front of an emulator, on a port of its own."""
    server = _Server(("127.0.0.1", 0), _Handler)
    server.upstream = urlsplit(upstream).netloc
    server.proxy = Proxy(f"http://127.0.0.1:{server.server_port}", stop=server.stop)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        yield server.proxy
    finally:
        server.stop()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = 128
    upstream: str
    proxy: Proxy

    def __init__(self, *args: Any) -> None:
        super().__init__(*args)
        self.clients: list[socket.socket] = []

    def process_request(self, request: Any, client_address: Any) -> None:
        self.clients.append(request)
        super().process_request(request, client_address)

    def stop(self) -> None:
        """Nobody listens any more, and every connection ends."""
        self.shutdown()
        self.server_close()
        for client in self.clients:
            with suppress(OSError):  # it may have ended by itself
                client.shutdown(socket.SHUT_RDWR)
        self.clients.clear()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing: a client that gave up is what the test is about."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.upstream = cast("_Server", self.server).upstream
        self.behind = http.client.HTTPConnection(self.upstream)

    def finish(self) -> None:
        self.behind.close()
        super().finish()

    def do_POST(self) -> None:
        proxy, begun = cast("_Server", self.server).proxy, time.monotonic()
        name = self.headers.get("X-Amz-Target", "").rpartition(".")[2]
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        proxy.arrived.release()
        fault = proxy.fault_for(name, body)
        answer = self._reply(body, fault)
        # noted before the client has the answer, so that a test that has it finds the call
        proxy.calls.append(Call(name, body, begun, time.monotonic()))
        if answer is None:
            self.close_connection = True
        else:
            self._answer(*answer)

    def _reply(self, body: bytes, fault: Fault | None) -> Answer | None:
        if fault is not None and fault.kind == "drop":
            return None
        if fault is not None and fault.kind == "throttle":
            return 400, {"Content-Type": "application/x-amz-json-1.0"}, THROTTLED
        answer = self._pass_on(body)
        time.sleep(fault.seconds if fault is not None else 0)
        return answer

    def _pass_on(self, body: bytes) -> Answer:
        headers = {**dict(self.headers.items()), "Host": self.upstream}
        self.behind.request("POST", "/", body, headers)
        answer = self.behind.getresponse()
        told = {name: value for name, value in answer.headers.items() if name.lower() not in _OWN_HEADERS}
        return answer.status, told, answer.read()

    def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


_OWN_HEADERS = frozenset(("content-length", "connection", "transfer-encoding", "keep-alive"))
