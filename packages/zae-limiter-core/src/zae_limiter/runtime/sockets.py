"""Sockets: attempts to connect, and waiting for those that do not block."""

import math
import select
import socket
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Protocol


class HasFileno(Protocol):
    """A socket, or a transport's view of one."""

    def fileno(self) -> int:
        """The file descriptor."""


def attempts(
    addresses: Sequence[Any], until: float, now: Callable[[], float]
) -> Iterator[tuple[socket.socket, Any, float]]:
    """For each address of ``getaddrinfo``: a new socket, the place to connect it to, and the instant to give up.

    An address that does not answer leaves half of the time for the next ones.
    """
    for rank, (family, kind, protocol, _, place) in enumerate(addresses, 1):
        yield socket.socket(family, kind, protocol), place, until if rank == len(addresses) else (now() + until) / 2


def is_readable(sock: HasFileno, seconds: float = 0) -> bool:
    """Wait at most so many seconds; whether bytes arrived, or the end of the connection."""
    if hasattr(select, "poll"):
        return _poll(sock, select.POLLIN, seconds)
    return bool(select.select([sock], [], [], seconds)[0])  # Windows


def is_writable(sock: HasFileno, seconds: float) -> bool:
    """Wait at most so many seconds; whether the socket takes more bytes."""
    if hasattr(select, "poll"):
        return _poll(sock, select.POLLOUT, seconds)
    return bool(select.select([], [sock], [], seconds)[1])  # Windows


def _poll(sock: HasFileno, event: int, seconds: float) -> bool:
    poll = select.poll()
    poll.register(sock, event)
    return bool(poll.poll(math.ceil(seconds * 1000)))
