"""Forward requests to DynamoDB's items and streams in another server."""

import select
import socket
from collections.abc import Iterable
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from queue import Empty, LifoQueue
from typing import Final

from ..loopback import LOOPBACK
from .credentials import authorization
from .engine_process import Connect
from .wsgi import Answer, Environ, StartResponse, body_of, refusal, reply

_OF_THE_CONNECTION: Final = frozenset({"connection", "keep-alive", "transfer-encoding", "content-length"})


class HttpDataPlane:
    """A data plane that ``connect`` leads to, asked with one access key; connections are kept."""

    def __init__(self, told: str, connect: Connect, key: str) -> None:
        self._told = told
        self._connect = connect
        self._authorization = authorization(key)  # emulators look at nothing but the key
        self._idle: LifoQueue[HTTPConnection] = LifoQueue()

    def __call__(self, environ: Environ, start_response: StartResponse) -> Iterable[bytes]:
        """Return the data plane's answer, or DynamoDB's own error if it gives none."""
        try:
            answer = self._pass_on(environ)
        except (OSError, HTTPException) as error:
            answer = refusal(500, "InternalServerError", f"the data plane, {self._told}, does not answer: {error}")
        return reply(start_response, answer)

    def close(self) -> None:
        """Hang up."""
        with suppress(Empty):
            while True:
                self._idle.get_nowait().close()

    def _pass_on(self, environ: Environ) -> Answer:
        headers = {
            "Host": LOOPBACK,
            "Authorization": self._authorization,
            "X-Amz-Date": "20200101T000000Z",
            "X-Amz-Target": environ["HTTP_X_AMZ_TARGET"],
            "Content-Type": environ.get("CONTENT_TYPE", "application/x-amz-json-1.0"),
            "Accept-Encoding": "identity",
        }
        connection = self._connection()
        try:
            connection.request("POST", "/", body_of(environ), headers)
            found = connection.getresponse()
            answer = found.status, found.getheaders(), found.read()
        except BaseException:
            connection.close()
            raise
        self._idle.put(connection)
        status, told, body = answer
        return status, [(name, value) for name, value in told if name.lower() not in _OF_THE_CONNECTION], body

    def _connection(self) -> HTTPConnection:
        with suppress(Empty):
            while True:
                kept = self._idle.get_nowait()
                # Readable while nothing is asked: the server hung up.
                if kept.sock is None or not select.select([kept.sock], [], [], 0)[0]:
                    return kept
                kept.close()
        return _Connection(self._connect)


class _Connection(HTTPConnection):
    """A connection that ``way`` opens, and opens again."""

    def __init__(self, way: Connect) -> None:
        super().__init__(LOOPBACK)
        self._way = way

    def connect(self) -> None:
        self.sock = self._way()
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
