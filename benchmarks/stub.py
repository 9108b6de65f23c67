"""A server that answers every UpdateItem with one prepared item: what is left to measure is the client.

Lives here: HTTP as far as DynamoDB's clients use it, a service time, counts. Never: a condition or a table.

``python -m benchmarks.stub FILE SERVICE_MS`` prints its port. FILE holds the answer, whose partition key becomes that
of the request. ``"@"`` in it becomes the number of writes that the partition key has seen, as the item itself would
count them; ``"@2"`` as if another process made as many. ``GET /`` answers how many requests of each operation there
were, and starts to count again.
"""

import asyncio
import json
import re
import sys
import zlib
from collections import Counter
from email.utils import formatdate
from pathlib import Path

from .measure import pin_server

PLACE = re.compile(rb'"@(\d*)"')
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
TARGET = re.compile(rb"x-amz-target: *DynamoDB_\d+\.(\w+)", re.IGNORECASE)
KEY = re.compile(rb'"PK": *\{"S": *"([^"]*)"')


class Stub:
    """The answer, and what was asked so far."""

    def __init__(self, answer: bytes, service_ms: float) -> None:
        self.service_seconds = service_ms / 1000
        self._before, each, self._after = PLACE.split(answer)
        key = KEY.search(answer)
        self._place = key[1] if key else b""
        self._each = int(each or 1)
        self._writes: Counter[bytes] = Counter()
        self._requests: Counter[str] = Counter()

    def answer(self, head: bytes, body: bytes) -> bytes:
        """The whole HTTP answer to a request."""
        target = TARGET.search(head)
        if target is None:
            counts, self._requests = self._requests, Counter()
            return _http(json.dumps(counts).encode())
        self._requests[target[1].decode()] += 1
        key = KEY.search(body)
        place = key[1] if key else b""
        self._writes[place] += 1
        # The writer that created the item counted one, and a write is 1,000 in the item.
        item = b'%s"%d"%s' % (self._before, 1000 * (self._each * self._writes[place] + 1), self._after)
        return _http(item.replace(self._place, place))


class Connection(asyncio.Protocol):
    """One client's connection, which sends a request at a time."""

    def __init__(self, stub: Stub) -> None:
        self._stub = stub
        self._received = b""
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, end, body = self._received.partition(b"\r\n\r\n")
        length = LENGTH.search(head)
        if not end or len(body) < (int(length[1]) if length else 0):
            return
        self._received = b""
        answer = self._stub.answer(head, body)
        if self._stub.service_seconds:
            asyncio.get_running_loop().call_later(self._stub.service_seconds, self._send, answer)
        else:
            self._send(answer)

    def _send(self, answer: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(answer)


def _http(body: bytes) -> bytes:
    head = "HTTP/1.1 200 OK\r\nContent-Type: application/x-amz-json-1.0\r\nConnection: keep-alive\r\n"
    checks = f"Content-Length: {len(body)}\r\nx-amz-crc32: {zlib.crc32(body)}\r\n\r\n"
    return (head + f"Date: {formatdate(usegmt=True)}\r\n" + checks).encode() + body


async def serve(answer: bytes, service_ms: float) -> None:
    """Serve until the process is ended."""
    stub = Stub(answer, service_ms)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Connection(stub), "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    pin_server()
    asyncio.run(serve(Path(sys.argv[1]).read_bytes(), float(sys.argv[2])))
