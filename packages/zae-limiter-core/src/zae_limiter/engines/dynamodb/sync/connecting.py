"""Connections to a host by its name, on blocking sockets."""

import encodings.idna  # noqa: F401 - a socket's first connection imports it, in whatever thread
import socket
import time
from collections.abc import Sequence
from functools import partial
from typing import Any

from ....runtime.addresses import Addresses
from ....runtime.sockets import attempts
from ....runtime.threads import addresses_of, is_address, within
from ...time_left import check_time, left_until


def connected(addresses: Sequence[Any], until: float) -> socket.socket:
    """Return a connection to the first one of the addresses of a host that answers. Raises ``OSError``."""
    problem = OSError("the host has no address")
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


def found(host: Addresses, connect_timeout: float, until: float) -> Sequence[Any]:
    """Return the addresses of a host: those that are known, if its resolver fails or is late. Raises ``OSError``."""
    if is_address(host.host):
        return addresses_of(host.host, host.port)
    patience = host.patience(connect_timeout)
    if patience == 0:
        return host.known
    until = until if patience is None else min(until, time.monotonic() + patience)
    try:
        return within(partial(host.look_up, addresses_of), left_until(until))
    except OSError as error:  # a ``TimeoutError``, too
        check_time(error, until)
        if not host.known:
            raise
        return host.known
