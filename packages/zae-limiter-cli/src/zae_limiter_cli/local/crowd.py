"""A bound on the connections of a server, which has a thread for each.

Anybody on this machine may connect, before a door has read whose request it is. So a silent client makes room: a
new connection ends the oldest one that was not let in and has sent nothing more. Only requests can fill a server, and
then a new one is refused.
"""

import select
import socket
import threading
from contextlib import suppress
from socketserver import BaseServer, ThreadingMixIn
from typing import Any, Final

MOST_CONNECTIONS: Final = 256  # of a process that may have 1,024 descriptors, some for other ends of these
FULL: Final = (
    b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: text/plain\r\nRetry-After: 1\r\nConnection: close\r\n\r\n"
    b"the local AWS of zae-limiter has as many requests under way as it takes at a time; try again\n"
)

Socket = socket.socket | tuple[bytes, socket.socket]  # as socketserver has it; the second one is of datagrams


class Crowd(ThreadingMixIn, BaseServer):
    """A server whose connections have a bound: a base beside the one that it serves by."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._lock = threading.Lock()
        self._let_in: dict[Any, bool] = {}  # by connection, the oldest first
        super().__init__(*args, **kwargs)

    def process_request(self, request: Socket, client_address: Any) -> None:
        """Serve a connection in a thread of its own, or refuse it."""
        if self._has_room_for(request):
            super().process_request(request, client_address)
        else:
            _refuse(request)
            self.shutdown_request(request)

    def shutdown_request(self, request: Socket) -> None:
        """Close a connection, and forget it."""
        with self._lock:
            self._let_in.pop(request, None)
        super().shutdown_request(request)

    def let_in(self, connection: Any) -> bool:
        """Keep any connection; return whether it is still there to be served."""
        with self._lock:
            if connection not in self._let_in:
                return False
            self._let_in[connection] = True
            return True

    def _has_room_for(self, request: Socket) -> bool:
        with self._lock:
            if len(self._let_in) >= MOST_CONNECTIONS:
                waiting = (each for each, let_in in self._let_in.items() if not let_in)
                oldest = next((each for each in waiting if not select.select([each], [], [], 0)[0]), None)
                if oldest is None:
                    return False
                del self._let_in[oldest]
                with suppress(OSError):
                    oldest.shutdown(socket.SHUT_RDWR)  # its thread reads the end, and closes it
            self._let_in[request] = False
            return True


def _refuse(request: Any) -> None:
    """Say why without a wait: the caller accepts for everybody."""
    request.setblocking(False)
    with suppress(OSError):
        request.send(FULL)
        request.shutdown(socket.SHUT_WR)
        request.recv(65_536)  # or the close is a reset, and the client may lose the answer
