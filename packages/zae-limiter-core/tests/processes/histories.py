"""Many histories, on all cores.

Lives here: how they are shared out. Never: what one is like (asynchronous, threaded), what is said of them (__main__).
"""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from os import cpu_count
from typing import Any

from simulation.kernel import Violation

from . import asynchronous, budgets, threaded

AT_ONCE = 25
VARIANTS: dict[str, Callable[[int], Any]] = {
    "async": asynchronous.simulate,
    "sync": threaded.simulate,
    "budgets": budgets.simulate,
}


def finding(variant: str, seed: int) -> str:
    """What a history does wrong, if anything."""
    try:
        VARIANTS[variant](seed)
    except Violation as violation:
        return str(violation)
    return ""


def findings(variant: str, seeds: Iterable[int]) -> list[tuple[int, str]]:
    """The seeds that fail, and how."""
    found = ((seed, finding(variant, seed)) for seed in seeds)
    return [(seed, problem) for seed, problem in found if problem]


def tried(variant: str, first: int, count: int) -> Iterator[tuple[int, list[tuple[int, str]]]]:
    """How many histories are done, and the seeds of those that failed since, with what they did wrong."""
    done = 0
    with ProcessPoolExecutor(cpu_count(), mp_context=get_context("spawn")) as pool:
        seeds = range(first, first + count)
        parts = [seeds[start : start + AT_ONCE] for start in range(0, count, AT_ONCE)]
        running = {pool.submit(findings, variant, part): len(part) for part in parts}
        for future in as_completed(running):
            done += running[future]
            yield done, future.result()
