"""How things are measured here.

Lives here: a process that is fit to measure in, interleaving, medians, percentiles. Never: what is measured.
"""

import os
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from statistics import median
from typing import NamedTuple

AWS_ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "benchmark",
    "AWS_SECRET_ACCESS_KEY": "benchmark",
    "AWS_REGION": "us-east-1",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
}


CORES = "BENCHMARK_CORES"


def prepare_process() -> None:
    """Nothing of this process reaches an account; it and those that it starts know which cores there are."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        del os.environ[name]
    os.environ.update(AWS_ENVIRONMENT)
    if hasattr(os, "sched_getaffinity"):  # Linux; elsewhere nothing is pinned, and the figures scatter more
        os.environ[CORES] = " ".join(map(str, sorted(os.sched_getaffinity(0))))


def pin_client() -> None:
    """Keep this process on the first core that it may use."""
    _pin(0)


def pin_server() -> None:
    """Keep this process on the last core that it may use, away from the client."""
    _pin(-1)


def _pin(index: int) -> None:
    # A server inherits the one core of its client, so it asks the environment which others there are.
    cores = os.environ.get(CORES, "").split()
    if cores:
        os.sched_setaffinity(0, {int(cores[index])})


def cpu_seconds(chunk: Callable[[], object]) -> float:
    """CPU time of this process during a chunk."""
    begun = time.process_time()
    chunk()
    return time.process_time() - begun


async def cpu_seconds_async(chunk: Callable[[], Awaitable[object]]) -> float:
    """CPU time of this process while a chunk is awaited."""
    begun = time.process_time()
    await chunk()
    return time.process_time() - begun


def interleaved(chunks: Sequence[Callable[[], object]], rounds: int) -> list[float]:
    """Median CPU seconds of each chunk, taken in turns, so that a disturbance hits all alike."""
    taken = [[cpu_seconds(chunk) for chunk in chunks] for _ in range(rounds)]
    return [median(column) for column in zip(*taken, strict=True)]


async def interleaved_async(chunks: Sequence[Callable[[], Awaitable[object]]], rounds: int) -> list[float]:
    """As ``interleaved``, for chunks that are awaited."""
    taken = [[await cpu_seconds_async(chunk) for chunk in chunks] for _ in range(rounds)]
    return [median(column) for column in zip(*taken, strict=True)]


class Taken(NamedTuple):
    """CPU seconds of one call of a side: the median of its rounds, and the best of them."""

    median: float
    least: float


def compared(sides: Mapping[str, Callable[[], object]], calls: int, rounds: int = 5) -> dict[str, Taken]:
    """What one call of each side takes. Each makes so many calls in a round, and the sides take turns."""

    def chunk(side: Callable[[], object]) -> float:
        return cpu_seconds(lambda: [side() for _ in range(calls)]) / calls

    for side in sides.values():  # to warm up
        chunk(side)
    taken = [[chunk(side) for side in sides.values()] for _ in range(rounds)]
    columns = zip(*taken, strict=True)
    return {name: Taken(median(column), min(column)) for name, column in zip(sides, columns, strict=True)}


def percentile(values: Sequence[float], percent: float) -> float:
    """The smallest value that so many percent of the values do not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * percent / 100))]
