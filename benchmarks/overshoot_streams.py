"""Streams of unknown cost under one limit of tokens, by several processes, until it is used up.

Lives here: the streams, the processes, and what each limiter does for a stream, as its documentation says. Never: a
verdict.

``python -m benchmarks.overshoot_streams --case NAME --store PLACE`` reads cells and their seconds as JSON from a line
each, and prints what it found as JSON, or why a cell failed as a string. A cell's processes are forks of this one, and
one of several is killed by SIGKILL on its way. What flowed is counted in memory that all share, before and after that.
Nothing of ours is imported for the others, so LiteLLM's limiter may run in an environment of its own.
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
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
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
SEED = 57
PATIENCE = 30.0  # seconds that a limiter waits for its store: a busy machine is not an outage
POOL = 1_000  # connections of LiteLLM: one for each stream
ENTITY, MODEL = "team", "gpt-4"
COUNTED, REASON = struct.Struct("4q"), 100  # bytes


class Cell(NamedTuple):
    """So many streams at once, over so many processes; ``limit`` in tokens."""

    streams: int
    processes: int
    limit: int = LIMIT


class Found(NamedTuple):
    """The tokens that flowed, the calls that were admitted, the requests to the store, and the tokens that the limiter
    would still admit at the end.
    """

    tokens: int
    calls: int
    requests: float
    left: int = 0


class Failed(Exception):
    """A cell has no figures; the text says why."""


class Counts:
    """What a process did, in memory that survives it."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, COUNTED.size + REASON)

    def add(self, **more: int) -> None:
        now = self.read()
        self._memory[: COUNTED.size] = COUNTED.pack(*now._replace(**{of: getattr(now, of) + more[of] for of in more}))

    def read(self) -> Found:
        return Found(*COUNTED.unpack(self._memory[: COUNTED.size]))

    def fail(self, error: BaseException) -> None:
        text = f"{type(error).__name__}: {error}".encode()[:REASON]
        self._memory[COUNTED.size :] = text.ljust(REASON, b"\0")

    @property
    def failed(self) -> str:
        """Why the process ended early; empty where it did not."""
        return self._memory[COUNTED.size :].rstrip(b"\0").decode(errors="replace")


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
Work = Callable[[], Coroutine[Any, Any, None]]
"""What a process does."""


class Opened(NamedTuple):
    """What a process has of a limiter: its call, the tokens that are left, and the requests that it made, 0 where the
    server counts them.
    """

    call: Call
    left: Callable[[], Awaitable[int]]
    requests: Callable[[], int] = lambda: 0


def mean_cost() -> int:
    """The mean of what streams cost: the best estimate."""
    chance = random.Random(1)
    costs = [min(LONGEST, max(1, round(chance.lognormvariate(0, SIGMA) * MEDIAN))) for _ in range(20_000)]
    return round(sum(costs) / len(costs))


MEAN = mean_cost()


async def _ours(place: str, limit: int) -> tuple[Any, Callable[[], Awaitable[int]], Callable[[], int]]:
    from zae_limiter import Limit, Options, RateLimiter, Repository
    from zae_limiter.stores import Meter, SQLiteStore

    meter = Meter()
    repository = await Repository.over(SQLiteStore(place, meter=meter), Options(acquire_timeout=PATIENCE))
    limiter = RateLimiter(repository)
    await limiter.set_resource_defaults(MODEL, [Limit.total("tokens", limit)])

    async def left() -> int:
        return int((await limiter.available(ENTITY, MODEL))["tokens"])

    return limiter, left, lambda: sum(meter.requests.values())


async def by_pieces(place: str, limit: int) -> Opened:
    """Ours: a piece first, further ones while tokens flow; the stream is cut where there are none."""
    from zae_limiter import RateLimitExceeded
    from zae_limiter.streams import Pieces

    limiter, left, requests = await _ours(place, limit)

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

    return Opened(call, left, requests)


def _settled(amount: int) -> Callable[[str, int], Awaitable[Opened]]:
    async def opened(place: str, limit: int) -> Opened:
        from zae_limiter import RateLimitExceeded

        limiter, left, requests = await _ours(place, limit)

        async def call(stream: Stream) -> None:
            try:
                async with limiter.acquire(ENTITY, MODEL, {"tokens": amount}) as lease:
                    await stream.flow()
                    await lease.settle(tokens=stream.got)
            except RateLimitExceeded:
                raise Refused from None

        return Opened(call, left, requests)

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

    async def left() -> int:
        return int((await limiter.get_window_stats(rate, ENTITY)).remaining)

    return Opened(call, left)


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

    async def left() -> int:
        return int((await limiter.peek(ENTITY)).remaining)

    return Opened(call, left)


def litellm_v3(longest: int | None = None) -> Callable[[str, int], Awaitable[Opened]]:
    """LiteLLM's own limiter: its hooks before and after a call, over a Redis that all processes share.

    It reserves the ``max_tokens`` of a call, or its default. Where Redis does not answer, it counts in each process
    unless it is asked to refuse: a cell of such counts would say nothing, so it fails.
    """

    async def opened(place: str, limit: int) -> Opened:
        from litellm import ModelResponse, Usage
        from litellm.caching.caching import DualCache
        from litellm.caching.redis_cache import RedisCache
        from litellm.proxy._types import UserAPIKeyAuth
        from litellm.proxy.hooks.parallel_request_limiter_v3 import _PROXY_MaxParallelRequestsHandler_v3
        from litellm.proxy.utils import InternalUsageCache

        host, _, port = place.removeprefix("redis://").partition(":")
        redis = RedisCache(
            host=host,
            port=int(port),
            max_connections=POOL,
            socket_timeout=PATIENCE,
            socket_connect_timeout=PATIENCE,
        )
        cache = DualCache(redis_cache=redis)
        hooks = _PROXY_MaxParallelRequestsHandler_v3(InternalUsageCache(cache), fail_closed_resolver=lambda: True)
        key = UserAPIKeyAuth(api_key=ENTITY, tpm_limit=limit)
        made = [0]

        async def call(stream: Stream) -> None:
            made[0] += 1
            name = f"{os.getpid()}-{made[0]}"
            data: dict[str, object] = {
                "model": MODEL,
                "messages": [{"role": "user", "content": "hi"}],
                "litellm_call_id": name,
            }
            if longest is not None:
                data["max_tokens"] = longest
            try:
                await hooks.async_pre_call_hook(key, cache, data, "completion")
            except Exception as error:
                if getattr(error, "status_code", None) != 429:
                    raise
                raise Refused from None
            await stream.flow()
            now, got = datetime.now(UTC), stream.got
            usage = Usage(prompt_tokens=0, completion_tokens=got, total_tokens=got)
            told = {
                "litellm_call_id": name,
                "model": MODEL,
                "litellm_params": {"metadata": {"user_api_key": ENTITY}},
                "standard_logging_object": {"metadata": {"user_api_key_hash": ENTITY}},
            }
            await hooks.async_log_success_event(told, ModelResponse(usage=usage), now, now)

        async def left() -> int:
            return limit - int(await redis.async_get_cache(hooks.create_rate_limit_keys("api_key", ENTITY, "tokens")))

        return Opened(call, left)

    return opened


CASES: dict[str, Callable[[str, int], Awaitable[Opened]]] = {
    "pieces": by_pieces,
    "longest": _settled(LONGEST),
    "mean": _settled(MEAN),
    "limits": counted_after,
    "throttled": estimated_before,
    "litellm": litellm_v3(),
    "litellm_longest": litellm_v3(LONGEST),
}


def run(case: str, cell: Cell, place: str, seconds: float, seed: int) -> Found:
    """Let a cell's processes use up a limit; kill one of several. Raises ``Failed``."""
    counts = [Counts() for _ in range(cell.processes)]
    begins = time.monotonic() + 0.3 + 0.05 * cell.processes
    works = [partial(_work, case, cell, place, rank, each, begins, seed) for rank, each in enumerate(counts)]
    _wait(works, counts, seconds, KILLED_AT * cell.limit if cell.processes > 1 else None)
    after = Counts()
    _wait([partial(_look, case, cell, place, after)], [after], PATIENCE)
    return Found(*(sum(column) for column in zip(*(each.read() for each in (*counts, after)), strict=True)))


def _wait(works: Sequence[Work], counts: Sequence[Counts], seconds: float, killed_at: float | None = None) -> None:
    """Do each work in a process; kill the last one when so many tokens have flowed. Raises ``Failed``."""
    ends = time.monotonic() + seconds
    workers = [_fork(work, each) for work, each in zip(works, counts, strict=True)]
    victim, left = workers[-1], {*workers}
    try:
        while left:
            time.sleep(0.005)
            if killed_at is not None and victim in left and sum(each.read().tokens for each in counts) > killed_at:
                os.kill(victim, signal.SIGKILL)
            for pid, count in zip(workers, counts, strict=True):
                ended, status = os.waitpid(pid, os.WNOHANG) if pid in left else (0, 0)
                if ended:
                    left.discard(pid)
                    if count.failed or (status and (killed_at is None or pid != victim)):
                        raise Failed(count.failed or f"a process ended with status {status}")
            if time.monotonic() > ends:
                raise Failed(f"not done after {seconds:.0f} s")
    finally:
        for pid in left:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)


def _fork(work: Work, counts: Counts) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        asyncio.run(work())
    except BaseException as error:  # noqa: BLE001 - a fork ends here, whatever happens
        counts.fail(error)
        traceback.print_exc()
    os._exit(0)


async def _look(case: str, cell: Cell, place: str, counts: Counts) -> None:
    counts.add(left=await (await CASES[case](place, cell.limit)).left())


async def _work(case: str, cell: Cell, place: str, rank: int, counts: Counts, begins: float, seed: int) -> None:
    call, _, requests = await CASES[case](place, cell.limit)
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
    counts.add(requests=requests() - before - int(counts.read().requests))


async def _watch(requests: Callable[[], int], before: int, counts: Counts) -> None:
    while True:  # for a process that is killed
        await asyncio.sleep(0.02)
        counts.add(requests=requests() - before - int(counts.read().requests))


MODULES = {
    **dict.fromkeys(("pieces", "longest", "mean"), ("zae_limiter.stores", "zae_limiter.streams.aio.pieces")),
    "limits": ("limits.aio.strategies", "redis.asyncio"),
    "throttled": ("throttled.asyncio", "redis.asyncio"),
    **dict.fromkeys(
        ("litellm", "litellm_longest"),
        ("litellm.proxy.hooks.parallel_request_limiter_v3", "litellm.proxy.proxy_server"),
    ),
}
"""What a case imports, before its processes begin; what LiteLLM's first call imports takes a core ten seconds."""
DISTRIBUTIONS = {
    "limits": "limits",
    "throttled": "throttled-py",
    **dict.fromkeys(("litellm", "litellm_longest"), "litellm"),
}


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
        asked, seconds = json.loads(line)
        try:
            found: Found | str = _measured(given.case, Cell(*asked), given.store, seconds)
        except Failed as reason:
            found = str(reason)
        print(json.dumps(found), flush=True)


def _measured(case: str, cell: Cell, store: str, seconds: float) -> Found:
    if not store.startswith("redis://"):
        return run(case, cell, str(Path(store) / f"{case}-{'-'.join(map(str, cell))}.db"), seconds, SEED)
    import redis

    with redis.Redis.from_url(store) as server:
        server.flushall()
        before = _reads(server)
        found = run(case, cell, store, seconds, SEED)
        return found._replace(requests=_reads(server) - before)


if __name__ == "__main__":
    main()
