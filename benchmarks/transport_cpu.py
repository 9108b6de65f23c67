"""CPU of a warm acquire over our own HTTP transport, against that of one UpdateItem sent by the SDK alone.

Lives here: one caller, async and sync, by a given event loop and JSON. Never: the time that a server takes.
"""

import asyncio
import sys
from importlib import import_module

from .measure import interleaved_async
from .report import Row

# Nothing here imports `zae_limiter` before a case has settled which JSON it finds.

CALLS = 100
ROUNDS = 45  # many short ones: what else runs here disturbs less than half of them


def cpu(name: str, *, uvloop: bool, orjson: bool, at_most: float) -> list[Row]:
    """A caller that has its own bucket, async, beside aioboto3 on the same event loop."""
    _choose_json(orjson=orjson)
    factory = import_module("uvloop").new_event_loop if uvloop else None
    with asyncio.Runner(loop_factory=factory) as runner:
        ours, raw = runner.run(_cpu())
    return _cpu_rows(name, ours, raw, "aioboto3", at_most)


async def _cpu() -> list[float]:
    import aioboto3

    from .canned import entity, raw_request, take, warm_limiter

    async with warm_limiter() as (limiter, split, server):
        await take(limiter, entity(0))
        request = raw_request(split)
        async with aioboto3.Session().client("dynamodb", endpoint_url=server.url) as client:

            async def acquires() -> None:
                for _ in range(CALLS):
                    await take(limiter, entity(0))

            async def updates() -> None:
                for _ in range(CALLS):
                    await client.update_item(**request)

            await acquires()
            await updates()
            return await interleaved_async([acquires, updates], ROUNDS)


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
