"""Connections over HTTP/1.1 to a host by its name, on asyncio."""

import asyncio
import encodings.idna  # noqa: F401 - a socket's first connection imports it, in whatever thread
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Protocol
from weakref import WeakSet

from ....operations.errors import OutcomeUnknown, Unreachable
from ....runtime.addresses import Addresses
from ....runtime.deadlines import Deadlines
from ....runtime.sockets import Watch, attempts, closed_before
from ....runtime.tasks import result_of
from ....runtime.threads import addresses_of, in_thread, is_address
from ..aws.opening import Service
from ..aws.trust import untrusted
from ..options import ClientOptions
from ..protocol.answers import NOT_READ
from ..protocol.responses import Response, ResponseReader


class Answer(Protocol):
    """What waits for the response to one call: a future, or a ``Call``."""

    def done(self) -> bool:
        """Return whether the call is settled."""

    def set_result(self, response: Response, /) -> None:
        """Settle the call by its response."""

    def set_exception(self, error: Exception, /) -> None:
        """Settle the call as failed."""


class Connection(asyncio.Protocol):
    """One connection, which carries one call at a time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, deadlines: Deadlines) -> None:
        self._loop = loop
        self._deadlines = deadlines
        self._reader = ResponseReader()
        self._answer: Answer | None = None
        self._transport: asyncio.Transport | None = None
        self._watch: Watch | None = None
        self._sent = 0

    async def call(self, request: bytes, until: float) -> Response:
        """Return the answer that is whole at ``until``, an instant of the loop. The connection is of no further use
        after an exception.

        Raises ``Unreachable`` if the server certainly did not read the whole request, else ``OutcomeUnknown``.
        """
        answer = self._loop.create_future()
        try:
            self.start(request, until, answer)
            response: Response = await answer
            return response
        finally:
            self.finish(answer)

    def start(self, request: bytes, until: float, answer: Answer) -> None:
        """Send a request and let ``answer`` have the response, or the error of ``call``; then ``finish`` it. Raises
        ``Unreachable``.
        """
        if self._transport is None:
            raise Unreachable("the connection is closed")
        self._reader = ResponseReader()
        self._answer = answer
        self._sent = len(request)
        self._deadlines.add(answer, until)
        self._transport.write(request)
        if self._transport.is_closing():
            raise Unreachable("the connection broke before the request was sent")

    def finish(self, answer: Answer) -> None:
        """Forget a call that is settled, or whose caller has left."""
        self._deadlines.remove(answer)
        self._answer = None

    @property
    def is_fresh(self) -> bool:
        """Whether another call may use the connection. The loop may not know yet that the server closed it."""
        if self._transport is None or self._transport.is_closing():
            return False
        return self._watch is None or not self._watch.is_readable()

    def close(self) -> None:
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
            self._watch = Watch(sock)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)

    def data_received(self, data: bytes) -> None:
        """Read a part of an answer; unexpected bytes close the connection."""
        if self._answer is None or self._answer.done():
            return self.close()
        try:
            response = self._reader.feed(data)
        except OutcomeUnknown as error:
            self._answer.set_exception(error)
            return self.close()
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
        if answer is None or answer.done():
            return
        try:
            if exc is not None:
                raise OutcomeUnknown(f"the connection broke: {exc}")
            response = self._reader.end()
        except OutcomeUnknown as error:
            answer.set_exception(error)
        else:
            answer.set_result(response)


class Dialer:
    """Opens connections to DynamoDB on one event loop, and knows those that are open."""

    def __init__(self, service: Service, options: ClientOptions) -> None:
        self._address, self._netloc = service.writer.address, service.writer.netloc
        self._host, self._tls = service.addresses, service.tls
        self._connect_timeout = options.connect_timeout
        self._loop = asyncio.get_running_loop()
        self._deadlines = Deadlines(self._loop, partial(OutcomeUnknown, f"no answer within {options.read_timeout:g} s"))
        self._open: WeakSet[Connection] = WeakSet()

    async def connect(self, until: float) -> Connection:
        """Return a new connection by ``until``, an instant of the loop. Raises ``Unreachable``, ``Untrusted``."""
        try:
            async with asyncio.timeout_at(until) as limit:
                addresses = await found(self._host, self._connect_timeout)
                until = min(until, self._loop.time() + self._connect_timeout)
                limit.reschedule(until)
                _, connection = await self._loop.create_connection(
                    partial(Connection, self._loop, self._deadlines),
                    sock=await connected(addresses, until),
                    ssl=self._tls,
                    server_hostname=self._host.host if self._tls else None,
                )
        except TimeoutError as error:
            raise Unreachable(f"no connection to {self._address} in time") from error
        except OSError as error:
            why = untrusted(error, self._netloc)
            raise why or Unreachable(f"no connection to {self._address}: {error}") from error
        except RuntimeError:
            if self._loop.is_closed():  # this call is garbage, and its transport complains that it cannot close
                raise GeneratorExit from None
            raise
        self._open.add(connection)
        return connection

    async def close(self) -> None:
        """Cut off the calls under way."""
        for connection in list(self._open):
            connection.close()
        await asyncio.sleep(0)  # the loop closes their sockets

    def abandon(self) -> None:
        """Close the connections without the event loop, which may be gone."""
        for connection in list(self._open):
            connection.abandon()

    def leave_to_parent(self, client: object) -> None:
        """Keep a client for ever: its connections must not be closed in a forked child."""
        _inherited.append(client)


_inherited: list[object] = []


async def connected(addresses: Sequence[Any], until: float) -> socket.socket:
    """Return a connection to the first one of the addresses of a host that answers. Raises ``OSError``."""
    loop = asyncio.get_running_loop()
    problem = OSError("the host has no address")
    for sock, place, latest in attempts(addresses, until, loop.time):
        try:
            sock.setblocking(False)
            async with asyncio.timeout_at(latest):
                await _connect_socket(loop, sock, place)
        except OSError as error:
            sock.close()
            problem = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise problem


async def found(host: Addresses, connect_timeout: float) -> Sequence[Any]:
    """Return the addresses of a host: those that are known, if its resolver fails or is late. Raises ``OSError``."""
    if is_address(host.host):
        return addresses_of(host.host, host.port)
    patience = host.patience(connect_timeout)
    if patience == 0:
        return host.known
    try:
        async with asyncio.timeout(patience):
            # The loop would resolve the name in threads for which it waits at its end.
            return await result_of(in_thread(partial(host.look_up, addresses_of)))
    except OSError:  # a ``TimeoutError``, too
        if not host.known:
            raise
        return host.known


async def _connect_socket(loop: asyncio.AbstractEventLoop, sock: socket.socket, place: Any) -> None:
    """Connect a socket that does not block. Raises ``OSError``."""
    if isinstance(loop, asyncio.BaseEventLoop):
        return await loop.sock_connect(sock, place)
    with suppress(BlockingIOError):  # uvloop's ``sock_connect`` would have a thread resolve the address
        sock.connect(place)
        return None
    writable = loop.create_future()
    loop.add_writer(sock, _settle, writable)
    try:
        await writable
    finally:
        loop.remove_writer(sock)
    if error := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(error, os.strerror(error))
    return None


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
