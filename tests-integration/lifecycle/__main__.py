"""``python -m lifecycle --times N [--only KIND]``: run lives, print violations and a table.

Lives here: the command. Never: a life.
"""

import argparse
import sys
from collections.abc import Sequence

from .world import KINDS, Result, world


def main(arguments: Sequence[str]) -> int:
    """The exit code: 0 where there is no violation."""
    parser = argparse.ArgumentParser(
        prog="lifecycle", description="Processes that end in every way, and what they leave."
    )
    parser.add_argument("--times", type=int, default=5, help="how many lives of each kind")
    parser.add_argument("--first", type=int, default=0, help="the number of the first life")
    parser.add_argument("--only", action="append", choices=KINDS, help="this kind only (repeatable)")
    parser.add_argument("--at-once", type=int, default=2, help="how many lives at a time")
    parser.add_argument("--stop-seconds", type=float, default=2.0, help="how long a stopped process is stopped")
    parser.add_argument("--each", action="store_true", help="a line for each life, with what it left behind")
    chosen = parser.parse_args(arguments)
    if chosen.times < 1:
        parser.error("--times: one life of each kind at least")
    results: list[Result] = []
    with world(at_once=chosen.at_once, stop_seconds=chosen.stop_seconds) as here:
        for result in here.run(chosen.only or KINDS, range(chosen.first, chosen.first + chosen.times)):
            results.append(result)
            if result.violations or chosen.each:
                print(result, flush=True)
    print(as_table(results))
    return 1 if any(result.violations for result in results) else 0


def as_table(results: Sequence[Result]) -> str:
    """A line for each kind: its lives, those that went wrong or hung, the slowest end, and the tokens left behind."""
    lines = [f"{'kind':20}{'lives':>7}{'wrong':>7}{'hung':>7}{'slowest end':>13}{'left behind':>13}{'each took':>11}"]
    for name in dict.fromkeys(result.kind for result in results):
        those = [result for result in results if result.kind == name]
        wrong, hung = sum(bool(each.violations) for each in those), sum(each.hung for each in those)
        slowest, left = max(each.ended_in for each in those), sum(each.left_behind for each in those)
        mean = sum(each.seconds for each in those) / len(those)
        lines.append(f"{name:20}{len(those):7}{wrong:7}{hung:7}{slowest:11.2f} s{left:13}{mean:9.2f} s")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
