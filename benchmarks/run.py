"""``just bench [NAME …]``: run benchmarks, print what they found, and write it into docs/benchmarks.md.

Lives here: the list of benchmarks, and a process of its own for each. Never: a measurement.
"""

import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from multiprocessing import get_context

from .measure import prepare_process
from .report import PAGE, NotHere, Row, as_text, write_into

NAMES = (
    "cpu_async",
    "cpu_sync",
    "latency",
    "group_commit",
    "writes_per_admission",
    "overload_simulated",
    "overload",
    "memory_store",
    "import_time",
    "memory",
    "peers",
)


def main(names: Sequence[str]) -> int:
    """The exit code: 0 where every target was met."""
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    rows = [row for name in names or NAMES for row in run(name)]
    missed = sum(row.missed for row in rows)
    print(f"\n{missed} of {len(rows)} figures missed their target")
    return 1 if missed else 0


def run(name: str) -> Sequence[Row]:
    """What one benchmark found, in a process of its own; nothing where this machine cannot run it."""
    print(f"\n== {name}", flush=True)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            rows = pool.submit(measure, name).result()
        except NotHere as reason:
            print(f"not here: {reason}")
            return ()
    print(as_text(rows), flush=True)
    PAGE.write_text(write_into(PAGE.read_text(), name, rows))
    return rows


def measure(name: str) -> Sequence[Row]:
    """The rows of a benchmark."""
    prepare_process()
    rows: Sequence[Row] = import_module(f".{name}", __package__).measure()
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
