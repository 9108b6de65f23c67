"""CPU of a client for a decision on two limits, beside that of other libraries over Redis.

Lives here: ours to the stub and to dynoxide, theirs as their documentation says. Never: the time that a server takes.

Each case has an interpreter of its own, since a library chooses its event loop and its JSON once:
``python -m benchmarks.peers_redis --case NAME --redis URL [--dynoxide URL]`` prints what it found as JSON. Our buckets
never split: all the writes of one caller would make one of the only bucket hot, and shards cost a client nothing more.
"""

import argparse
import asyncio
import json
import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from importlib import import_module
from itertools import cycle
from threading import Barrier
from typing import Any, ClassVar, NamedTuple, TypeVar

from .emulator import dynoxide
from .measure import CORES, interleaved, interleaved_async, pin_client, pin_server, prepare_process
from .report import NotHere, Row

# Nothing here imports `zae_limiter` before a case has settled which JSON it finds.


class Shape(NamedTuple):
    """Who calls what: so many ``callers``, each so many ``times`` in a round, go round the ``buckets``."""

    callers: int
    buckets: int
    times: int
    rounds: int = 5

    @property
    def visits(self) -> int:
        """The acquires of each bucket in a round; 0 if they do not come round."""
        return self.callers * self.times // self.buckets

    def of(self, libraries: Mapping[str, Any]) -> dict[str, Any]:
        """Leave out what takes minutes and tells nothing: many acquires of one caller, a request for each."""
        many = self.callers == 1 and self.buckets > 1 and self.visits >= VISITS_HELD
        return {name: each for name, each in libraries.items() if not (many and name == DYNOXIDE)}


SHAPES = (
    Shape(1, 1, 300),
    Shape(1, 1000, 300),
    Shape(1, 1000, 10_000, rounds=2),
    Shape(100, 1, 10),
    Shape(100, 1000, 10),
)
BUCKETS = max(shape.buckets for shape in SHAPES)
HOT = 0.4
CACHE_LIFE = 3600  # seconds; a case takes longer than the default, and would measure reads of the limits instead
START_SECONDS = 10.0
WAITS = (0.0, 0.001, 0.005)
COLD_ROUNDS = 300

STUB = "zae-limiter, to the stub"
DYNOXIDE = "zae-limiter, to dynoxide"
PREFETCH = "zae-limiter with prefetch, to dynoxide"
LIMITS = "limits, fixed window"
THROTTLED = "throttled-py, token bucket"
OURS = (STUB, DYNOXIDE)
PREFETCH_SECONDS = 60.0
PREFETCH_AT_MOST = 0.1  # of the cheapest of theirs on one bucket
PREFETCH_AT_MOST_OF_MANY, VISITS_HELD = 0.35, 10  # on many that are acquired so often; seldom used ones are not held

T = TypeVar("T")
Decide = Callable[[str], Awaitable[None]]
DecideSync = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Case:
    """One way to run a client."""

    name: str
    sync: bool = False
    uvloop: bool = False
    orjson: bool = False
    at_most: float = 1.3  # of the cheapest of theirs, where callers meet on no bucket


CASES = (
    Case("async, asyncio"),
    Case("async, uvloop, orjson", uvloop=True, orjson=True, at_most=1.0),
    Case("sync", sync=True),
)


@dataclass(frozen=True, slots=True)
class Servers:
    """Where they answer."""

    redis: str
    dynoxide: str | None


@dataclass(frozen=True, slots=True)
class PrefetchRow(Row):
    """A figure of limits with ``prefetch``, which have a table of their own."""

    block: ClassVar[str] = "peers_redis_prefetch"


@dataclass(frozen=True, slots=True)
class Cell:
    """What each library took for a decision."""

    shape: Shape
    us: Mapping[str, float]

    def rows(self, case: Case) -> Iterator[Row]:
        """The figures, and ours over the cheapest of theirs."""
        people = "threads" if case.sync else "callers"
        callers, buckets, visits = self.shape.callers, self.shape.buckets, self.shape.visits
        what = f"{case.name}: {callers} {people if callers > 1 else people[:-1]}, {buckets:,} bucket"
        what += "" if buckets == 1 else f"s, {visits} acquires of each" if visits > 1 else "s"
        for name, us in self.us.items():
            yield (PrefetchRow if name == PREFETCH else Row)(f"{what}: {name}", us, "us")
        theirs = min(self.us[LIMITS], self.us[THROTTLED])
        for name in OURS:
            if name in self.us:
                ratio = self.us[name] / theirs
                yield Row(f"{what}: {name} / the cheapest of theirs", ratio, at_most=self._at_most(case))
        if PREFETCH in self.us:
            ratio = self.us[PREFETCH] / theirs
            yield PrefetchRow(f"{what}: {PREFETCH} / the cheapest of theirs", ratio, at_most=self._prefetch_at_most())

    def _at_most(self, case: Case) -> float | None:
        if self.shape.buckets > 1:
            return case.at_most
        return HOT if self.shape.callers > 1 else None

    def _prefetch_at_most(self) -> float | None:
        if self.shape.buckets == 1:
            return PREFETCH_AT_MOST
        return PREFETCH_AT_MOST_OF_MANY if self.shape.visits >= VISITS_HELD else None


def measure() -> list[Row]:
    pin_server()  # what is started here stays there; the cases move away
    rows = [row for case in CASES for cell in _beside_servers(case) for row in cell.rows(case)]
    return sorted([*rows, *cold_rows()], key=lambda row: row.block)  # a table at a time


def _beside_servers(case: Case) -> list[Cell]:
    """Run a case beside servers of its own: the emulator gets slower with each item that it was ever asked for."""
    with ExitStack() as stack:
        return _in_process(case, Servers(stack.enter_context(redis_server()), _dynoxide(stack)))


def cold_rows() -> Iterator[Row]:
    """CPU of the same work back to back and after waits: a caller of a slow server finds cold caches."""
    pin_client()
    for seconds in WAITS:
        taken = 0.0
        for _ in range(COLD_ROUNDS):
            time.sleep(seconds)
            begun = time.process_time()
            sum(range(1_000))
            json.dumps({"PK": {"S": "a"}, "SK": {"S": "b"}, "numbers": list(range(20))})
            taken += time.process_time() - begun
        yield Row(f"the same work of Python after a wait of {seconds * 1000:g} ms", taken / COLD_ROUNDS * 1e6, "us")


@contextmanager
def redis_server() -> Iterator[str]:
    """A Redis of the distribution's that keeps nothing. Raises ``NotHere``."""
    program = shutil.which("redis-server")
    if program is None:
        raise NotHere("there is no redis-server on the PATH; `apt-get install redis-server` brings it")
    port = _free_port()
    command = [program, "--bind", "127.0.0.1", "--port", str(port), "--save", "", "--appendonly", "no"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        _wait_until_it_answers(port, process)
        yield f"redis://127.0.0.1:{port}"
    finally:
        process.kill()
        process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _wait_until_it_answers(port: int, process: subprocess.Popen[bytes]) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise NotHere(f"redis-server ended with code {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise NotHere(f"redis-server did not answer within {START_SECONDS:.0f} s")


def _dynoxide(stack: ExitStack) -> str | None:
    try:
        return dynoxide(stack)
    except NotHere as reason:
        print(f"only to the stub: {reason}")
        return None


def _in_process(case: Case, servers: Servers) -> list[Cell]:
    command = [sys.executable, "-m", "benchmarks.peers_redis", "--case", case.name, "--redis", servers.redis]
    if servers.dynoxide is not None:
        command += ["--dynoxide", servers.dynoxide]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [Cell(Shape(*cell["shape"]), cell["us"]) for cell in json.loads(done.stdout)]


def run(case: Case, servers: Servers) -> list[Cell]:
    """What one case takes in this process, which has not imported ``zae_limiter`` yet."""
    choose_modules(case)
    return _run_sync(servers) if case.sync else run_in_loop(case, _run_async(servers))


def choose_modules(case: Case) -> None:
    """Settle which JSON ``zae_limiter`` finds, before it is imported."""
    if "zae_limiter" in sys.modules:
        raise RuntimeError("too late to choose the JSON of zae_limiter")
    if case.orjson:
        import_module("orjson")
    else:
        sys.modules["orjson"] = None  # type: ignore[assignment]  # so that its import fails
    if not import_module("redis.utils").HIREDIS_AVAILABLE:
        raise RuntimeError("redis-py does without hiredis, which is not what theirs are measured with")


def run_in_loop(case: Case, work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns on the event loop of a case."""
    factory = import_module("uvloop").new_event_loop if case.uvloop else None
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(work)


async def _run_async(servers: Servers) -> list[Cell]:
    async with AsyncExitStack() as stack:
        libraries = {STUB: await _ours_to_the_stub(stack)}
        if servers.dynoxide is not None:
            libraries[DYNOXIDE] = await _ours_to_dynoxide(stack, servers.dynoxide)
            libraries[PREFETCH] = await _ours_to_dynoxide(stack, servers.dynoxide, prefetch=PREFETCH_SECONDS)
        libraries |= {LIMITS: limits(servers.redis), THROTTLED: throttled(servers.redis)}
        return [await _cell(shape.of(libraries), shape) for shape in SHAPES]


async def _cell(libraries: Mapping[str, Decide], shape: Shape) -> Cell:
    async def chunk(decide: Decide, walks: Sequence[Iterator[str]]) -> None:
        await asyncio.gather(*(_repeat(decide, walk, shape.times) for walk in walks))

    chunks = [partial(chunk, decide, _walks(shape)) for decide in libraries.values()]
    for warm_up in chunks:
        await warm_up()
    return _found(libraries, shape, await interleaved_async(chunks, shape.rounds))


async def _repeat(decide: Decide, walk: Iterator[str], times: int) -> None:
    for _ in range(times):
        await decide(next(walk))


def _run_sync(servers: Servers) -> list[Cell]:
    with ExitStack() as stack:
        libraries = {STUB: _ours_to_the_stub_sync(stack)}
        if servers.dynoxide is not None:
            libraries[DYNOXIDE] = _ours_to_dynoxide_sync(stack, servers.dynoxide)
            libraries[PREFETCH] = _ours_to_dynoxide_sync(stack, servers.dynoxide, prefetch=PREFETCH_SECONDS)
        libraries |= {LIMITS: limits_sync(servers.redis), THROTTLED: throttled_sync(servers.redis)}
        return [_cell_sync(shape.of(libraries), shape) for shape in SHAPES]


def _cell_sync(libraries: Mapping[str, DecideSync], shape: Shape) -> Cell:
    together = Barrier(shape.callers)

    def caller(decide: DecideSync, walk: Iterator[str]) -> None:
        together.wait()
        for _ in range(shape.times):
            decide(next(walk))

    with ThreadPoolExecutor(shape.callers) as pool:

        def chunk(decide: DecideSync, walks: Sequence[Iterator[str]]) -> None:
            list(pool.map(partial(caller, decide), walks))

        chunks = [partial(chunk, decide, _walks(shape)) for decide in libraries.values()]
        for warm_up in chunks:
            warm_up()
        return _found(libraries, shape, interleaved(chunks, shape.rounds))


def _walks(shape: Shape) -> list[Iterator[str]]:
    """The entities that each caller goes round; two callers have one in common only if there is one in all."""
    from .canned import entity

    names = [entity(number) for number in range(shape.buckets)]
    return [cycle(names[caller :: shape.callers] or names) for caller in range(shape.callers)]


def _found(libraries: Mapping[str, object], shape: Shape, seconds: Sequence[float]) -> Cell:
    decisions = shape.callers * shape.times
    us = {name: taken / decisions * 1e6 for name, taken in zip(libraries, seconds, strict=True)}
    return Cell(shape, us)


async def _ours_to_the_stub(stack: AsyncExitStack) -> Decide:
    from benchmarks.canned import NEVER_SPLIT
    from zae_limiter import Options

    from .canned import take, warm_limiter

    options = Options(split_above=NEVER_SPLIT, config_cache_ttl=CACHE_LIFE, acquire_timeout=None)
    limiter, _, _ = await stack.enter_async_context(warm_limiter(buckets=BUCKETS, options=options))
    return partial(take, limiter)


async def _ours_to_dynoxide(stack: AsyncExitStack, url: str, prefetch: float = 0.0) -> Decide:
    from benchmarks.canned import NEVER_SPLIT
    from zae_limiter import Options, RateLimiter, Repository
    from zae_limiter.engines.dynamodb.aio.store import DynamoDBStore

    from . import canned

    table = f"{canned.TABLE}-{prefetch:.0f}"
    store = DynamoDBStore(table, endpoint_url=url, region="us-east-1", read_timeout=30)
    options = Options(
        stack=table,
        create_table=True,
        split_above=NEVER_SPLIT,
        read_timeout=30,
        config_cache_ttl=CACHE_LIFE,
        acquire_timeout=None,
    )
    repository = await stack.enter_async_context(await Repository.over(store, options))
    await repository.set_resource_defaults(
        canned.RESOURCE, [replace(limit, prefetch=prefetch) for limit in canned.LIMITS]
    )
    limiter = RateLimiter(repository)
    for number in range(BUCKETS):
        await canned.take(limiter, canned.entity(number))
    return partial(canned.take, limiter)


def _ours_to_the_stub_sync(stack: ExitStack) -> DecideSync:
    from benchmarks.canned import NEVER_SPLIT
    from zae_limiter import Options

    from .canned import take_sync, warm_sync_limiter

    options = Options(split_above=NEVER_SPLIT, config_cache_ttl=CACHE_LIFE, acquire_timeout=None)
    limiter, _, _ = stack.enter_context(warm_sync_limiter(buckets=BUCKETS, options=options))
    return partial(take_sync, limiter)


def _ours_to_dynoxide_sync(stack: ExitStack, url: str, prefetch: float = 0.0) -> DecideSync:
    from benchmarks.canned import NEVER_SPLIT
    from zae_limiter import Options, SyncRateLimiter, SyncRepository
    from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore

    from . import canned

    table = f"{canned.TABLE}-{prefetch:.0f}"
    store = SyncDynamoDBStore(table, endpoint_url=url, region="us-east-1", read_timeout=30)
    options = Options(
        stack=table,
        create_table=True,
        split_above=NEVER_SPLIT,
        read_timeout=30,
        config_cache_ttl=CACHE_LIFE,
        acquire_timeout=None,
    )
    repository = stack.enter_context(SyncRepository.over(store, options))
    repository.set_resource_defaults(canned.RESOURCE, [replace(limit, prefetch=prefetch) for limit in canned.LIMITS])
    limiter = SyncRateLimiter(repository)
    for number in range(BUCKETS):
        canned.take_sync(limiter, canned.entity(number))
    return partial(canned.take_sync, limiter)


def limits(url: str) -> Decide:
    """A counter for each window of time and each limit."""
    from limits.aio.storage import RedisStorage
    from limits.aio.strategies import FixedWindowRateLimiter

    from limits import RateLimitItemPerDay

    from .canned import COST
    from .canned import LIMITS as OF_ENTITY

    limiter = FixedWindowRateLimiter(RedisStorage(f"async+{url}", implementation="redispy"))
    rates = [(RateLimitItemPerDay(limit.capacity), COST[limit.name]) for limit in OF_ENTITY]

    async def decide(entity_id: str) -> None:
        for rate, cost in rates:
            _admitted(await limiter.hit(rate, entity_id, cost=cost))

    return decide


def limits_sync(url: str) -> DecideSync:
    """A counter for each window of time and each limit."""
    from limits.storage import RedisStorage
    from limits.strategies import FixedWindowRateLimiter

    from limits import RateLimitItemPerDay

    from .canned import COST
    from .canned import LIMITS as OF_ENTITY

    limiter = FixedWindowRateLimiter(RedisStorage(url))
    rates = [(RateLimitItemPerDay(limit.capacity), COST[limit.name]) for limit in OF_ENTITY]

    def decide(entity_id: str) -> None:
        for rate, cost in rates:
            _admitted(limiter.hit(rate, entity_id, cost=cost))

    return decide


def throttled(url: str) -> Decide:
    """A token bucket for each limit."""
    import throttled.asyncio

    limiters = _token_buckets(throttled.asyncio, url)

    async def decide(entity_id: str) -> None:
        for name, cost, limiter in limiters:
            _admitted(not (await limiter.limit(f"{entity_id}:{name}", cost)).limited)

    return decide


def _token_buckets(library: Any, url: str) -> list[tuple[str, int, Any]]:
    """Name, cost and limiter of each limit, by throttled-py's async or sync variant."""
    from .canned import COST
    from .canned import LIMITS as OF_ENTITY

    using, redis = library.RateLimiterType.TOKEN_BUCKET.value, library.store.RedisStore(server=url)
    quotas = [(limit.name, library.per_day(limit.capacity, limit.capacity)) for limit in OF_ENTITY]
    return [(name, COST[name], library.Throttled(using=using, quota=quota, store=redis)) for name, quota in quotas]


def throttled_sync(url: str) -> DecideSync:
    """A token bucket for each limit."""
    import throttled

    limiters = _token_buckets(throttled, url)

    def decide(entity_id: str) -> None:
        for name, cost, limiter in limiters:
            _admitted(not limiter.limit(f"{entity_id}:{name}", cost).limited)

    return decide


def _admitted(admitted: bool) -> None:  # noqa: FBT001 - the answer of a library
    if not admitted:
        raise RuntimeError("a limit that never runs out ran out")


def main(arguments: Sequence[str]) -> None:
    cases = {case.name: case for case in CASES}
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", required=True, choices=cases)
    parser.add_argument("--redis", required=True)
    parser.add_argument("--dynoxide")
    chosen = parser.parse_args(arguments)
    if CORES not in os.environ:
        prepare_process()
    pin_client()
    cells = run(cases[chosen.case], Servers(chosen.redis, chosen.dynoxide))
    print(json.dumps([asdict(cell) for cell in cells]))


if __name__ == "__main__":
    main(sys.argv[1:])
