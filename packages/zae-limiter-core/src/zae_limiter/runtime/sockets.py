"""Waiting for sockets that do not block."""

import math
import select
from collections.abc import Callable
from typing import Protocol


class HasFileno(Protocol):
    """A socket, or a transport's view of one."""

    def fileno(self) -> int:
        """The file descriptor."""


def readable(sock: HasFileno) -> Callable[..., bool]:
    """Return a function that waits so many seconds, 0 by default; whether bytes arrived, or the end of the connection.

    The socket is registered once, because every call over a connection asks.
    """
    if not hasattr(select, "poll"):  # Windows
        return lambda seconds=0.0: bool(select.select([sock], [], [], seconds)[0])
    poll = select.poll()
    poll.register(sock, select.POLLIN)
    return lambda seconds=0.0: bool(poll.poll(math.ceil(seconds * 1000)))


def is_writable(sock: HasFileno, seconds: float) -> bool:
    """Wait at most so many seconds; whether the socket takes more bytes."""
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([], [sock], [], seconds)[1])
    poll = select.poll()
    poll.register(sock, select.POLLOUT)
    return bool(poll.poll(math.ceil(seconds * 1000)))
