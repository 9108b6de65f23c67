"""``python -m fuzz --minutes N``: feed every surface, print unclean outcomes and a table.

Lives here: the command. Never: a surface.
"""

import argparse
import os
import random
import sys
from collections.abc import Collection, Mapping, Sequence
from contextlib import ExitStack

from lifecycle.life import AWS_ENVIRONMENT
from skips import complaints, keep

from .batches import replay
from .campaign import Findings, run
from .surfaces import SURFACES, opened

SHOWN = 20


def main(arguments: Sequence[str]) -> int:
    """The exit code: 0 where nothing is unclean."""
    parser = argparse.ArgumentParser(prog="fuzz", description="Hostile input for every surface.")
    parser.add_argument("--minutes", type=float, default=1.0, help="how long, on all cores")
    parser.add_argument("--only", action="append", choices=SURFACES, help="this surface only (repeatable)")
    parser.add_argument("--seed", type=int, help="draw the same input again, as far as the time admits")
    parser.add_argument("--replay", metavar="SURFACE:INPUT", help="one input, as an unclean outcome is printed with")
    chosen = parser.parse_args(arguments)
    if not chosen.minutes > 0:
        parser.error("--minutes: more than 0")
    os.environ.update(AWS_ENVIRONMENT)
    if chosen.replay:
        return _replay(*chosen.replay.split(":", 1))
    seed = random.SystemRandom().getrandbits(32) if chosen.seed is None else chosen.seed
    print(f"seed {seed}", flush=True)
    found = run(chosen.only or list(SURFACES), chosen.minutes * 60, seed)
    for name, each in found.items():
        for batch in each.unclean[:SHOWN]:
            print(f"\n{name}: {batch.unclean}\njust fuzz --replay '{name}:{batch.replay}'", flush=True)
    print(as_table(found))
    left_out = unfed(found, chosen.only or ())
    for line in left_out:
        print(f"error: {line}", file=sys.stderr)
    return 1 if left_out or any(each.unclean for each in found.values()) else 0


def unfed(found: Mapping[str, Findings], named: Collection[str]) -> list[str]:
    """A line for each surface that got no input, although it is here or somebody has named it, or CI needs it."""
    missing = {f"{name}: {each.missing}": 1 for name, each in found.items() if each.missing}
    ran = sum(each.tally.inputs for each in found.values())
    keep(0, missing)
    nothing = [name for name, each in found.items() if not each.tally.inputs and (name in named or not each.missing)]
    return [*complaints(ran, missing), *(f"{name}: got no input" for name in nothing)]


def as_table(found: Mapping[str, Findings]) -> str:
    """A line for each surface: its inputs, those that were accepted and refused, and the unclean ones."""
    lines = [f"{'surface':22}{'inputs':>10}{'accepted':>10}{'refused':>10}{'unclean':>9}"]
    for name, each in found.items():
        told = f"{each.tally.inputs:10}{each.tally.accepted:10}{each.tally.refused:10}{len(each.unclean):9}"
        lines.append(f"{name:22}{each.missing or told}")
    return "\n".join(lines)


def _replay(name: str, packed: str) -> int:
    with ExitStack() as stack:
        surface, missing = opened(name, stack)
        if surface is None:
            print(f"{name}: {missing}")
            return 1
        batch = replay(surface, packed)
    print(batch.unclean or f"{name}: clean")
    return int(batch.unclean is not None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
