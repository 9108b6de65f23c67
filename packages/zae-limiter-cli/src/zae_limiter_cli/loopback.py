"""Find addresses of this machine that only its own programs reach, and listen there."""

import errno
import secrets
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

LOOPBACK: Final = "127.0.0.1"
BACKLOG: Final = 128

_ATTEMPTS: Final = 10
_NO_IPV6: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)


def hidden_host() -> str:
    """Return a random loopback address where the system has several, as Linux has 16 million; 127.0.0.1 elsewhere.

    A web page cannot guess it, and a browser sends its cookies to no other listener on 127.0.0.1. Other users of the
    machine can list its listening ports.
    """
    second, third, fourth = 1 + secrets.randbelow(254), secrets.randbelow(256), 1 + secrets.randbelow(254)
    host = f"127.{second}.{third}.{fourth}"
    try:
        free_port(host)
    except OSError:
        return LOOPBACK
    return host


@contextmanager
def listening(host: str, port: int) -> Iterator[socket.socket]:
    """Yield a socket that listens, on any port for 0; no other program gets the port of `localhost` meanwhile.

    A program that is told `localhost` may try ::1 first, and give its secret to another user who answers there. So the
    port of ::1 is taken as well, without an answer, and the program goes on to 127.0.0.1. Raises ``OSError``.
    """
    with ExitStack() as sockets:
        for attempt in range(_ATTEMPTS):
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            server = sockets.enter_context(socket.create_server((host, port), family=family, backlog=BACKLOG))
            try:
                if host == LOOPBACK:
                    _take_ipv6(server.getsockname()[1], sockets)
                break
            except OSError:  # in use; another free port may be free for both
                sockets.close()
                if port != 0 or attempt == _ATTEMPTS - 1:
                    raise
        yield server


def _take_ipv6(port: int, sockets: ExitStack) -> None:
    try:
        taken = sockets.enter_context(socket.socket(socket.AF_INET6))
        taken.bind(("::1", port))  # without SO_REUSEADDR, so that no other bind succeeds
    except OSError as error:
        if error.errno not in _NO_IPV6:
            raise


def free_port(host: str = LOOPBACK) -> int:
    """Return a free port. Raises ``OSError`` if this machine does not have the address."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
