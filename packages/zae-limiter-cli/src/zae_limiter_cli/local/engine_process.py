"""Run the process of an engine, in a network of its own where the system has them."""

import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Final

from ..loopback import LOOPBACK, free_port, hidden_host
from .children import Child, start_command, start_python
from .own_network import CONNECTED

Connect = Callable[[], socket.socket]
Command = Callable[[str, int], Sequence[str]]

TIMEOUT_SECONDS: Final = 60.0

_PORT: Final = 8000  # in a network of its own all are free


@cache
def can_be_alone() -> bool:
    """Return whether this system gives a process a network of its own."""
    if sys.platform != "linux":
        return False
    child = start_python("own_network:enter", output=subprocess.DEVNULL)
    code = child.process.wait()
    child.end()
    return code == 0


@contextmanager
def running(command: Command, *, output: int) -> Iterator[tuple[Child, Connect]]:
    """Run an engine; yield its process, and a function that connects to it or raises ``OSError``."""
    with _alone(command, output) if can_be_alone() else _on_loopback(command, output) as (child, connect):
        try:
            yield child, connect
        finally:
            child.end()


@contextmanager
def _alone(command: Command, output: int) -> Iterator[tuple[Child, Connect]]:
    line, its_end = socket.socketpair()
    with line:
        with its_end:
            words = [str(its_end.fileno()), str(_PORT), *command(LOOPBACK, _PORT)]
            child = start_python("own_network:guard", words, output=output, descriptors=[its_end.fileno()])
        yield child, _Line(line).connect


@contextmanager
def _on_loopback(command: Command, output: int) -> Iterator[tuple[Child, Connect]]:
    host = hidden_host()
    port = free_port(host)
    child = start_command(command(host, port), output=output)
    yield child, lambda: socket.create_connection((host, port), timeout=TIMEOUT_SECONDS)


class _Line:
    """The line to a process in a network of its own, for one caller at a time."""

    def __init__(self, line: socket.socket) -> None:
        self._line = line
        self._lock = threading.Lock()

    def connect(self) -> socket.socket:
        with self._lock:
            self._line.sendall(b"?")
            said, descriptors, _, _ = socket.recv_fds(self._line, 1, 1)
        if said != CONNECTED:
            raise ConnectionRefusedError("nothing listens there")
        made = socket.socket(fileno=descriptors[0])
        made.settimeout(TIMEOUT_SECONDS)
        return made
