"""Many histories, on all cores.

Lives here: how they are shared out. Never: what one is like (world), what is said of them (__main__).
"""

from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor, as_completed
from os import cpu_count

from zae_limiter.operations.values import NOTHING

from .kernel import Violation
from .world import simulate

AT_ONCE = 100


def finding(seed: int, changes: Mapping[str, str] = NOTHING) -> str:
    """What a history does wrong, if anything."""
    try:
        simulate(seed, changes=changes)
    except Violation as violation:
        return str(violation)
    return ""


def findings(first: int, count: int, changes: Mapping[str, str] = NOTHING) -> list[tuple[int, str]]:
    """The seeds that fail, and how."""
    found = ((seed, finding(seed, changes)) for seed in range(first, first + count))
    return [(seed, problem) for seed, problem in found if problem]


def tried(
    first: int, count: int, changes: Mapping[str, str] = NOTHING, *, at_once: int = AT_ONCE
) -> Iterator[tuple[int, list[tuple[int, str]]]]:
    """How many histories are done, and the seeds of those that failed since, with what they did wrong."""
    done = 0
    with ProcessPoolExecutor(cpu_count()) as pool:
        sent = dict(changes)  # NOTHING cannot be sent to another process
        parts = {pool.submit(findings, start, size, sent): size for start, size in _parts(first, count, at_once)}
        for part in as_completed(parts):
            done += parts[part]
            yield done, part.result()


def _parts(first: int, count: int, at_once: int) -> Iterator[tuple[int, int]]:
    for start in range(first, first + count, at_once):
        yield start, min(at_once, first + count - start)
