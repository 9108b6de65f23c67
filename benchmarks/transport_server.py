"""The stub, which counts its connections as well, plain or over TLS.

Lives here: the stub in a process of its own, a limiter and a store for it. Never: a measurement.

``python -m benchmarks.transport_server FILE SERVICE_MS [CERTIFICATE KEY]`` is the stub by the same arguments. Its count
of requests has the connections since the last question as well, that of the question among them.
"""

import asyncio
import json
import ssl
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from support.core.authority import HOST, Authority

from .measure import pin_server
from .stub import TARGET, Connection, Stub

if TYPE_CHECKING:  # a case settles which JSON `zae_limiter` finds before it imports it
    from zae_limiter import RateLimiter
    from zae_limiter.engines.memory.table import MemoryTable

OPENED = "connections"


class CountingStub(Stub):
    """The stub, with a count of its connections."""

    def __init__(self, answer: bytes, service_ms: float) -> None:
        super().__init__(answer, service_ms)
        self.opened = 0

    def answer(self, head: bytes, body: bytes) -> bytes:
        """The whole HTTP answer to a request."""
        if TARGET.search(head) is None:
            self._requests[OPENED], self.opened = self.opened, 0
        return super().answer(head, body)


class CountedConnection(Connection):
    """One client's connection."""

    def __init__(self, stub: CountingStub) -> None:
        super().__init__(stub)
        self._counter = stub

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._counter.opened += 1
        super().connection_made(transport)


class Served:
    """Where the stub answers."""

    def __init__(self, url: str) -> None:
        self.url = url

    def connections(self) -> int:
        """How many connections were opened to it since the last question."""
        with urllib.request.urlopen(self.url, timeout=5) as answer:
            return int(json.load(answer)[OPENED]) - 1


def table_and_answer(buckets: int) -> tuple["MemoryTable", dict[str, Any]]:
    """A table with so many buckets, and the answer to a write to any of them."""
    from zae_limiter.engines.dynamodb.marshal import write_item
    from zae_limiter.schema.items import WRITES

    from .canned import _with_buckets

    table, item = _with_buckets(buckets)
    return table, {"Attributes": write_item(item) | {WRITES: {"N": "@"}}}


@asynccontextmanager
async def limiter_of(table: "MemoryTable", url: str, profile: str | None = None) -> AsyncIterator["RateLimiter"]:
    """A limiter that reads in memory, and updates at a server."""
    from zae_limiter import Options, RateLimiter, Repository
    from zae_limiter.engines.dynamodb.aio.store import DynamoDBStore

    from .canned import TABLE, Split

    store = DynamoDBStore(TABLE, endpoint_url=url, region="us-east-1", profile=profile, read_timeout=30)
    async with RateLimiter(await Repository.over(Split(table, store), Options())) as limiter:
        yield limiter


@contextmanager
def serving(answer: object, service_ms: float = 0, authority: Authority | None = None) -> Iterator[Served]:
    """The stub in its own process, over TLS by a certificate of the authority, if there is one."""
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch, "answer.json")
        file.write_text(json.dumps(answer))
        command = [sys.executable, "-m", __name__, str(file), str(service_ms)]
        if authority is not None:
            command += [str(authority.certificate), str(authority.key)]
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        try:
            assert process.stdout is not None
            scheme, host = ("http", "127.0.0.1") if authority is None else ("https", HOST)
            yield Served(f"{scheme}://{host}:{process.stdout.readline().strip()}")
        finally:
            process.kill()
            process.communicate()


async def serve(answer: bytes, service_ms: float, certificate: list[str]) -> None:
    """Serve until the process is ended."""
    tls = None
    if certificate:
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(*certificate)
    stub = CountingStub(answer, service_ms)
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: CountedConnection(stub), "127.0.0.1", 0, backlog=2048, ssl=tls)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    pin_server()
    asyncio.run(serve(Path(sys.argv[1]).read_bytes(), float(sys.argv[2]), sys.argv[3:]))
