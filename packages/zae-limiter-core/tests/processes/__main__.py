"""The simulation of processes by hand: ``just simulate-processes``.

Lives here: the commands, on all cores. Never: anything that a test needs.
"""

import argparse
import sys
import time

from .histories import COLOURS, finding, tried
from .mutants import MUTANTS, killer, shown


def run(colour: str, first: int, count: int) -> int:
    """Try histories on all cores; answers how many fail."""
    begun, failed = time.monotonic(), 0
    for done, found in tried(colour, first, count):
        for _, problem in found:
            failed += 1
            print(f"{problem}\n", flush=True)
        print(
            f"\r{colour}: {done} histories, {failed} wrong, {time.monotonic() - begun:.0f} s", end="", file=sys.stderr
        )
    print(f"\n{colour}: {count} histories, {failed} of them wrong")
    return failed


def mutants(count: int) -> int:
    """Find every mutant; answers how many survive."""
    survivors = 0
    for mutant in filter(shown, MUTANTS):
        try:
            seed, problem = killer(mutant, range(1, count))
        except LookupError:
            survivors += 1
            print(f"{mutant.name}: SURVIVED", flush=True)
        else:
            print(f"{mutant.name}: killed by seed {seed}: {problem.splitlines()[0]}", flush=True)
    print(f"{len(MUTANTS)} mutants, {survivors} of them alive")
    return survivors


def main() -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(prog="processes")
    parser.add_argument("--colour", choices=[*COLOURS], help="one of the two drivers; both unless given")
    parser.add_argument("--seeds", type=int, default=2_000, help="how many histories of each colour")
    parser.add_argument("--first", type=int, default=1, help="the seed of the first one")
    parser.add_argument("--replay", type=int, metavar="SEED", help="one history")
    parser.add_argument("--mutants", action="store_true", help="find every deliberate fault instead")
    chosen = parser.parse_args()
    if chosen.mutants:
        return int(mutants(chosen.seeds) > 0)
    colours = [chosen.colour] if chosen.colour else [*COLOURS]
    if chosen.replay is not None:
        problems = {colour: finding(colour, chosen.replay) for colour in colours}
        for colour, problem in problems.items():
            print(problem or f"{colour}, seed {chosen.replay}: nothing wrong")
        return int(any(problems.values()))
    return int(sum(run(colour, chosen.first, chosen.seeds) for colour in colours) > 0)


if __name__ == "__main__":
    sys.exit(main())
