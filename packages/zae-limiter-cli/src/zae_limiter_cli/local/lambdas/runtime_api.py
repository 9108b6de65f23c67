"""The Runtime API of one Lambda process: it hands out calls and takes the answers, over HTTP.

https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html
"""

import json
import os
import re
import threading
from dataclasses import dataclass
from functools import cached_property
from http.server import HTTPServer
from queue import SimpleQueue
from secrets import compare_digest
from socketserver import TCPServer
from typing import Any, Final, cast

from ...loopback import hidden_host
from ..crowd import Crowd
from ..door import Door
from ..gate import forbidden, foreign_to
from ..peer import user_of
from ..wsgi import Answer
from .loop import KEY_HEADER

MOST_RESPONSE_BYTES: Final = 6_291_556

OF_ANOTHER_USER: Final = "the Runtime API of a function answers that function alone"

_ANSWER: Final = re.compile(r"/2018-06-01/runtime/invocation/([^/]+)/(response|error)")


@dataclass(frozen=True, slots=True)
class Invocation:
    """One call; ``deadline_ms`` is a time of the epoch."""

    request_id: str
    payload: bytes
    function_arn: str
    deadline_ms: int
    client_context: str | None = None


@dataclass(frozen=True, slots=True)
class Ready:
    """The process asks for a call."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What a handler returned, or with ``failed`` how it ended."""

    request_id: str
    payload: bytes
    failed: bool


@dataclass(frozen=True, slots=True)
class TooLarge:
    """A handler returned more than Lambda lets through."""

    request_id: str


@dataclass(frozen=True, slots=True)
class InitFailed:
    """The handler could not be loaded."""

    payload: bytes


@dataclass(frozen=True, slots=True)
class Exited:
    """The process is gone; negative codes are signals."""

    code: int


Event = Ready | Answered | TooLarge | InitFailed | Exited


class RuntimeApi:
    """A server on a port of its own; ``events`` has what the process says.

    It answers processes of ``user``, by default this process's, that present ``key``.
    """

    def __init__(self, key: str, *, user: int | None = None) -> None:
        self.key = key
        self.user = os.geteuid() if user is None else user
        self.events: SimpleQueue[Event] = SimpleQueue()
        self.calls: SimpleQueue[Invocation | None] = SimpleQueue()
        self._server = _Server((hidden_host(), 0), _Handler)
        self._server.api = self
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    @property
    def address(self) -> str:
        """The address, as AWS_LAMBDA_RUNTIME_API has it."""
        return self._server.address

    def close(self) -> None:
        """Stop answering."""
        self.calls.put(None)
        self._server.shutdown()
        self._server.server_close()


class _Server(Crowd, HTTPServer):
    daemon_threads = True
    block_on_close = False
    api: RuntimeApi

    @property
    def address(self) -> str:
        return f"{self.server_name}:{self.server_port}"

    def server_bind(self) -> None:
        """Bind without asking DNS for the name of the address, which may take seconds."""
        TCPServer.server_bind(self)
        self.server_name, self.server_port = self.socket.getsockname()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Log nothing: a process that was killed while it asked leaves a broken connection."""


class _Handler(Door):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    @property
    def _api(self) -> RuntimeApi:
        return cast("_Server", self.server).api

    def refusal(self) -> Answer | None:
        """Return the answer to a web page and to another user of this machine: only a function's process may ask."""
        foreign = foreign_to(self.headers, (cast("_Server", self.server).address,))
        if foreign is None and not (self._has_the_key() or self._user == self._api.user):
            foreign = OF_ANOTHER_USER
        return None if foreign is None else forbidden(foreign)

    @cached_property
    def _user(self) -> int | None:
        return user_of(self.connection)

    def _has_the_key(self) -> bool:
        return compare_digest(self.headers.get(KEY_HEADER, "").encode(), self._api.key.encode())

    def do_GET(self) -> None:  # noqa: N802  http.server's name
        self._api.events.put(Ready())
        call = self._api.calls.get()
        if call is None:
            self.close_connection = True
            return
        headers = [
            ("Lambda-Runtime-Aws-Request-Id", call.request_id),
            ("Lambda-Runtime-Deadline-Ms", str(call.deadline_ms)),
            ("Lambda-Runtime-Invoked-Function-Arn", call.function_arn),
            ("Content-Type", "application/json"),
        ]
        if call.client_context is not None:
            headers.append(("Lambda-Runtime-Client-Context", call.client_context))
        self.reply((200, headers, call.payload))

    def do_POST(self) -> None:  # noqa: N802  likewise
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        event = _event(self.path, body)
        self._api.events.put(event)
        if isinstance(event, TooLarge):
            told = {"errorType": "RequestEntityTooLarge", "errorMessage": _too_large_for_runtime()}
            self.reply((413, [], json.dumps(told).encode()))
        else:
            self.reply((202, [], b'{"status":"OK"}'))


def _event(path: str, body: bytes) -> Event:
    found = _ANSWER.fullmatch(path)
    if found is None:
        return InitFailed(body)
    request_id, kind = found.groups()
    if len(body) > MOST_RESPONSE_BYTES:
        return TooLarge(request_id)
    return Answered(request_id, body, failed=kind == "error")


def _too_large_for_runtime() -> str:
    return f"Exceeded maximum allowed payload size ({MOST_RESPONSE_BYTES} bytes)."
