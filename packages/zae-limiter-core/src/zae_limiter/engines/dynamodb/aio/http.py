"""Requests over HTTP/1.1 on asyncio: connections, their pool, and the client of one event loop."""

import asyncio
import socket
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final

from ....operations.errors import Closed, OutcomeUnknown, StoreError, Unreachable
from ....operations.values import Operation
from ....runtime.deadlines import Deadlines
from ....runtime.elapsed import elapsed
from ....runtime.sockets import closed_before, is_readable
from ....runtime.tasks import result_of
from ..aws.opening import Service
from ..aws.trust import untrusted
from ..faults import is_of_credentials, read_fault
from ..options import ClientOptions
from ..protocol.answers import NOT_READ, ErrorAnswer, read_response
from ..protocol.responses import Response, ResponseReader
from ..protocol.signing import Credentials
from .connecting import connected, found
from .primitives import refreshed

IDLE_SECONDS: Final = 10.0  # DynamoDB closes a connection that is idle for longer


class Connection(asyncio.Protocol):
    """One connection, which carries one call at a time. ``on_lost`` is called once, when it is closed."""

    def __init__(self, loop: asyncio.AbstractEventLoop, on_lost: Callable[["Connection"], None]) -> None:
        self._loop = loop
        self._on_lost = on_lost
        self._reader = ResponseReader()
        self._answer: asyncio.Future[Response] | None = None
        self._transport: asyncio.Transport | None = None
        self._sent = 0
        self.idle_since = 0.0
        self.is_new = True

    async def call(self, request: bytes, deadlines: Deadlines, until: float) -> Response:
        """Return the answer. The connection is of no use after an exception.

        Raises ``Unreachable`` if the server certainly did not read the whole request, else ``OutcomeUnknown``.
        """
        if self._transport is None:
            raise Unreachable("the connection is closed")
        self._reader = ResponseReader()
        self._answer = answer = self._loop.create_future()
        self._sent = len(request)
        deadlines.add(answer, until)
        try:
            self._transport.write(request)
            if self._transport.is_closing():
                raise Unreachable("the connection broke before the request was sent")
            response: Response = await answer
            return response
        finally:
            deadlines.remove(answer)
            self._answer = None

    @property
    def is_open(self) -> bool:
        """Whether the connection is open, as far as the event loop knows."""
        return self._transport is not None and not self._transport.is_closing()

    @property
    def is_fresh(self) -> bool:
        """Whether another call may use the connection. The loop may not know yet that the server closed it."""
        if self._transport is None or self._transport.is_closing():
            return False
        sock = self._transport.get_extra_info("socket")
        return sock is None or not is_readable(sock)

    def abort(self) -> None:
        """Close the connection at once."""
        if self._loop.is_closed():
            self.abandon()
        elif self._transport is not None:
            self._transport.abort()

    def abandon(self) -> None:
        """Close the connection, whose event loop may be closed."""
        transport, self._transport, self._answer = self._transport, None, None
        if transport is None:
            return
        try:
            transport.abort()
        except RuntimeError:  # the loop is closed: nothing else would close the socket
            inner: Any = getattr(getattr(transport, "_ssl_protocol", None), "_transport", transport)
            with suppress(RuntimeError, AttributeError):
                inner._call_connection_lost(None)

    # asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of the connection that has been made."""
        self._transport = transport  # type: ignore[assignment]
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        """Read a part of an answer; bytes that nobody asked for close the connection."""
        if self._answer is None or self._answer.done():
            return self.abort()
        try:
            response = self._reader.feed(data)
        except OutcomeUnknown as error:
            self._answer.set_exception(error)
            return self.abort()
        if response is not None:
            self._answer.set_result(response)
        return None

    def eof_received(self) -> None:
        """Settle the call under way, if the end of the connection came before the server had the request."""
        answer = self._answer
        if answer is None or answer.done() or self._transport is None:
            return
        sock = self._transport.get_extra_info("socket")
        if sock is not None and closed_before(sock, self._sent):
            answer.set_exception(Unreachable(NOT_READ))

    def connection_lost(self, exc: Exception | None) -> None:
        """Settle the call under way."""
        self._transport = None
        answer = self._answer
        if answer is not None and not answer.done():
            try:
                if exc is not None:
                    raise OutcomeUnknown(f"the connection broke: {exc}")
                answer.set_result(self._reader.end())
            except OutcomeUnknown as error:
                answer.set_exception(error)
        self._on_lost(self)


class Pool:
    """At most ``most`` connections; callers that wait for one are served in their order."""

    def __init__(self, connect: Callable[[Callable[[Connection], None]], Awaitable[Connection]], most: int) -> None:
        self._connect = connect
        self._loop = asyncio.get_running_loop()
        self._free = most  # connections that may be opened
        self._idle: deque[Connection] = deque()  # the last used one is at the end
        self._open: set[Connection] = set()
        self._waiting: deque[asyncio.Future[Connection | None]] = deque()
        self._closed = False

    def take_idle(self) -> Connection | None:
        """Return a connection if one is idle; ``give`` or ``drop`` takes it back."""
        oldest = elapsed() - IDLE_SECONDS
        while self._idle and self._idle[0].idle_since < oldest:
            self.drop(self._idle.popleft())
        while self._idle:
            connection = self._idle.pop()
            if connection.is_fresh:
                return connection
            self.drop(connection)
        return None

    async def take(self) -> Connection:
        """Wait for a connection and return it; ``give`` or ``drop`` takes it back. Raises ``Unreachable``."""
        if self._closed:
            raise Closed("the store is closed")
        if not self._waiting:
            if (idle := self.take_idle()) is not None:
                return idle
            if self._free:
                self._free -= 1
                return await self._open_one()
        given = await self._wait()
        if given is None:
            return await self._open_one()
        return given if given.is_fresh else await self.replace(given)

    async def replace(self, connection: Connection) -> Connection:
        """Return a new connection in place of one that is of no further use. Raises ``Unreachable``."""
        self._open.discard(connection)
        connection.abort()
        return await self._open_one()

    def give(self, connection: Connection) -> None:
        """Take back a connection that may serve another call."""
        if not connection.is_open:
            return self.drop(connection)
        connection.is_new = False
        while self._waiting and not self._loop.is_closed():
            waiter = self._waiting.popleft()
            if not waiter.done():
                return waiter.set_result(connection)
        connection.idle_since = elapsed()
        self._idle.append(connection)
        return None

    def drop(self, connection: Connection) -> None:
        """Take back a connection that is of no further use."""
        self._open.discard(connection)
        connection.abort()
        self._free_one()

    def close(self) -> None:
        """Close all connections; callers that wait for one are refused."""
        self._closed = True
        while self._waiting:
            waiter = self._waiting.popleft()
            if not waiter.done():
                waiter.set_exception(Closed("the store is closed"))
        for connection in list(self._open):
            connection.abort()

    def abandon(self) -> None:
        """Close all connections, whose event loop may be closed."""
        self._closed = True
        for connection in list(self._open):
            connection.abandon()

    async def _open_one(self) -> Connection:
        """Open a connection that has been counted."""
        try:
            connection = await self._connect(self._lost)
        except BaseException:
            self._free_one()
            raise
        self._open.add(connection)
        if self._closed:
            self.drop(connection)
            raise Closed("the store is closed")
        return connection

    async def _wait(self) -> Connection | None:
        """Wait for a connection and return it; return ``None`` if the caller may open one."""
        waiter: asyncio.Future[Connection | None] = asyncio.get_running_loop().create_future()
        self._waiting.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled() and waiter.exception() is None:
                given = waiter.result()
                self._free_one() if given is None else self.give(given)
            else:
                with suppress(ValueError):
                    self._waiting.remove(waiter)
            raise

    def _free_one(self) -> None:
        """Count one connection less: another one may be opened."""
        while self._waiting and not self._loop.is_closed():
            waiter = self._waiting.popleft()
            if not waiter.done():
                return waiter.set_result(None)
        self._free += 1
        return None

    def _lost(self, connection: Connection) -> None:
        """Forget an idle connection that the server closed; the call under way drops any other."""
        with suppress(ValueError):
            self._idle.remove(connection)
            self.drop(connection)


class HttpClient:
    """A client for one event loop. ``send`` is its ``Send``."""

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
        self._loop = asyncio.get_running_loop()
        late = f"no answer within {options.read_timeout:g} s"
        self._deadlines = Deadlines(self._loop, partial(OutcomeUnknown, late))
        self._pool = Pool(self._connect, options.max_connections)

    async def send(self, name: str, request: dict[str, Any] | bytes) -> Mapping[str, Any]:
        """Send one request. Raises ``ErrorAnswer``, or the ``StoreError`` of a connection."""
        until = self._loop.time() + self._read_timeout
        connection, credentials = self._pool.take_idle(), self._credentials.current()
        if connection is None or credentials is None:
            if connection is not None:
                self._pool.give(connection)
            until = self._loop.time() + self._operation_timeout
            connection, credentials = await self._wait(until - self._least_time)
            until = min(until, self._loop.time() + self._read_timeout)
        try:
            data = self._writer.write(name, request, credentials, time.time())
            response = await connection.call(data, self._deadlines, until)
        except BaseException as error:
            if isinstance(error, Unreachable) and not connection.is_new:
                return await self._send_again(data, connection, until)
            self._pool.drop(connection)
            raise
        try:
            return self._take_back(connection, response)
        except ErrorAnswer as error:
            if not is_of_credentials(error.response):
                raise
            return await self._send_renewed(name, request, credentials, error)

    async def _send_renewed(
        self, name: str, request: dict[str, Any] | bytes, refused: Credentials, error: ErrorAnswer
    ) -> Mapping[str, Any]:
        """Send with other credentials a request whose credentials the store refused, so that it was not applied. Raises
        the refusal if there are no others.
        """
        until = self._loop.time() + self._operation_timeout
        future, found = self._credentials.renewed(refused), refused
        if future is not None:
            with suppress(TimeoutError, StoreError):
                async with asyncio.timeout_at(until - self._least_time):
                    found = await result_of(future)
        if found == refused:
            raise error
        try:
            async with asyncio.timeout_at(until):
                return await self.send(name, request)
        except TimeoutError as late:
            raise OutcomeUnknown("the answer did not come in time") from late

    async def _send_again(self, data: bytes, used: Connection, until: float) -> Mapping[str, Any]:
        """Send over a new connection a request that a used connection closed on, and that the server certainly did not
        read.
        """
        try:
            async with asyncio.timeout_at(until - self._least_time):
                connection = await self._pool.replace(used)
        except TimeoutError as error:
            raise Unreachable(NOT_READ) from error
        try:
            response = await connection.call(data, self._deadlines, until)
        except BaseException:
            self._pool.drop(connection)
            raise
        return self._take_back(connection, response)

    def _take_back(self, connection: Connection, response: Response) -> Mapping[str, Any]:
        if response.reusable:
            self._pool.give(connection)
        else:
            self._pool.drop(connection)
        return read_response(response)

    def fault_of(self, operation: Operation[Any], error: ErrorAnswer) -> StoreError | None:
        """Return the store error of an error answer; ``None`` if the operation had nothing to do."""
        return read_fault(operation, error.response)

    async def close(self) -> None:
        """Close the connections."""
        self._pool.close()
        await asyncio.sleep(0)  # the loop closes their sockets

    def abandon(self) -> None:
        """Close the connections without the event loop, which may be gone."""
        self._pool.abandon()

    def leave_to_parent(self) -> None:
        """Leave the connections open in a child process: closing them would end those of the parent."""
        _inherited.append(self)

    async def _wait(self, until: float) -> tuple[Connection, Credentials]:
        """Wait for a connection and for credentials. Raises ``StoreError``."""
        try:
            async with asyncio.timeout_at(until):
                connection = await self._pool.take()
                while (credentials := self._credentials.current()) is None:
                    self._pool.give(connection)
                    await refreshed(self._credentials)
                    connection = await self._pool.take()
                return connection, credentials
        except TimeoutError as error:
            raise Unreachable("no address of the host, no connection or no credentials came in time") from error

    async def _connect(self, on_lost: Callable[[Connection], None]) -> Connection:
        try:
            addresses = await found(self._host, self._connect_timeout)
            until = self._loop.time() + self._connect_timeout
            async with asyncio.timeout_at(until):
                sock = await connected(addresses, until)
                _, connection = await self._loop.create_connection(
                    partial(Connection, self._loop, on_lost),
                    sock=sock,
                    ssl=self._tls,
                    server_hostname=self._host.host if self._tls else None,
                )
                return connection
        except TimeoutError as error:
            raise Unreachable(f"no connection to {self._writer.address} within {self._connect_timeout:g} s") from error
        except OSError as error:
            why = untrusted(error, self._writer.netloc)
            raise why or Unreachable(f"no connection to {self._writer.address}: {error}") from error
        except RuntimeError:
            if self._loop.is_closed():  # this call is garbage, and its transport complains that it cannot close
                raise GeneratorExit from None
            raise


_inherited: list[HttpClient] = []
