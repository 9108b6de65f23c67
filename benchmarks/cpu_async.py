"""CPU of a warm acquire, against that of the one UpdateItem that it stands for, sent by aioboto3 alone.

Lives here: the async variant, one caller and a hundred. Never: the time that a server takes.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from benchmarks.canned import NEVER_SPLIT
from zae_limiter import Options

from .canned import Server, entity, raw_request, take, warm_limiter
from .measure import interleaved_async, pin_client
from .report import Row

CALLS = 300
SHARED = 0.05  # writes of an acquire, where many callers meet
ROUNDS = 11

Call = Callable[[], Awaitable[object]]


def measure() -> list[Row]:
    pin_client()
    return asyncio.run(_measure())


async def _measure() -> list[Row]:
    import aioboto3

    async with warm_limiter(options=Options(split_above=NEVER_SPLIT)) as (limiter, split, server):
        await take(limiter, entity(0))
        request = raw_request(split)
        async with aioboto3.Session().client("dynamodb", endpoint_url=server.url) as client:

            async def acquire() -> None:
                await take(limiter, entity(0))

            async def update() -> Any:
                return await client.update_item(**request)

            return [
                *await _compare("1 caller", 1, server, acquire, update, at_most=0.2),
                *await _compare("100 callers of one bucket", 100, server, acquire, update, at_most=0.1),
            ]


async def _compare(who: str, callers: int, server: Server, acquire: Call, update: Call, *, at_most: float) -> list[Row]:
    each = CALLS // callers if callers == 1 else 10

    async def chunk(call: Call) -> None:
        await asyncio.gather(*(_repeat(call, each) for _ in range(callers)))

    await chunk(acquire)
    await chunk(update)
    server.updates()
    ours, raw = await interleaved_async([lambda: chunk(acquire), lambda: chunk(update)], ROUNDS)
    calls = callers * each
    writes = server.updates() / (ROUNDS * calls) - 1
    return [
        Row(f"{who}: acquire / UpdateItem", ours / raw, at_most=at_most),
        Row(f"{who}: an acquire", ours / calls * 1e6, "us"),
        Row(f"{who}: an UpdateItem of aioboto3", raw / calls * 1e6, "us"),
        Row(f"{who}: UpdateItem of each acquire", writes, at_least=1 / callers, at_most=max(1 / callers, SHARED)),
    ]


async def _repeat(call: Call, times: int) -> None:
    for _ in range(times):
        await call()
