"""What group commit saves where many callers meet on one bucket, and what it costs where they never do.

Lives here: 100 callers, of one bucket and of 1,000. Never: latency.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from zae_limiter.flows.acquire.acquire import acquire
from zae_limiter.flows.acquire.requests import AcquireRequest, validate_request
from zae_limiter.flows.steps import Enqueue, Flow
from zae_limiter.operations.errors import StoreError

from .canned import COST, RESOURCE, Split, entity, take, warm_limiter
from .measure import interleaved_async, pin_client
from .report import Row

CALLERS = 100
BUCKETS = 1000
ROUNDS = 9


def measure() -> list[Row]:
    pin_client()
    return [asyncio.run(_one_bucket()), asyncio.run(_many_buckets())]


async def _one_bucket() -> Row:
    each = 20

    async with warm_limiter(service_ms=4) as (limiter, _, server):

        async def caller() -> None:
            for _ in range(each):
                await take(limiter, entity(0))

        await asyncio.gather(*(caller() for _ in range(CALLERS)))
        writes = server.updates() / (CALLERS * each)
    return Row(f"{CALLERS} callers of one bucket: UpdateItem of each acquire", writes, at_most=0.05)


async def _many_buckets() -> Row:
    requests = [validate_request(entity(number), RESOURCE, COST) for number in range(BUCKETS)]
    async with warm_limiter(buckets=BUCKETS) as (limiter, split, _):
        repository = limiter.repository

        async def queued(request: AcquireRequest) -> None:
            await repository.driver.run(acquire(repository.namespace_state, request))

        async def direct(request: AcquireRequest) -> None:
            await _play(split, acquire(repository.namespace_state, request))

        queues, none = await interleaved_async([lambda: _all(queued, requests), lambda: _all(direct, requests)], ROUNDS)
    return Row(
        f"{BUCKETS:,} buckets: CPU of an acquire over one without queues", (queues / none - 1) * 100, "%", at_most=10
    )


async def _all(take_one: Callable[[AcquireRequest], Awaitable[None]], requests: list[AcquireRequest]) -> None:
    async def caller(first: int) -> None:
        for request in requests[first::CALLERS]:
            await take_one(request)

    await asyncio.gather(*(caller(first) for first in range(CALLERS)))


async def _play(split: Split, flow: Flow[Any]) -> Any:
    """A driver without queues: a step that would be queued runs on the spot."""
    try:
        step = next(flow)
        while True:
            try:
                if type(step) is Enqueue:
                    answer = await _play(split, step.waiter.queue.work([step.waiter]))
                else:
                    answer = await split.perform(step)  # type: ignore[arg-type]
            except StoreError as error:
                step = flow.throw(error)
            else:
                step = flow.send(answer)
    except StopIteration as stop:
        return stop.value
