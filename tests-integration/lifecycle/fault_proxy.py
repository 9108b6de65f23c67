"""A fault proxy: a program between a process and its store that delays, drops and refuses requests.

Lives here: the faults, and the protocol that sets them. Never: an answer of its own to a request that is let through.

A fault is one thing that the proxy does to a request, or to its answer. The proxy reads commands, lines of JSON, from
its standard input and answers each with a line: ``{"faults": [[fault, share, seconds], …]}`` sets the faults and the
share of the requests that each hits, ``{"settle": true}`` waits until no request that was let through is in flight.
The proxy ends with its input.
"""

import asyncio
import json
import random
import sys
from asyncio import StreamReader, StreamWriter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from urllib.parse import urlsplit

Fault = tuple[str, float, float]
LIMIT = 1 << 20
TRICKLE_SECONDS = 0.25  # between two bytes: no read ever times out

ERRORS = {
    "500": (500, "InternalServerError", "The request processing has failed because of an unknown error."),
    "503": (503, "ServiceUnavailable", "Service is currently unavailable. Please try again."),
    "throttle": (
        400,
        "ProvisionedThroughputExceededException",
        "The level of configured provisioned throughput for the table was exceeded.",
    ),
}


def error_answer(name: str) -> bytes:
    """An error as DynamoDB words it."""
    status, kind, message = ERRORS[name]
    body = json.dumps({"__type": f"com.amazonaws.dynamodb.v20120810#{kind}", "message": message}).encode()
    head = f"HTTP/1.1 {status} Error\r\nContent-Type: application/x-amz-json-1.0\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


async def read_message(reader: StreamReader) -> bytes:
    """A request or an answer, whole; empty where there is none any more."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = head.lower().split(b"\r\n")
        length = next((int(line[15:]) for line in lines if line.startswith(b"content-length:")), 0)
        return head + await reader.readexactly(length)
    except (asyncio.IncompleteReadError, OSError):
        return b""


class Link:
    """One connection of a client, and the one behind it."""

    def __init__(self, proxy: "FaultProxy", reader: StreamReader, writer: StreamWriter) -> None:
        self.proxy = proxy
        self.reader = reader
        self.writer = writer
        self._behind: tuple[StreamReader, StreamWriter] | None = None

    async def pass_on(self, request: bytes) -> bytes:
        """The store's answer."""
        self.proxy.in_flight += 1
        try:
            if self._behind is None:
                self._behind = await asyncio.open_connection(*self.proxy.upstream, limit=LIMIT)
            self._behind[1].write(request)
            return await read_message(self._behind[0])
        finally:
            self.proxy.in_flight -= 1

    async def reply(self, answer: bytes) -> None:
        """Send an answer to the client."""
        self.writer.write(answer)
        await self.writer.drain()

    def close(self) -> None:
        """End both connections at once."""
        for writer in (self.writer, self._behind and self._behind[1]):
            if writer:
                writer.transport.abort()


class Cut(Exception):
    """The connection ends here."""


async def _none(link: Link, request: bytes, seconds: float) -> None:
    """The request and its answer pass."""
    await link.reply(await link.pass_on(request))


async def _hang(link: Link, request: bytes, seconds: float) -> None:
    """The request is not passed on, no answer comes."""
    await link.reader.read()
    raise Cut


async def _silent(link: Link, request: bytes, seconds: float) -> None:
    """The request is applied, no answer comes."""
    await link.pass_on(request)
    await _hang(link, request, seconds)


async def _delay(link: Link, request: bytes, seconds: float) -> None:
    """The request is applied late, whether its sender still waits or not."""
    link.proxy.in_flight += 1
    try:
        await asyncio.sleep(seconds)
        await _none(link, request, seconds)
    finally:
        link.proxy.in_flight -= 1


async def _late(link: Link, request: bytes, seconds: float) -> None:
    """The answer is late."""
    answer = await link.pass_on(request)
    await asyncio.sleep(seconds)
    await link.reply(answer)


async def _trickle(link: Link, request: bytes, seconds: float) -> None:
    """The answer comes byte by byte."""
    for byte in await link.pass_on(request):
        await link.reply(bytes((byte,)))
        await asyncio.sleep(seconds or TRICKLE_SECONDS)


async def _drop(link: Link, request: bytes, seconds: float) -> None:
    """The connection ends, the request is not passed on."""
    raise Cut


async def _lose(link: Link, request: bytes, seconds: float) -> None:
    """The request is applied, and the connection ends."""
    await link.pass_on(request)
    raise Cut


async def _cut(link: Link, request: bytes, seconds: float) -> None:
    """The connection ends in the middle of the answer."""
    answer = await link.pass_on(request)
    await link.reply(answer[: len(answer) // 2])
    raise Cut


def _refusal(name: str) -> Callable[[Link, bytes, float], Awaitable[None]]:
    async def refuse(link: Link, request: bytes, seconds: float) -> None:
        await link.reply(error_answer(name))

    return refuse


FAULTS: dict[str, Callable[[Link, bytes, float], Awaitable[None]]] = {
    "none": _none,
    "hang": _hang,
    "silent": _silent,
    "delay": _delay,
    "late": _late,
    "trickle": _trickle,
    "drop": _drop,
    "lose": _lose,
    "cut": _cut,
    **{name: _refusal(name) for name in ERRORS},
}


class FaultProxy:
    """A proxy on a port of its own, before an upstream."""

    def __init__(self, upstream: str, seed: int) -> None:
        place = urlsplit(upstream)
        self.upstream = (str(place.hostname), int(place.port or 80))
        self.in_flight = 0
        self.port = 0
        self._faults: Sequence[Fault] = ()
        self._chance = random.Random(seed)
        self._server: asyncio.Server | None = None
        self._links: set[Link] = set()

    async def listen(self) -> None:
        """Take connections, on the same port each time."""
        if self._server is None:
            self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, limit=LIMIT, backlog=1024)
            self.port = self._server.sockets[0].getsockname()[1]

    async def set_faults(self, faults: Sequence[Fault]) -> None:
        """Hit later requests with these faults; ``refuse`` closes the port and all connections."""
        self._faults = [fault for fault in faults if fault[0] != "refuse"]
        if len(self._faults) == len(faults):
            await self.listen()
        elif self._server is not None:
            self._server.close()
            self._server = None
            for link in self._links:
                link.close()

    async def settle(self) -> None:
        """Wait until no request to the store is in flight."""
        while self.in_flight:  # noqa: ASYNC110 - twenty times a second, after a life
            await asyncio.sleep(0.02)

    async def _serve(self, reader: StreamReader, writer: StreamWriter) -> None:
        link = Link(self, reader, writer)
        self._links.add(link)
        with suppress(Cut, OSError):
            while request := await read_message(reader):
                name, seconds = self._drawn()
                await FAULTS[name](link, request, seconds)
        self._links.discard(link)
        link.close()

    def _drawn(self) -> tuple[str, float]:
        point = self._chance.random()
        for name, share, seconds in self._faults:
            if point < share:
                return name, seconds
            point -= share
        return "none", 0.0


async def _run(proxy: FaultProxy) -> None:
    await proxy.listen()
    commands = StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(commands), sys.stdin)
    print(proxy.port, flush=True)
    while line := await commands.readline():
        command = json.loads(line)
        if "faults" in command:
            await proxy.set_faults(command["faults"])
        if command.get("settle"):
            await proxy.settle()
        print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(_run(FaultProxy(sys.argv[1], int(sys.argv[2]))))
