"""Find addresses of this machine that only its own programs reach."""

import secrets
import socket
from typing import Final

LOOPBACK: Final = "127.0.0.1"


def hidden_host() -> str:
    """Return a random loopback address where the system has several, as Linux has 16 million; 127.0.0.1 elsewhere.

    A web page cannot guess it, and a browser sends a cookie of it to nobody who listens on 127.0.0.1. It is no secret
    from other users of the machine, who can list its listening ports.
    """
    second, third, fourth = 1 + secrets.randbelow(254), secrets.randbelow(256), 1 + secrets.randbelow(254)
    host = f"127.{second}.{third}.{fourth}"
    try:
        free_port(host)
    except OSError:
        return LOOPBACK
    return host


def free_port(host: str = LOOPBACK) -> int:
    """Return a port that nobody listens on. Raises ``OSError`` if this machine does not have the address."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
