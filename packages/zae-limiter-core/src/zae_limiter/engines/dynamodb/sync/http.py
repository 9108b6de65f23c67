"""Requests over HTTP/1.1 on blocking sockets: connections, their pool, and the client that threads share.

The exception of a signal handler may interrupt a caller anywhere. So the pool has no lock, and whatever an interrupted
caller held comes back to it as soon as it is garbage.
"""

import math
import socket
import ssl
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from typing import Any, Final

from ....operations.errors import OutcomeUnknown, StoreError, Unreachable
from ....operations.values import Operation
from ....runtime.elapsed import elapsed
from ....runtime.sockets import closed_before, ends, is_readable, is_writable
from ...time_left import check_time, left_until, time_left
from ..aws.opening import Service
from ..aws.trust import untrusted
from ..faults import is_of_credentials, read_fault
from ..options import LEAST_SHARE, ClientOptions
from ..protocol.answers import NOT_READ, ErrorAnswer, read_response
from ..protocol.responses import Response, ResponseReader
from ..protocol.signing import Credentials
from .connecting import connected, found
from .primitives import refreshed

IDLE_SECONDS: Final = 10.0  # DynamoDB closes a connection that is idle for longer
LOOK_SECONDS: Final = 1.0  # between two looks for idle connections
RECHECK_SECONDS: Final = 0.05  # a waiter looks again, in case the one before it was interrupted
RECEIVE_BYTES: Final = 65_536


class Connection:
    """One connection, which carries one call at a time. Its socket does not block: it costs fewer system calls."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._is_tls = isinstance(sock, ssl.SSLSocket)
        self.idle_since = 0.0

    def call(self, request: bytes, until: float) -> Response:
        """Return the answer that is whole at ``until``, an instant of ``time.monotonic``.

        Raises ``Unreachable`` if the server certainly did not read the whole request, else ``OutcomeUnknown``; the
        connection is of no further use after an exception.
        """
        try:
            self._send(request, until)
        except OSError as error:
            check_time(error, until)
            raise Unreachable(f"the connection broke before the request was sent: {error}") from error
        try:
            return self._answer(len(request), until)
        except TimeoutError as error:
            check_time(error, until)
            raise OutcomeUnknown("the answer did not come in time") from error
        except OSError as error:
            raise OutcomeUnknown(f"the connection broke: {error}") from error

    @property
    def is_fresh(self) -> bool:
        """Whether another call may use the connection: it was not idle for long, and the server has not closed it."""
        return elapsed() - self.idle_since < IDLE_SECONDS and not is_readable(self._socket)

    def close(self) -> None:
        """Close the connection."""
        self._socket.close()

    def _send(self, data: bytes, until: float) -> None:
        sent = 0
        while sent < len(data):
            try:
                sent += self._socket.send(memoryview(data)[sent:] if sent else data)
            except (BlockingIOError, ssl.SSLWantWriteError):
                is_writable(self._socket, left_until(until))
            except ssl.SSLWantReadError:
                is_readable(self._socket, left_until(until))

    def _answer(self, sent: int, until: float) -> Response:
        """Return the answer to a request of ``length`` bytes. Raises ``OSError``, and the errors of ``call``."""
        reader, response, waits = ResponseReader(), None, True
        while response is None:
            data = self._receive(sent, until, waits=waits)
            response = reader.feed(data) if data else reader.end()
            waits = not self._is_tls  # bytes that TLS has decrypted do not make a socket readable
        return response

    def _receive(self, sent: int, until: float, *, waits: bool) -> bytes:
        """Return the bytes that come next, none at the end of the connection. Raises ``OSError``, ``Unreachable``.

        With ``waits`` it waits until the socket is readable before it asks.
        """
        while True:
            left = left_until(until)
            if waits and ends(self._socket, left) and closed_before(self._socket, sent):
                raise Unreachable(NOT_READ)
            try:
                return self._socket.recv(RECEIVE_BYTES)
            except (BlockingIOError, ssl.SSLWantReadError):
                waits = True
            except ssl.SSLWantWriteError:
                is_writable(self._socket, left_until(until))


class Slot:
    """The right to one connection, and the connection if it is open. A lost slot comes back to the pool."""

    def __init__(self, free: "weakref.ref[deque[Slot]]") -> None:
        self._free = free
        self.connection: Connection | None = None
        self.credentials: Credentials | None = None  # of its last call

    def close(self) -> None:
        """Close the connection."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()

    def __del__(self) -> None:
        free = self._free()
        if free is not None:
            free.append(type(self)(self._free))
        self.close()


class Turn:
    """The place of a caller in the queue for a slot."""

    def __init__(self) -> None:
        self.waker = threading.Lock()
        self.waker.acquire()


class Pool:
    """At most ``most`` connections; callers that wait for one are served in their order."""

    def __init__(self, most: int) -> None:
        self._free: deque[Slot] = deque()  # the last used one is at the end; no signal interrupts a deque's methods
        self._ref = weakref.ref(self._free)  # kept here: that of slots which are garbage is garbage, too
        self._free.extend(Slot(self._ref) for _ in range(most))
        self._waiting: deque[weakref.ref[Turn]] = deque()  # a caller that was interrupted is garbage
        self._next_look = -math.inf
        self._closed = False

    def take(self, until: float) -> Slot:
        """Wait for a slot and return it by ``until``, an instant of ``time.monotonic``. Raises ``Unreachable``."""
        if not self._waiting:
            with suppress(IndexError):
                return self._free.pop()
        turn = Turn()
        place = weakref.ref(turn)
        self._waiting.append(place)
        try:
            return self._wait(turn, until)
        finally:
            with suppress(ValueError):
                self._waiting.remove(place)
            self._wake()

    def give(self, slot: Slot) -> None:
        """Take a slot back."""
        if self._closed:
            slot.close()
        elif slot.connection is not None:
            slot.connection.idle_since = now = elapsed()
            if now >= self._next_look:
                self._close_idle(now)
        self._free.append(slot)
        self._wake()

    def close(self) -> None:
        """Close the idle connections, and the others when they come back."""
        self._closed = True
        for slot in list(self._free):
            slot.close()

    def _close_idle(self, now: float) -> None:
        """Close the connections that were idle for too long."""
        self._next_look = now + LOOK_SECONDS
        for slot in list(self._free):
            if slot.connection is not None and now - slot.connection.idle_since >= IDLE_SECONDS:
                with suppress(ValueError):  # another thread has taken it
                    self._free.remove(slot)
                    slot.close()
                    self._free.appendleft(slot)

    def _wait(self, turn: Turn, until: float) -> Slot:
        while True:
            if self._first() is turn:
                with suppress(IndexError):
                    return self._free.pop()
            left = until - time.monotonic()
            if left <= 0:
                raise Unreachable("no connection of the pool was free in time")
            turn.waker.acquire(timeout=min(left, RECHECK_SECONDS))

    def _first(self) -> Turn | None:
        """Return the first caller that waits."""
        while self._waiting:
            with suppress(IndexError):
                place = self._waiting[0]
                if (turn := place()) is not None:
                    return turn
                with suppress(ValueError):
                    self._waiting.remove(place)
        return None

    def _wake(self) -> None:
        if (turn := self._first()) is not None:
            with suppress(RuntimeError):  # it has been woken already
                turn.waker.release()


class SyncHttpClient:
    """A client that threads may share. ``send`` is its ``Send``."""

    takes_bodies = True
    errors = (ErrorAnswer,)

    def __init__(self, service: Service, options: ClientOptions) -> None:
        self._writer, self._host = service.writer, service.addresses
        self._credentials = service.credentials
        self._tls = service.tls
        self._connect_timeout = options.connect_timeout
        self._read_timeout = options.read_timeout
        self._operation_timeout = options.operation_timeout
        self._least_time = options.least_time
        self._pool = Pool(options.max_connections)

    def send(self, name: str, request: dict[str, Any] | bytes) -> Mapping[str, Any]:
        """Send one request. Raises ``ErrorAnswer``, or the ``StoreError`` of a connection."""
        seconds = min(time_left(), self._operation_timeout)
        until = time.monotonic() + seconds
        send_by = until - min(self._least_time, seconds / LEAST_SHARE)
        slot = self._pool.take(send_by)
        try:
            response = self._call(slot, name, request, send_by, until)
            credentials = slot.credentials
        except BaseException:
            slot.close()
            raise
        finally:
            self._pool.give(slot)
        try:
            return read_response(response)
        except ErrorAnswer as error:  # certainly not applied: sent again, if the credentials have been exchanged
            if not is_of_credentials(error.response) or not self._renewed(credentials, send_by):
                raise
        return self.send(name, request)

    def _renewed(self, refused: Credentials | None, until: float) -> bool:
        """Return whether there are other credentials than those that the store refused; wait for them at most until an
        instant of ``time.monotonic``.
        """
        future = None if refused is None else self._credentials.renewed(refused)
        if future is None:
            return False
        with suppress(TimeoutError, StoreError):
            return future.result(max(0.0, until - time.monotonic())) != refused
        return False

    def fault_of(self, operation: Operation[Any], error: ErrorAnswer) -> StoreError | None:
        """Return the store error of an error answer; ``None`` if the operation had nothing to do."""
        return read_fault(operation, error.response)

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    def abandon(self) -> None:
        """Do nothing: the connections of garbage close alone."""

    leave_to_parent = abandon

    def _call(self, slot: Slot, name: str, request: dict[str, Any] | bytes, send_by: float, until: float) -> Response:
        if slot.connection is not None and not slot.connection.is_fresh:
            slot.close()
        was_open = slot.connection is not None
        try:
            response = self._call_once(slot, name, request, send_by, until)
        except Unreachable:
            if not was_open:
                raise
            slot.close()  # the server closed it at the same time, and certainly did not read the request
            response = self._call_once(slot, name, request, send_by, until)
        if not response.reusable:
            slot.close()
        return response

    def _call_once(
        self, slot: Slot, name: str, request: dict[str, Any] | bytes, send_by: float, until: float
    ) -> Response:
        if slot.connection is None:
            slot.connection = Connection(self._connect(send_by))
        slot.credentials = credentials = refreshed(self._credentials, send_by)
        data = self._writer.write(name, request, credentials, time.time())
        return slot.connection.call(data, min(until, time.monotonic() + self._read_timeout))

    def _connect(self, until: float) -> socket.socket:
        try:
            addresses = found(self._host, self._connect_timeout, until)
            until = min(until, time.monotonic() + self._connect_timeout)
            sock = connected(addresses, until)
            if self._tls is None:
                return sock
            try:
                return self._tls.wrap_socket(sock, server_hostname=self._host.host)
            except BaseException:
                sock.close()
                raise
        except TimeoutError as error:
            check_time(error, until)
            raise Unreachable(f"no connection to {self._writer.address} in time") from error
        except OSError as error:
            why = untrusted(error, self._writer.netloc)
            raise why or Unreachable(f"no connection to {self._writer.address}: {error}") from error
