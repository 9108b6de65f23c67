"""Replays histories by hand: ``python -m simulation SEED [COUNT]``, and ``python -m simulation mutants``.

Lives here: the command. Never: anything that a test needs.
"""

import sys

from .kernel import Violation
from .mutants import kill_all
from .world import simulate


def replay(first: int, count: int) -> int:
    """Run the histories, and say what each that fails did wrong; answers how many failed."""
    failed = 0
    for seed in range(first, first + count):
        try:
            simulate(seed)
        except Violation as violation:
            failed += 1
            print(f"{violation}\n")
    print(f"{count} histories, {failed} of them wrong")
    return failed


def main(arguments: list[str]) -> int:
    """The exit code."""
    if arguments == ["mutants"]:
        for name, (seed, finding) in kill_all(range(1, 2_000)).items():
            print(f"{name}: seed {seed}: {finding}")
        return 0
    first, count = int(arguments[0]), int(arguments[1]) if len(arguments) > 1 else 1
    return int(replay(first, count) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
