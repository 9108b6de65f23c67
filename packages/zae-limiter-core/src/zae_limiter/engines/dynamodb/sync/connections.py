"""Connections of the SDK that keep the deadline of an operation, in a pool without a lock.

urllib3's time-outs are for each read by itself: a server that sends one byte a second never exceeds them.
"""

import encodings.idna  # noqa: F401 - a socket's first connection imports it, in whatever thread
import io
import queue
from collections import deque
from http.client import HTTPException, HTTPResponse
from socket import socket
from typing import Any

from ...time_left import time_left


class TimedReader(io.RawIOBase):
    """The bytes of an answer, until the deadline of the operation."""

    def __init__(self, raw: io.RawIOBase, sock: socket) -> None:
        self._raw = raw
        self._sock = sock

    def readable(self) -> bool:
        """Return ``True``."""
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Read the bytes that are there. Raises ``TimeoutError`` after the deadline."""
        left = time_left()
        if left <= 0:
            raise TimeoutError("the answer did not come in time")
        longest = self._sock.gettimeout()
        if longest is None or left < longest:
            self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        """Close the inner reader."""
        self._raw.close()
        super().close()


class TimedResponse(HTTPResponse):
    """A response that has to be complete by the deadline of its operation."""

    def __init__(self, sock: socket, *args: Any, **options: Any) -> None:
        super().__init__(sock, *args, **options)
        self.fp: Any = io.BufferedReader(TimedReader(self.fp.detach(), sock))


class IdleConnections:
    """The idle connections of a pool, last in, first out, without a lock.

    ``queue.LifoQueue`` stays locked for ever if a signal handler raises just as it takes its lock. Then every thread
    that shares the client hangs at its next request.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._connections: deque[Any] = deque()  # no signal interrupts its methods

    def put(self, connection: Any, block: bool = False) -> None:  # noqa: ARG002, FBT001 - as urllib3 calls it
        """Add a connection. Raises ``queue.Full``."""
        if len(self._connections) >= self._most:
            raise queue.Full
        self._connections.append(connection)

    def get(self, block: bool = False, timeout: float | None = None) -> Any:  # noqa: ARG002, FBT001 - likewise
        """Take a connection out. Raises ``queue.Empty``."""
        try:
            return self._connections.pop()
        except IndexError:
            raise queue.Empty from None

    def qsize(self) -> int:
        """Return the number of connections."""
        return len(self._connections)


def connection_errors() -> tuple[type[Exception], ...]:
    """Return the errors of a connection. The SDK wraps any other exception raised below it, also that of a signal
    handler.
    """
    import urllib3

    return OSError, HTTPException, urllib3.exceptions.HTTPError


def keep_time(sdk: Any) -> None:
    """Make a botocore client's connections keep the deadline of an operation, and pool them without a lock."""
    http = sdk._endpoint.http_session
    pools = {scheme: _timed_pool(pool) for scheme, pool in http._pool_classes_by_scheme.items()}
    http._pool_classes_by_scheme = http._manager.pool_classes_by_scheme = pools


def _timed_pool(pool: Any) -> Any:
    connection = pool.ConnectionCls

    def connect(self: Any) -> Any:
        left = max(time_left(), 0.001)
        self.timeout = left if self.timeout is None else min(self.timeout, left)
        return connection.connect(self)

    timed = type(f"Timed{connection.__name__}", (connection,), {"response_class": TimedResponse, "connect": connect})
    return type(f"Timed{pool.__name__}", (pool,), {"ConnectionCls": timed, "QueueCls": IdleConnections})
