"""Sockets: try addresses, wait for sockets that do not block, find out what the other side has not received."""

import errno
import math
import select
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol

CLOSE_WAIT: Final = 8  # TCP_CLOSE_WAIT of Linux: the other side has closed, and not reset since


class HasFileno(Protocol):
    """A socket, or a transport's view of one."""

    def fileno(self) -> int:
        """Return the file descriptor."""


class HasOptions(HasFileno, Protocol):
    """The same, with its options."""

    def getsockopt(self, *args: Any) -> Any:
        """Return the value of an option."""


def attempts(
    addresses: Sequence[Any], until: float, now: Callable[[], float]
) -> Iterator[tuple[socket.socket, Any, float]]:
    """Yield for each address of ``getaddrinfo`` a new socket, the place to connect it to, and the instant to give up.

    An address that does not answer leaves half of the time for the next ones.
    """
    for rank, (family, kind, protocol, _, place) in enumerate(addresses, 1):
        yield socket.socket(family, kind, protocol), place, until if rank == len(addresses) else (now() + until) / 2


class Watch:
    """Looks at one socket again and again, with one object of ``select.poll`` where there is one."""

    __slots__ = ("_poll", "_sock")

    def __init__(self, sock: HasFileno) -> None:
        self._sock = sock
        self._poll: Any = None
        if hasattr(select, "poll"):
            self._poll = select.poll()
            self._poll.register(sock, select.POLLIN | getattr(select, "POLLRDHUP", 0))

    def is_readable(self) -> bool:
        """Return whether bytes arrived, or the end of the connection."""
        return is_readable(self._sock) if self._poll is None else bool(self._poll.poll(0))

    def ends(self, seconds: float) -> bool:
        """Wait at most ``seconds`` for bytes; return whether the end of the connection arrived, too. Only Linux can
        tell.
        """
        if sys.platform != "linux":
            is_readable(self._sock, seconds)
            return False
        happened = self._poll.poll(math.ceil(seconds * 1000))
        return bool(happened) and happened[0][1] > select.POLLIN


def is_readable(sock: HasFileno, seconds: float = 0) -> bool:
    """Wait at most ``seconds``; return whether bytes arrived, or the end of the connection."""
    if hasattr(select, "poll"):
        return bool(_poll(sock, select.POLLIN, seconds))
    return bool(select.select([sock], [], [], seconds)[0])  # Windows


def is_writable(sock: HasFileno, seconds: float) -> bool:
    """Wait at most ``seconds``; return whether the socket takes more bytes."""
    if hasattr(select, "poll"):
        return bool(_poll(sock, select.POLLOUT, seconds))
    return bool(select.select([], [sock], [], seconds)[1])  # Windows


def closed_before(sock: HasOptions, sent: int) -> bool:
    """Return whether the other side closed the connection before it had any of the last ``sent`` bytes, as far as is
    known.

    A close acknowledges what arrived before it. A reset may not: what had arrived is unknown then. The kernel tells
    them apart by the state, or by the error if a reset followed the close, until something is read or sent. Only Linux
    can tell.
    """
    if sys.platform != "linux":
        return False
    import fcntl  # a connection that breaks is rare
    import termios

    try:
        state = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0]
        if state != CLOSE_WAIT and sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) != errno.EPIPE:
            return False
        unacknowledged = fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4))
    except (OSError, ValueError):  # closed here
        return False
    return int.from_bytes(unacknowledged, sys.byteorder) >= sent


def _poll(sock: HasFileno, events: int, seconds: float) -> int:
    poll = select.poll()
    poll.register(sock, events)
    happened = poll.poll(math.ceil(seconds * 1000))
    return happened[0][1] if happened else 0
