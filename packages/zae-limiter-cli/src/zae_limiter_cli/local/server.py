"""Serve an application on a port of this machine, with a thread for each connection."""

import os
import socket
import threading
from contextlib import suppress
from typing import Final

from ..errors import CommandError
from .gate import Gate

HOST: Final = "127.0.0.1"
DEFAULT_PORT: Final = 4588
BACKLOG: Final = 128


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


def listen(port: int | None) -> socket.socket:
    """Return a socket on a port of this machine, on any for 0; on the default port for ``None``, or on any if it is in
    use.

    Raises ``CommandError`` if a chosen port is not free.
    """
    if port is None:
        with suppress(OSError):
            return socket.create_server((HOST, DEFAULT_PORT), backlog=BACKLOG)
        port = 0
    try:
        return socket.create_server((HOST, port), backlog=BACKLOG)
    except OSError as error:
        raise CommandError(
            f"--port {port}: {os.strerror(error.errno or 0)}; choose another one, or leave it out to get a free one"
        ) from error
