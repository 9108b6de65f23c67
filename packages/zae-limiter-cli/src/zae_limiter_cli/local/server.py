"""Serve an application on a port of this machine, with a thread for each connection."""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from ..errors import CommandError
from ..loopback import LOOPBACK, listening
from .gate import Gate

DEFAULT_PORT: Final = 4588


class Server:
    """Serves what is behind a gate on a socket that listens, until ``close``."""

    def __init__(self, listening: socket.socket, gate: Gate) -> None:
        from .moto_server import MotoServer, RequestHandler

        host, port = listening.getsockname()
        self._server = MotoServer(host, port, gate, RequestHandler, fd=listening.fileno())
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def listen(port: int | None) -> Iterator[socket.socket]:
    """Yield a socket on a port of this machine, on any for 0; on the default port for ``None``, or on any if it is in
    use.

    Raises ``CommandError`` if a chosen port is not free.
    """
    with ExitStack() as sockets:
        try:
            found = sockets.enter_context(listening(LOOPBACK, DEFAULT_PORT if port is None else port))
        except OSError as error:
            if port is not None:
                reason = os.strerror(error.errno or 0)
                raise CommandError(
                    f"--port {port}: {reason}; choose another one, or leave it out to get a free one"
                ) from error
            found = sockets.enter_context(listening(LOOPBACK, 0))
        yield found
