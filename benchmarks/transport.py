"""What our own HTTP transport costs: waits, CPU, the lag of the event loop, connections.

Lives here: the cases, each in an interpreter of its own; waits, connections. Never: a network.

``python -m benchmarks.transport --case NAME`` prints what a case found as JSON. A case has its own interpreter because
that chooses its event loop and its JSON once, and because some cases change the environment.
"""

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from support.core.authority import Authority, make_authority, openssl_is_here

from .measure import CORES, percentile, pin_client, prepare_process
from .report import NotHere, Row
from .transport_cpu import cpu, cpu_sync
from .transport_lag import lag
from .transport_server import limiter_of, serving, table_and_answer

if TYPE_CHECKING:
    from zae_limiter import RateLimiter

# Nothing here imports `zae_limiter` before a case has settled which JSON it finds.

REGION = "us-east-1"

SERVICE_MS = 4
CALLERS = (100, 1000)
WAIT_SECONDS = 1.0
WAIT_ROUNDS = 7

POOL_CALLS = 20_000
POOL_CALLERS = 300
POOL_MOST = 50


def measure() -> list[Row]:
    if not openssl_is_here():
        raise NotHere("there is no command `openssl`")
    return [row for name in CASES for row in _in_process(name)]


def _in_process(name: str) -> list[Row]:
    command = [sys.executable, "-m", "benchmarks.transport", "--case", name]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return [Row(**row) for row in json.loads(done.stdout)]


# how long callers wait


def waits() -> list[Row]:
    """Callers with a bucket each, over plain HTTP."""
    return asyncio.run(_waits("plain", None))


def waits_over_tls() -> list[Row]:
    """The same over TLS."""
    with tempfile.TemporaryDirectory() as folder:
        authority = make_authority(Path(folder))
        os.environ["AWS_CA_BUNDLE"] = str(authority.bundle)
        return asyncio.run(_waits("TLS", authority))


async def _waits(scheme: str, authority: Authority | None) -> list[Row]:
    table, answer = table_and_answer(max(CALLERS))
    with serving(answer, SERVICE_MS, authority) as server:
        async with limiter_of(table, server.url) as limiter:
            return [row for callers in CALLERS for row in await _waits_of(limiter, scheme, callers)]


async def _waits_of(limiter: "RateLimiter", scheme: str, callers: int) -> list[Row]:
    await _wait_round(limiter, callers, 0)  # opens the connections
    rounds = [await _wait_round(limiter, callers, WAIT_SECONDS) for _ in range(WAIT_ROUNDS)]
    found = [(percentile(waits, 50), percentile(waits, 99)) for waits in rounds]
    middle, high = min(found, key=lambda pair: pair[1] / pair[0])  # what else runs here disturbs the other rounds
    what = f"{callers:,} callers, a bucket each, {scheme}"
    return [
        Row(f"{what}: p50", middle * 1000, "ms"),
        Row(f"{what}: p99", high * 1000, "ms"),
        Row(f"{what}: p99 / p50", high / middle, at_most=3),
    ]


async def _wait_round(limiter: "RateLimiter", callers: int, seconds: float) -> list[float]:
    from .canned import entity, take

    waits: list[float] = []
    until = time.perf_counter() + seconds

    async def caller(entity_id: str) -> None:
        while True:
            begun = time.perf_counter()
            await take(limiter, entity_id)
            waits.append(time.perf_counter() - begun)
            if time.perf_counter() >= until:
                return

    await asyncio.gather(*(caller(entity(number)) for number in range(callers)))
    return waits


# connections


def connections() -> list[Row]:
    """How many are opened by many callers of a small pool."""
    with serving({"Item": {"n": {"N": "@"}}}) as server:
        asyncio.run(_calls(server.url))
        opened = server.connections()
        _calls_sync(server.url)
        opened_sync = server.connections()
    what = f"{POOL_CALLS:,} calls of {POOL_CALLERS}"
    return [
        Row(f"connections opened by {what} tasks, max_connections={POOL_MOST}", opened, at_most=POOL_MOST),
        Row(f"connections opened by {what} threads, max_connections={POOL_MOST}", opened_sync, at_most=POOL_MOST),
    ]


async def _calls(url: str) -> None:
    from zae_limiter.engines.dynamodb.aio.store import DynamoDBStore
    from zae_limiter.operations.values import Get, Key

    store = DynamoDBStore("t", endpoint_url=url, region="us-east-1", read_timeout=30, max_connections=POOL_MOST)
    left = iter(range(POOL_CALLS))

    async def caller() -> None:
        for _ in left:
            await store.perform(Get(Key("p", "s")))

    await asyncio.gather(*(caller() for _ in range(POOL_CALLERS)))
    await store.close()


def _calls_sync(url: str) -> None:
    from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
    from zae_limiter.operations.values import Get, Key

    store = SyncDynamoDBStore("t", endpoint_url=url, region="us-east-1", read_timeout=30, max_connections=POOL_MOST)
    left = iter(range(POOL_CALLS))

    def caller(_: int) -> None:
        for _ in left:
            store.perform(Get(Key("p", "s")))

    with ThreadPoolExecutor(POOL_CALLERS) as pool:
        list(pool.map(caller, range(POOL_CALLERS)))
    store.close()


CASES: Mapping[str, Callable[[], list[Row]]] = {
    "waits": waits,
    "waits over TLS": waits_over_tls,
    "cpu": partial(cpu, "asyncio", uvloop=False, orjson=False, at_most=0.2),
    "cpu, uvloop, orjson": partial(cpu, "uvloop, orjson", uvloop=True, orjson=True, at_most=0.12),
    "cpu, sync": partial(cpu_sync, "1 thread", orjson=False, at_most=0.2),
    "lag": lag,
    "connections": connections,
}


def main(arguments: Sequence[str]) -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", required=True, choices=CASES)
    chosen = parser.parse_args(arguments)
    if CORES not in os.environ:
        prepare_process()
    pin_client()
    print(json.dumps([asdict(row) for row in CASES[chosen.case]()]))


if __name__ == "__main__":
    main(sys.argv[1:])
