"""Addresses of this machine that only its own programs reach."""

import secrets
import socket
from typing import Final

LOOPBACK: Final = "127.0.0.1"


def hidden_host() -> str:
    """A loopback address that a web page cannot guess, where the system has more than one: Linux has 16 millions."""
    second, third, fourth = 1 + secrets.randbelow(254), secrets.randbelow(256), 1 + secrets.randbelow(254)
    host = f"127.{second}.{third}.{fourth}"
    try:
        free_port(host)
    except OSError:
        return LOOPBACK
    return host


def free_port(host: str = LOOPBACK) -> int:
    """A port that nobody listens on. Raises ``OSError`` where this machine does not have the address."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port
