"""CPU of one caller alone, by how long the server takes to answer: ours to the stub, others to Redis, as late as it.

Lives here: 0, 1 and 4 ms for both sides, one limit and two. Never: a network, or several callers.

Behind a wait of milliseconds the caches of a processor are cold, and the same work costs more. DynamoDB answers after
some, Redis in the same zone after less than one: whoever compares the two has to read a row of ours beside another one
of theirs. Each case has an interpreter of its own: ``python -m benchmarks.distance --case NAME --redis PORT``.
"""

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from itertools import cycle
from typing import Any, Final
from urllib.parse import urlsplit

from .delay import delayed
from .measure import CORES, interleaved, interleaved_async, pin_client, pin_server, prepare_process
from .peers_redis import (
    CACHE_LIFE,
    CASES,
    LIMITS,
    STUB,
    THROTTLED,
    Case,
    Decide,
    DecideSync,
    choose_modules,
    limits,
    limits_sync,
    redis_server,
    run_in_loop,
    throttled,
    throttled_sync,
)
from .report import Row

# Nothing here imports `zae_limiter` before a case has settled which JSON it finds.

MS: Final = (0, 1, 4)
ROUNDS: Final = 5
TIMES: Final = {0: 300, 1: 100, 4: 60}  # decisions in a round
BUCKETS: Final = 100
AT_MOST: Final = {0: 0.9, 1: 1.5, 4: 1.5}  # of limits on Redis that answers as late
Found = dict[str, float]  # microseconds by library


def measure() -> list[Row]:
    pin_server()
    return [row for case in CASES if case.uvloop for row in _rows(case)]


def _rows(case: Case) -> Iterator[Row]:
    with redis_server() as url:
        command = [sys.executable, "-m", "benchmarks.distance", "--case", case.name, "--redis", url]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    for number, ms, us in json.loads(done.stdout):
        for name, each in us.items():
            yield Row(row_name(case, number, ms, name), each, "us")
        yield Row(
            row_name(case, number, ms, f"{STUB} / {LIMITS}"),
            us[STUB] / us[LIMITS],
            at_most=AT_MOST[ms],
        )


def row_name(case: Case, number: int, ms: int, what: str) -> str:
    """What a row is called."""
    return f"{case.name}: {number} limit{'s' * (number > 1)}, an answer after {ms} ms: {what}"


def run(case: Case, url: str) -> list[tuple[int, int, Found]]:
    """What one case takes in this process, by the number of limits and by the distance."""
    choose_modules(case)
    from . import canned

    every, cost, found = list(canned.LIMITS), canned.COST, list[tuple[int, int, Found]]()
    for number in (1, 2):
        canned.LIMITS[:] = every[:number]
        canned.COST = {limit.name: cost[limit.name] for limit in canned.LIMITS}
        for ms in MS:
            with delayed(urlsplit(url).port or 0, ms) as port:
                of = f"redis://127.0.0.1:{port}"
                us = _run_sync(ms, of) if case.sync else run_in_loop(case, _run_async(ms, of))
                found.append((number, ms, us))
    return found


async def _run_async(ms: int, url: str) -> Found:
    from .canned import take, warm_limiter

    async with warm_limiter(buckets=BUCKETS, service_ms=ms, options=_options()) as (limiter, _, _):
        deciders: dict[str, Decide] = {STUB: partial(take, limiter), LIMITS: limits(url), THROTTLED: throttled(url)}
        names = _names()

        async def chunk(decide: Decide) -> None:
            for _ in range(TIMES[ms]):
                await decide(next(names))

        chunks = [partial(chunk, decide) for decide in deciders.values()]
        for warm_up in chunks:
            await warm_up()
        return _us(deciders, ms, await interleaved_async(chunks, ROUNDS))


def _run_sync(ms: int, url: str) -> Found:
    from .canned import take_sync, warm_sync_limiter

    with warm_sync_limiter(buckets=BUCKETS, service_ms=ms, options=_options()) as (limiter, _, _):
        deciders: dict[str, DecideSync] = {
            STUB: partial(take_sync, limiter),
            LIMITS: limits_sync(url),
            THROTTLED: throttled_sync(url),
        }
        names = _names()

        def chunk(decide: DecideSync) -> None:
            for _ in range(TIMES[ms]):
                decide(next(names))

        chunks = [partial(chunk, decide) for decide in deciders.values()]
        for warm_up in chunks:
            warm_up()
        return _us(deciders, ms, interleaved(chunks, ROUNDS))


def _options() -> Any:
    from zae_limiter import Options

    from .canned import NEVER_SPLIT

    return Options(split_above=NEVER_SPLIT, config_cache_ttl=CACHE_LIFE, acquire_timeout=None)


def _names() -> Iterator[str]:
    from .canned import entity

    return cycle([entity(number) for number in range(BUCKETS)])


def _us(deciders: Mapping[str, object], ms: int, seconds: Sequence[float]) -> Found:
    return {name: taken / TIMES[ms] * 1e6 for name, taken in zip(deciders, seconds, strict=True)}


def main(arguments: Sequence[str]) -> None:
    cases = {case.name: case for case in CASES}
    parser = argparse.ArgumentParser()
    parser.add_argument("--case", required=True, choices=cases)
    parser.add_argument("--redis", required=True)
    chosen = parser.parse_args(arguments)
    if CORES not in os.environ:
        prepare_process()
    pin_client()
    print(json.dumps(run(cases[chosen.case], chosen.redis)))


if __name__ == "__main__":
    main(sys.argv[1:])
