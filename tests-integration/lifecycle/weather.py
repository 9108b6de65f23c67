"""The weather between a process and its store: a proxy, a process of its own, that does to requests as it is told.

Lives here: its moods, and how it is told. Never: an answer of its own to a request that is let through.

It is told by lines of JSON on its standard input and answers each with a line: ``{"weather": [[fault, share,
seconds], …]}`` sets what is done to which share of the requests, ``{"settle": true}`` waits until nothing that was
let through is on its way. With the end of its input it ends.
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

    def __init__(self, weather: "Weather", reader: StreamReader, writer: StreamWriter) -> None:
        self.weather = weather
        self.reader = reader
        self.writer = writer
        self._behind: tuple[StreamReader, StreamWriter] | None = None

    async def pass_on(self, request: bytes) -> bytes:
        """The store's answer."""
        self.weather.passing += 1
        try:
            if self._behind is None:
                self._behind = await asyncio.open_connection(*self.weather.upstream, limit=LIMIT)
            self._behind[1].write(request)
            return await read_message(self._behind[0])
        finally:
            self.weather.passing -= 1

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


async def _well(link: Link, request: bytes, seconds: float) -> None:
    await link.reply(await link.pass_on(request))


async def _hang(link: Link, request: bytes, seconds: float) -> None:
    """Nothing is passed on, no answer comes."""
    await link.reader.read()
    raise Cut


async def _silent(link: Link, request: bytes, seconds: float) -> None:
    """It is passed on, and no answer comes."""
    await link.pass_on(request)
    await _hang(link, request, seconds)


async def _delay(link: Link, request: bytes, seconds: float) -> None:
    """It is late when it arrives, whether its sender still waits or not."""
    link.weather.passing += 1
    try:
        await asyncio.sleep(seconds)
        await _well(link, request, seconds)
    finally:
        link.weather.passing -= 1


async def _late(link: Link, request: bytes, seconds: float) -> None:
    """Its answer is late."""
    answer = await link.pass_on(request)
    await asyncio.sleep(seconds)
    await link.reply(answer)


async def _trickle(link: Link, request: bytes, seconds: float) -> None:
    """Its answer comes byte by byte."""
    for byte in await link.pass_on(request):
        await link.reply(bytes((byte,)))
        await asyncio.sleep(seconds or TRICKLE_SECONDS)


async def _drop(link: Link, request: bytes, seconds: float) -> None:
    """The connection ends, nothing is passed on."""
    raise Cut


async def _lose(link: Link, request: bytes, seconds: float) -> None:
    """The connection ends, though it is applied."""
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
    "well": _well,
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


class Weather:
    """A proxy on a port of its own, before an upstream."""

    def __init__(self, upstream: str, seed: int) -> None:
        place = urlsplit(upstream)
        self.upstream = (str(place.hostname), int(place.port or 80))
        self.passing = 0
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

    async def turn(self, faults: Sequence[Fault]) -> None:
        """Change: what is under way stays as it was, but with ``refuse`` nobody is there any more."""
        self._faults = [fault for fault in faults if fault[0] != "refuse"]
        if len(self._faults) == len(faults):
            await self.listen()
        elif self._server is not None:
            self._server.close()
            self._server = None
            for link in self._links:
                link.close()

    async def settle(self) -> None:
        """Wait until nothing is on its way to the store."""
        while self.passing:  # noqa: ASYNC110 - twenty times a second, after a life
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
        return "well", 0.0


async def _obey(weather: Weather) -> None:
    await weather.listen()
    orders = StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    print(weather.port, flush=True)
    while line := await orders.readline():
        order = json.loads(line)
        if "weather" in order:
            await weather.turn(order["weather"])
        if order.get("settle"):
            await weather.settle()
        print("done", flush=True)


if __name__ == "__main__":
    asyncio.run(_obey(Weather(sys.argv[1], int(sys.argv[2]))))
