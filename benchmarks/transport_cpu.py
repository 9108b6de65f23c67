"""CPU of a warm acquire over our own HTTP transport, against that of one UpdateItem sent by the SDK alone.

Lives here: one caller, async and sync, by a given event loop and JSON. Never: the time that a server takes.
"""

import asyncio
import json
import sys
from importlib import import_module

from .measure import interleaved_async
from .report import Row

# Nothing here imports `zae_limiter` before a case has settled which JSON it finds.

HEAD_BYTES, BODY_BYTES = 450, 850  # of the request of an acquire, about
CALLS = 100
ROUNDS = 45  # many short ones: what else runs here disturbs less than half of them


def cpu(name: str, *, uvloop: bool, orjson: bool, at_most: float) -> list[Row]:
    """A caller that has its own bucket, async, beside aioboto3 on the same event loop."""
    _choose_json(orjson=orjson)
    factory = import_module("uvloop").new_event_loop if uvloop else None
    with asyncio.Runner(loop_factory=factory) as runner:
        ours, shared, raw, bare = runner.run(_cpu())
    return [
        *_cpu_rows(name, ours, raw, "aioboto3", at_most),
        Row(f"{name}: acquire of a bucket that another process uses, too / UpdateItem", shared / raw, at_most=at_most),
        Row(f"{name}: the same bytes over a bare connection / UpdateItem", bare / raw),
    ]


async def _cpu() -> list[float]:
    import aioboto3

    from benchmarks.canned import NEVER_SPLIT
    from zae_limiter import Options

    from .canned import entity, raw_request, take, warm_limiter

    options = Options(split_above=NEVER_SPLIT)
    async with (
        warm_limiter(options=options) as (limiter, split, server),
        warm_limiter(options=options, shared=True) as (sharing, _, _),
    ):
        await take(limiter, entity(0))
        request = raw_request(split)
        connection = await _bare_connection(server.url)
        async with aioboto3.Session().client("dynamodb", endpoint_url=server.url) as client:

            async def acquires() -> None:
                for _ in range(CALLS):
                    await take(limiter, entity(0))

            async def acquires_shared() -> None:
                for _ in range(CALLS):
                    await take(sharing, entity(0))

            async def updates() -> None:
                for _ in range(CALLS):
                    await client.update_item(**request)

            async def sends() -> None:
                for _ in range(CALLS):
                    await connection.call()

            chunks = [acquires, acquires_shared, updates, sends]
            for warm_up in chunks:
                await warm_up()
            return await interleaved_async(chunks, ROUNDS)


class _Bare(asyncio.Protocol):
    """A connection that sends one prepared request again and again, and reads nothing of the answers."""

    def __init__(self, request: bytes) -> None:
        self._request = request
        self._answer: asyncio.Future[None]
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport  # type: ignore[assignment]  # uvloop's is not an asyncio.Transport

    def data_received(self, data: bytes) -> None:  # noqa: ARG002 - what any client does at least
        self._answer.set_result(None)

    async def call(self) -> None:
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(self._request)
        await self._answer


async def _bare_connection(url: str) -> _Bare:
    """A connection whose requests have the length of a warm acquire's."""
    host, _, port = url.removeprefix("http://").partition(":")
    body = json.dumps({"Key": {"PK": {"S": "bare"}}}).ljust(BODY_BYTES).encode()
    head = (
        f"POST / HTTP/1.1\r\nHost: {host}:{port}\r\nX-Amz-Target: DynamoDB_20120810.UpdateItem\r\n"
        f"Content-Length: {len(body)}\r\n"
    )
    request = head.encode() + b"X-Filler: " + b"-" * (HEAD_BYTES - len(head)) + b"\r\n\r\n" + body
    _, connection = await asyncio.get_running_loop().create_connection(lambda: _Bare(request), host, int(port))
    return connection


def cpu_sync(name: str, *, orjson: bool, at_most: float) -> list[Row]:
    """A thread that has its own bucket, beside boto3."""
    _choose_json(orjson=orjson)
    from .cpu_sync import compare

    ours, raw, _ = compare(CALLS, ROUNDS)
    return _cpu_rows(name, ours, raw, "boto3", at_most)


def _choose_json(*, orjson: bool) -> None:
    if "zae_limiter" in sys.modules:
        raise RuntimeError("too late to choose the JSON of zae_limiter")
    if orjson:
        import_module("orjson")
    else:
        sys.modules["orjson"] = None  # type: ignore[assignment]  # so that its import fails


def _cpu_rows(name: str, ours: float, raw: float, sdk: str, at_most: float) -> list[Row]:
    return [
        Row(f"{name}: acquire / UpdateItem", ours / raw, at_most=at_most),
        Row(f"{name}: an acquire", ours / CALLS * 1e6, "us"),
        Row(f"{name}: an UpdateItem of {sdk}", raw / CALLS * 1e6, "us"),
    ]
