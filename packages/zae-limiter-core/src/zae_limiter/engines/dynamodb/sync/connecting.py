"""Connections to a host by its name, on blocking sockets."""

import encodings.idna  # noqa: F401 - a socket's first connection imports it, in whatever thread
import socket
import time
from functools import partial

from ....runtime.sockets import attempts
from ....runtime.threads import addresses_of, is_address, within
from ...time_left import check_time, left_until


def connected(host: str, port: int, until: float) -> socket.socket:
    """Return a connection to the first address of ``host`` that answers. Raises ``OSError``."""
    problem = OSError("the host has no address")
    ask = partial(addresses_of, host, port)
    addresses = ask() if is_address(host) else within(ask, left_until(until))
    for sock, place, latest in attempts(addresses, until, time.monotonic):
        try:
            sock.settimeout(left_until(latest))
            sock.connect(place)
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        except OSError as error:
            sock.close()
            check_time(error, latest)
            problem = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise problem
