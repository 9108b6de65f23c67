"""Connections to a host by its name, on asyncio."""

import asyncio
import encodings.idna  # noqa: F401 - a socket's first connection imports it, in whatever thread
import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from ....runtime.addresses import Addresses
from ....runtime.sockets import attempts
from ....runtime.tasks import result_of
from ....runtime.threads import addresses_of, in_thread, is_address


async def connected(addresses: Sequence[Any], until: float) -> socket.socket:
    """Return a connection to the first one of the addresses of a host that answers. Raises ``OSError``."""
    loop = asyncio.get_running_loop()
    problem = OSError("the host has no address")
    for sock, place, latest in attempts(addresses, until, loop.time):
        try:
            sock.setblocking(False)
            async with asyncio.timeout_at(latest):
                await _connect_socket(loop, sock, place)
        except OSError as error:
            sock.close()
            problem = error
        except BaseException:
            sock.close()
            raise
        else:
            return sock
    raise problem


async def found(host: Addresses, connect_timeout: float) -> Sequence[Any]:
    """Return the addresses of a host: those that are known, if its resolver fails or is late. Raises ``OSError``."""
    if is_address(host.host):
        return addresses_of(host.host, host.port)
    patience = host.patience(connect_timeout)
    if patience == 0:
        return host.known
    try:
        async with asyncio.timeout(patience):
            # The loop would resolve the name in threads for which it waits at its end.
            return await result_of(in_thread(partial(host.look_up, addresses_of)))
    except OSError:  # a ``TimeoutError``, too
        if not host.known:
            raise
        return host.known


async def _connect_socket(loop: asyncio.AbstractEventLoop, sock: socket.socket, place: Any) -> None:
    """Connect a socket that does not block. Raises ``OSError``."""
    if isinstance(loop, asyncio.BaseEventLoop):
        return await loop.sock_connect(sock, place)
    with suppress(BlockingIOError):  # uvloop's ``sock_connect`` would have a thread resolve the address
        sock.connect(place)
        return None
    writable = loop.create_future()
    loop.add_writer(sock, _settle, writable)
    try:
        await writable
    finally:
        loop.remove_writer(sock)
    if error := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR):
        raise OSError(error, os.strerror(error))
    return None


def _settle(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
