"""Connections over HTTP/1.1 to a host by its name, on blocking sockets."""

import encodings.idna  # noqa: F401 - a socket's first connection imports it, in whatever thread
import socket
import ssl
import time
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from ....operations.errors import OutcomeUnknown, Unreachable
from ....runtime.addresses import Addresses
from ....runtime.sockets import Watch, attempts, closed_before, is_readable, is_writable
from ....runtime.threads import addresses_of, is_address, within
from ...time_left import check_time, left_until
from ..aws.opening import Service
from ..aws.trust import untrusted
from ..options import ClientOptions
from ..protocol.answers import NOT_READ
from ..protocol.responses import Response, ResponseReader

RECEIVE_BYTES: Final = 65_536


class Connection:
    """One connection, which carries one call at a time. Its socket does not block: it costs fewer system calls."""

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._watch = Watch(sock)
        self._is_tls = isinstance(sock, ssl.SSLSocket)

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
        """Whether another call may use the connection: the server has not closed it."""
        return not self._watch.is_readable()

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
            if waits and self._watch.ends(left) and closed_before(self._socket, sent):
                raise Unreachable(NOT_READ)
            try:
                return self._socket.recv(RECEIVE_BYTES)
            except (BlockingIOError, ssl.SSLWantReadError):
                waits = True
            except ssl.SSLWantWriteError:
                is_writable(self._socket, left_until(until))


class Dialer:
    """Opens connections to DynamoDB. Those under way when a client is closed end their calls first."""

    def __init__(self, service: Service, options: ClientOptions) -> None:
        self._address, self._netloc = service.writer.address, service.writer.netloc
        self._host, self._tls = service.addresses, service.tls
        self._connect_timeout = options.connect_timeout

    def connect(self, until: float) -> Connection:
        """Return a new connection by ``until``, an instant of ``time.monotonic``. Raises ``Unreachable``,
        ``Untrusted``.
        """
        try:
            addresses = found(self._host, self._connect_timeout, until)
            until = min(until, time.monotonic() + self._connect_timeout)
            sock = connected(addresses, until)
            try:
                return Connection(self._tls.wrap_socket(sock, server_hostname=self._host.host) if self._tls else sock)
            except BaseException:
                sock.close()
                raise
        except TimeoutError as error:
            check_time(error, until)
            raise Unreachable(f"no connection to {self._address} in time") from error
        except OSError as error:
            why = untrusted(error, self._netloc)
            raise why or Unreachable(f"no connection to {self._address}: {error}") from error

    def close(self) -> None:
        """Do nothing: the pool closes the connections."""

    def abandon(self) -> None:
        """Do nothing: garbage closes alone."""

    def leave_to_parent(self, client: object) -> None:
        """Do nothing: a child closes its copies of the sockets, and tells the server nothing."""


def connected(addresses: Sequence[Any], until: float) -> socket.socket:
    """Return a connection to the first one of the addresses of a host that answers. Raises ``OSError``."""
    problem = OSError("the host has no address")
    for sock, place, latest in attempts(addresses, until, time.monotonic):
        try:
            sock.settimeout(left_until(latest))
            sock.connect(place)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except OSError as error:
            sock.close()
            check_time(error, latest)
            problem = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise problem


def found(host: Addresses, connect_timeout: float, until: float) -> Sequence[Any]:
    """Return the addresses of a host: those that are known, if its resolver fails or is late. Raises ``OSError``."""
    if is_address(host.host):
        return addresses_of(host.host, host.port)
    patience = host.patience(connect_timeout)
    if patience == 0:
        return host.known
    until = until if patience is None else min(until, time.monotonic() + patience)
    try:
        return within(partial(host.look_up, addresses_of), left_until(until))
    except OSError as error:  # a ``TimeoutError``, too
        check_time(error, until)
        if not host.known:
            raise
        return host.known
