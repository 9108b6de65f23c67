"""Waiting for sockets that do not block."""

import math
import select
from typing import Protocol


class HasFileno(Protocol):
    """A socket, or a transport's view of one."""

    def fileno(self) -> int:
        """The file descriptor."""


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
