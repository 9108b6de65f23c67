"""The simulation of processes by hand: ``just simulate-processes``.

Lives here: the commands, on all cores. Never: anything that a test needs.
"""

import argparse
import sys
import time
from collections.abc import Sequence

from .histories import VARIANTS, finding, tried
from .mutants import MUTANTS, Mutant, killer, shown


def run(variant: str, first: int, count: int) -> int:
    """Try histories on all cores; answers how many fail."""
    begun, failed = time.monotonic(), 0
    for done, found in tried(variant, first, count):
        for _, problem in found:
            failed += 1
            print(f"{problem}\n", flush=True)
        print(
            f"\r{variant}: {done} histories, {failed} wrong, {time.monotonic() - begun:.0f} s", end="", file=sys.stderr
        )
    print(f"\n{variant}: {count} histories, {failed} of them wrong")
    return failed


def mutants(chosen: Sequence[Mutant], count: int) -> int:
    """Find every mutant; 1 where one survives or none is there."""
    survivors = 0
    for mutant in chosen:
        try:
            seed, problem = killer(mutant, range(1, count))
        except LookupError:
            survivors += 1
            print(f"{mutant.name}: SURVIVED", flush=True)
        else:
            print(f"{mutant.name}: killed by seed {seed}: {problem.splitlines()[0]}", flush=True)
    print(f"{len(chosen)} mutants, {survivors} of them alive")
    return int(survivors > 0 or not chosen)


def main(arguments: Sequence[str]) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="processes")
    parser.add_argument(
        "--variant", choices=[*VARIANTS], help="one of the two drivers, or budgets of runs; all unless given"
    )
    parser.add_argument("--seeds", type=int, default=2_000, help="how many histories of each variant")
    parser.add_argument("--first", type=int, default=1, help="the seed of the first one")
    parser.add_argument("--replay", type=int, metavar="SEED", help="one history")
    parser.add_argument("--mutants", action="store_true", help="find every deliberate fault instead")
    chosen = parser.parse_args(arguments)
    if chosen.seeds < 1:
        parser.error("--seeds: one history at least")
    if chosen.mutants:
        return mutants([*filter(shown, MUTANTS)], chosen.seeds)
    variants = [chosen.variant] if chosen.variant else [*VARIANTS]
    if chosen.replay is not None:
        problems = {variant: finding(variant, chosen.replay) for variant in variants}
        for variant, problem in problems.items():
            print(problem or f"{variant}, seed {chosen.replay}: nothing wrong")
        return int(any(problems.values()))
    return int(sum(run(variant, chosen.first, chosen.seeds) for variant in variants) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
