"""Streams of unknown cost under one limit of tokens, by several processes, until it is used up.

Lives here: the streams, the processes, and what each limiter does for a stream, as its documentation says. Never: a
verdict.

``python -m benchmarks.overshoot_streams --case NAME --store PLACE`` reads cells as JSON from a line each, and prints
what it found as JSON. A cell's processes are forks of this one, and one of several is killed by SIGKILL on its way.
What flowed is counted in memory that all share, before and after that. Nothing of ours is imported for the others, so
LiteLLM's limiter may run in an environment of its own.
"""

import argparse
import asyncio
import json
import mmap
import os
import random
import signal
import struct
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

LIMIT = 1_000_000
LONGEST = 4_096  # tokens, as `max_tokens` says
PIECE, CHUNK = 64, 40
MEDIAN, SIGMA = 300, 1.2  # of the costs: a heavy tail
LEAVES = 0.1  # clients that go before the end
PAUSE = 0.001  # seconds between two chunks
AGAIN, TRIES = 0.2, 5  # a refused caller asks again, in case that others give back
KILLED_AT = 0.4  # of the limit
ENTITY, MODEL = "team", "gpt-4"


class Cell(NamedTuple):
    """So many streams at once, over so many processes; ``limit`` in tokens."""

    streams: int
    processes: int
    limit: int = LIMIT


class Found(NamedTuple):
    """The tokens that flowed, the calls that were admitted, and the requests to the store."""

    tokens: int
    calls: int
    requests: float


class Counts:
    """What a process did, in memory that survives it."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 24)

    def add(self, tokens: int = 0, calls: int = 0, requests: int = 0) -> None:
        before = self.read()
        self._memory[:24] = struct.pack("3q", before[0] + tokens, before[1] + calls, before[2] + requests)

    def read(self) -> tuple[int, int, int]:
        tokens, calls, requests = struct.unpack("3q", self._memory[:24])
        return tokens, calls, requests


class Stream:
    """One answer: its chunks, as a model sends them, and what the client got of it."""

    def __init__(self, chance: random.Random, counts: Counts) -> None:
        cost = min(LONGEST, max(1, round(chance.lognormvariate(0, SIGMA) * MEDIAN)))
        self._flows = max(1, round(cost * chance.random())) if chance.random() < LEAVES else cost
        self._counts = counts
        self.got = 0

    async def chunks(self) -> AsyncIterator[int]:
        """The sizes of its chunks, until it ends or its client leaves."""
        left = self._flows
        while left:
            await asyncio.sleep(PAUSE)
            yield min(CHUNK, left)
            left -= min(CHUNK, left)

    def deliver(self, tokens: int) -> None:
        """The client gets a chunk."""
        self.got += tokens
        self._counts.add(tokens=tokens)

    async def flow(self) -> None:
        """The client gets all of it."""
        async for tokens in self.chunks():
            self.deliver(tokens)


class Refused(Exception):
    """The limiter lets no stream begin."""


Call = Callable[[Stream], Awaitable[None]]
"""Lets a stream flow as far as a limiter allows, or raises ``Refused``."""
Opened = tuple[Call, Callable[[], int]]
"""The call of a process, and the requests that it made; 0 where the server counts them."""


def mean_cost() -> int:
    """The mean of what streams cost: the best estimate."""
    chance = random.Random(1)
    costs = [min(LONGEST, max(1, round(chance.lognormvariate(0, SIGMA) * MEDIAN))) for _ in range(20_000)]
    return round(sum(costs) / len(costs))


MEAN = mean_cost()


async def _ours(place: str, limit: int) -> tuple[Any, Callable[[], int]]:
    from zae_limiter import Limit, Options, RateLimiter, Repository
    from zae_limiter.stores import Meter, SQLiteStore

    meter = Meter()
    repository = await Repository.over(SQLiteStore(place, meter=meter), Options())
    limiter = RateLimiter(repository)
    await limiter.set_resource_defaults(MODEL, [Limit.total("tokens", limit)])
    return limiter, lambda: sum(meter.requests.values())


async def by_pieces(place: str, limit: int) -> Opened:
    """Ours: a piece first, further ones while tokens flow; the stream is cut where there are none."""
    from zae_limiter import RateLimitExceeded
    from zae_limiter.streams import Pieces

    limiter, requests = await _ours(place, limit)

    async def call(stream: Stream) -> None:
        try:
            async with limiter.acquire(ENTITY, MODEL, {"tokens": PIECE}) as lease:
                pieces = Pieces(lease, {"tokens": PIECE})
                async for tokens in stream.chunks():
                    await pieces.add(tokens=tokens)
                    stream.deliver(tokens)
        except RateLimitExceeded:
            if not stream.got:
                raise Refused from None

    return call, requests


def _settled(amount: int) -> Callable[[str, int], Awaitable[Opened]]:
    async def opened(place: str, limit: int) -> Opened:
        from zae_limiter import RateLimitExceeded

        limiter, requests = await _ours(place, limit)

        async def call(stream: Stream) -> None:
            try:
                async with limiter.acquire(ENTITY, MODEL, {"tokens": amount}) as lease:
                    await stream.flow()
                    await lease.settle(tokens=stream.got)
            except RateLimitExceeded:
                raise Refused from None

        return call, requests

    return opened


async def counted_after(place: str, limit: int) -> Opened:
    """``limits``: look, call, then count what it cost."""
    from limits.aio.storage import RedisStorage
    from limits.aio.strategies import FixedWindowRateLimiter

    from limits import RateLimitItemPerYear

    limiter = FixedWindowRateLimiter(RedisStorage(f"async+{place}", implementation="redispy"))
    rate = RateLimitItemPerYear(limit)

    async def call(stream: Stream) -> None:
        if not await limiter.test(rate, ENTITY):
            raise Refused
        await stream.flow()
        await limiter.hit(rate, ENTITY, cost=stream.got)

    return call, lambda: 0


async def estimated_before(place: str, limit: int) -> Opened:
    """throttled-py: the mean before the call; it has no way to settle."""
    import throttled.asyncio as library

    using, store = library.RateLimiterType.FIXED_WINDOW.value, library.store.RedisStore(server=place)
    quota = library.per_duration(timedelta(days=365), limit)
    limiter = library.Throttled(using=using, quota=quota, store=store)

    async def call(stream: Stream) -> None:
        if (await limiter.limit(ENTITY, MEAN)).limited:
            raise Refused
        await stream.flow()

    return call, lambda: 0


async def litellm_v3(place: str, limit: int) -> Opened:
    """LiteLLM's own limiter: its hooks before and after a call, over a Redis that all processes share."""
    from litellm import ModelResponse, Usage
    from litellm.caching.caching import DualCache
    from litellm.caching.redis_cache import RedisCache
    from litellm.proxy._types import UserAPIKeyAuth
    from litellm.proxy.hooks.parallel_request_limiter_v3 import _PROXY_MaxParallelRequestsHandler_v3
    from litellm.proxy.utils import InternalUsageCache

    host, _, port = place.removeprefix("redis://").partition(":")
    cache = DualCache(redis_cache=RedisCache(host=host, port=int(port)))
    hooks = _PROXY_MaxParallelRequestsHandler_v3(InternalUsageCache(cache))
    key = UserAPIKeyAuth(api_key=ENTITY, tpm_limit=limit)
    made = [0]

    async def call(stream: Stream) -> None:
        made[0] += 1
        name = f"{os.getpid()}-{made[0]}"
        data = {"model": MODEL, "messages": [{"role": "user", "content": "hi"}], "litellm_call_id": name}
        try:
            await hooks.async_pre_call_hook(key, cache, data, "completion")
        except Exception as error:
            if getattr(error, "status_code", None) != 429:
                raise
            raise Refused from None
        await stream.flow()
        now, usage = datetime.now(UTC), Usage(prompt_tokens=0, completion_tokens=stream.got, total_tokens=stream.got)
        told = {
            "litellm_call_id": name,
            "model": MODEL,
            "litellm_params": {"metadata": {"user_api_key": ENTITY}},
            "standard_logging_object": {"metadata": {"user_api_key_hash": ENTITY}},
        }
        await hooks.async_log_success_event(told, ModelResponse(usage=usage), now, now)

    return call, lambda: 0


CASES: dict[str, Callable[[str, int], Awaitable[Opened]]] = {
    "pieces": by_pieces,
    "longest": _settled(LONGEST),
    "mean": _settled(MEAN),
    "limits": counted_after,
    "throttled": estimated_before,
    "litellm": litellm_v3,
}


def run(case: str, cell: Cell, place: str, seed: int) -> Found:
    """Let a cell's processes use up a limit; kill one of several."""
    counts = [Counts() for _ in range(cell.processes)]
    begins = time.monotonic() + 0.3 + 0.05 * cell.processes
    workers = [_fork(case, cell, place, rank, counts[rank], begins, seed) for rank in range(cell.processes)]
    victim, failed = (workers[-1] if cell.processes > 1 else None), False
    left = set(workers)
    while left:
        time.sleep(0.005)
        if victim in left and sum(each.read()[0] for each in counts) > KILLED_AT * cell.limit:
            os.kill(victim, signal.SIGKILL)
        for pid in [*left]:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                left.discard(pid)
                failed |= status != 0 and pid != victim
    if failed:
        raise RuntimeError(f"a process of {case} failed")
    tokens, calls, requests = (sum(column) for column in zip(*(each.read() for each in counts), strict=True))
    return Found(tokens, calls, requests)


def _fork(case: str, cell: Cell, place: str, rank: int, counts: Counts, begins: float, seed: int) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        asyncio.run(_work(case, cell, place, rank, counts, begins, seed))
    except BaseException:  # noqa: BLE001 - a fork ends here, whatever happens
        import traceback

        traceback.print_exc()
        os._exit(1)
    os._exit(0)


async def _work(case: str, cell: Cell, place: str, rank: int, counts: Counts, begins: float, seed: int) -> None:
    call, requests = await CASES[case](place, cell.limit)
    await asyncio.sleep(max(0.0, begins - time.monotonic()))
    before = requests()

    async def streams(number: int) -> None:
        chance, refused = random.Random(f"{seed} {number}"), 0
        while refused < TRIES:
            stream = Stream(chance, counts)
            try:
                await call(stream)
                counts.add(calls=1)
                refused = 0
            except Refused:
                refused += 1
                await asyncio.sleep(AGAIN)

    watch = asyncio.create_task(_watch(requests, before, counts))
    await asyncio.gather(*(streams(number) for number in range(rank, cell.streams, cell.processes)))
    watch.cancel()
    counts.add(requests=requests() - before - counts.read()[2])


async def _watch(requests: Callable[[], int], before: int, counts: Counts) -> None:
    while True:  # for a process that is killed
        await asyncio.sleep(0.02)
        counts.add(requests=requests() - before - counts.read()[2])


MODULES = {
    **dict.fromkeys(("pieces", "longest", "mean"), ("zae_limiter.stores", "zae_limiter.streams.aio.pieces")),
    "limits": ("limits.aio.strategies", "redis.asyncio"),
    "throttled": ("throttled.asyncio", "redis.asyncio"),
    "litellm": ("litellm.proxy.hooks.parallel_request_limiter_v3", "litellm.proxy.utils"),
}
"""What a case imports, before its processes begin."""
DISTRIBUTIONS = {"limits": "limits", "throttled": "throttled-py", "litellm": "litellm"}


def _reads(server: Any) -> int:
    """How often a Redis has read from its sockets: once for each request, however many commands it has."""
    return int(server.info("stats")["total_reads_processed"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", choices=CASES, required=True)
    parser.add_argument("--store", required=True)
    given = parser.parse_args()
    os.environ |= {"LITELLM_RATE_LIMIT_WINDOW_SIZE": "86400", "LITELLM_LOCAL_MODEL_COST_MAP": "True"}
    for module in MODULES[given.case]:
        import_module(module)
    print(json.dumps(version(DISTRIBUTIONS.get(given.case, "zae-limiter-core"))), flush=True)
    for line in sys.stdin:
        cell = Cell(*json.loads(line))
        place, server = given.store, None
        reads = 0
        if place.startswith("redis://"):
            import redis

            server = redis.Redis.from_url(place)
            server.flushall()
            reads = _reads(server)
        else:
            place = str(Path(place) / f"{given.case}-{'-'.join(map(str, cell))}.db")
        found = run(given.case, cell, place, seed=57)
        if server is not None:
            found = found._replace(requests=_reads(server) - reads)
            server.close()
        print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
