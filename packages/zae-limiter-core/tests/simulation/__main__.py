"""The simulation by hand: ``just simulate``, ``just mutants``.

Lives here: the commands, on all cores. Never: anything that a test needs.
"""

import argparse
import logging
import sys
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from os import cpu_count

from . import retries
from .histories import finding, tried
from .mutants import MUTANTS, Mutant, Survived, killer
from .plan import SCENARIOS
from .shrink import shrunk

MUTANT_SEEDS = 20_000
RETRIES = "retries"
USUAL = (
    "prefetch",
    "surges",
    "splits",
    "merges",
    "siblings",
    "paths",
    "outages",
    "signed",
    "quotas",
    "levels",
    "patterns",
    "streams",
)


def run(first: int, count: int, changes: Mapping[str, str]) -> int:
    """Try histories on all cores; answers how many fail.

    Of a failure, the smallest history is printed first that still fails, with the command that replays it.
    """
    begun, failed = time.monotonic(), 0
    for done, found in tried(first, count, changes):
        for seed, problem in found:
            failed += 1
            smallest = shrunk(seed, changes)
            print(f"{finding(seed, smallest)}\n  the smallest of {problem}\n", flush=True)
        print(f"\r{done} histories, {failed} of them wrong, {time.monotonic() - begun:.0f} s", end="", file=sys.stderr)
    print(f"\n{count} histories, {failed} of them wrong")
    return failed


def run_retries(first: int, count: int) -> int:
    """Try histories of retried calls; answers how many fail."""
    found = [(seed, problem) for seed in range(first, first + count) if (problem := retries.finding(seed))]
    for seed, problem in found:
        print(f"seed {seed}: {problem}")
    print(f"{count} histories of retried calls, {len(found)} of them wrong")
    return len(found)


def replay(seed: int, changes: Mapping[str, str]) -> int:
    """Run one history; answers whether it fails."""
    problem = finding(seed, changes)
    print(problem or f"seed {seed}: nothing wrong")
    return int(bool(problem))


def mutants(chosen: Sequence[Mutant]) -> int:
    """Find every mutant; 1 where one survives or none is there."""
    survivors = 0
    with ProcessPoolExecutor(cpu_count()) as pool:
        searches = {mutant.name: pool.submit(_search, mutant.name) for mutant in chosen}
        for name, search in searches.items():
            seed, problem = search.result()
            survivors += seed is None
            print(f"{name}: {'SURVIVED' if seed is None else f'killed by seed {seed}'}: {problem}", flush=True)
    print(f"{len(searches)} mutants, {survivors} of them alive")
    return int(survivors > 0 or not searches)


def _search(name: str) -> tuple[int | None, str]:
    """Search in another process, which has the mutant by its name: a fault cannot be sent there."""
    [mutant] = [each for each in MUTANTS if each.name == name]
    try:
        return killer(mutant, range(1, MUTANT_SEEDS))
    except Survived:
        return None, f"no history of {MUTANT_SEEDS} found it"


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="simulation")
    parser.add_argument("--seeds", type=int, default=10_000, help="how many histories")
    parser.add_argument("--first", type=int, default=1, help="the seed of the first one")
    parser.add_argument(
        "--replay", nargs="+", metavar="SEED", help="one history: its seed, and name=value to change its plan"
    )
    parser.add_argument(
        "--scenario",
        choices=sorted((*SCENARIOS, RETRIES)),
        help=f"the kind of history; without it, as many of {', '.join(('any', *USUAL, RETRIES))}",
    )
    parser.add_argument("--mutants", action="store_true", help="find every deliberate fault instead")
    chosen = parser.parse_args(arguments)
    if chosen.seeds < 1:
        parser.error("--seeds: one history at least")
    logging.disable(logging.WARNING)  # of clocks that are corrected, above all
    scenario = {} if chosen.scenario in (None, "any") else {"scenario": chosen.scenario}
    if chosen.mutants:
        return mutants(MUTANTS)
    if chosen.scenario == RETRIES:
        first, count = (int(chosen.replay[0]), 1) if chosen.replay else (chosen.first, chosen.seeds)
        return int(run_retries(first, count) > 0)
    if chosen.replay:
        seed, *changes = chosen.replay
        return replay(int(seed), {**scenario, **dict(change.split("=", 1) for change in changes)})
    kinds = [scenario] if chosen.scenario else [{}, *({"scenario": each} for each in USUAL)]
    wrong = sum(run(chosen.first, chosen.seeds, kind) for kind in kinds)
    return int(wrong + (0 if chosen.scenario else run_retries(chosen.first, chosen.seeds)) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
