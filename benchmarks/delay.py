"""A server whose answers come late: what stands between a client and a server that answers at once.

Lives here: bytes, handed on after a time. Never: what they mean.

``python -m benchmarks.delay PORT MS`` prints its own port; the answers of the server at PORT come MS milliseconds
later, each connection's in order and none held up by another one.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from .measure import pin_server


class Server(asyncio.Protocol):
    """The connection to the server."""

    def __init__(self, client: asyncio.Transport, seconds: float) -> None:
        self._client, self._seconds = client, seconds

    def data_received(self, data: bytes) -> None:
        asyncio.get_running_loop().call_later(self._seconds, self._hand_on, data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the client sees its end alone
        self._client.close()

    def _hand_on(self, data: bytes) -> None:
        if not self._client.is_closing():
            self._client.write(data)


class Client(asyncio.Protocol):
    """One client's connection, with one to the server behind it."""

    def __init__(self, port: int, seconds: float) -> None:
        self._port, self._seconds = port, seconds
        self._early = b""
        self._server: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._opening = asyncio.ensure_future(self._open(transport))

    def data_received(self, data: bytes) -> None:
        if self._server is None:
            self._early += data
        else:
            self._server.write(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - the server sees its end alone
        if self._server is not None:
            self._server.close()

    async def _open(self, client: asyncio.Transport) -> None:
        loop = asyncio.get_running_loop()
        self._server, _ = await loop.create_connection(lambda: Server(client, self._seconds), "127.0.0.1", self._port)
        self._server.write(self._early)


@contextmanager
def delayed(port: int, ms: float) -> Iterator[int]:
    """Return the port of a delay before a server; the server's own for none."""
    if not ms:
        yield port
        return
    command = [sys.executable, "-m", "benchmarks.delay", str(port), str(ms)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield int(process.stdout.readline())
    finally:
        process.kill()
        process.communicate()


async def serve(port: int, ms: float) -> None:
    """Serve until the process is ended."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Client(port, ms / 1000), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    pin_server()
    asyncio.run(serve(int(sys.argv[1]), float(sys.argv[2])))
