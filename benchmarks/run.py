"""``just bench [NAME …]``: run benchmarks, print what they found, and write it into the docs.

Lives here: the list of benchmarks, and a process of its own for each. Never: a measurement.
"""

import sys
import traceback
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib import import_module
from itertools import groupby
from multiprocessing import get_context

from .measure import prepare_process
from .report import Line, NotHere, as_text, stamp, write_into

NAMES = (
    "cpu_async",
    "cpu_sync",
    "transport",
    "latency",
    "writes_per_admission",
    "model_writes",
    "prefetch",
    "organisation",
    "overload_simulated",
    "overload",
    "memory_store",
    "first_acquire",
    "replay",
    "aggregator",
    "waiting",
    "outage",
    "overshoot",
    "declarative",
    "declared_tree",
    "screens",
    "import_time",
    "help_time",
    "local_up",
    "memory",
    "costs",
    "sqlite",
    "peers_redis",
    "distance",
)
COUNTED = ("costs",)  # counts that a test compares with each commit: they are of no run


def main(names: Sequence[str]) -> int:
    """The exit code: 0 where every target was met, nothing failed, and whatever was named was measured."""
    unknown = [name for name in names if name not in NAMES]
    if unknown:
        print(f"no such benchmark: {', '.join(unknown)}; there are {', '.join(NAMES)}", file=sys.stderr)
        return 2
    of_run, found, failed = stamp(), dict[str, Sequence[Line]](), list[str]()
    for name in names or NAMES:
        try:
            found[name] = run(name, of_run)
        except Exception:  # noqa: BLE001 - also of a process that died: the others are measured all the same
            traceback.print_exc()
            failed.append(name)
    try:
        draw()
    except Exception:  # noqa: BLE001 - a table may lack a row that a page quotes
        traceback.print_exc()
        failed.append("the charts and the pages that quote the tables")
    rows = [row for each in found.values() for row in each]
    print(f"\n{sum(row.missed for row in rows)} of {len(rows)} figures missed their target")
    absent = unmeasured(names, found)
    for name in absent:
        print(f"error: {name} was not measured", file=sys.stderr)
    for name in failed:
        print(f"error: {name} failed, see above", file=sys.stderr)
    return 1 if failed or absent or any(row.missed for row in rows) else 0


def unmeasured(names: Sequence[str], found: Mapping[str, Sequence[Line]]) -> list[str]:
    """Those that have no figures although they are named; all of them where none has."""
    return [name for name in found if name in names and not found[name]] if any(found.values()) else [*found]


def run(name: str, of_run: str) -> Sequence[Line]:
    """What one benchmark found, in a process of its own; nothing where this machine cannot run it."""
    print(f"\n== {name}", flush=True)
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        try:
            rows = pool.submit(measure, name).result()
        except NotHere as reason:
            print(f"not here: {reason}")
            return ()
    print(as_text(rows), flush=True)
    for block, part in groupby(rows, key=lambda row: row.block or name):
        lines = list(part)
        page = lines[0].PAGE
        page.write_text(write_into(page.read_text(), block, lines, "" if name in COUNTED else of_run))
    return rows


def draw() -> None:
    """Draw the charts of the tables that were written, and fill in the pages that quote them."""
    from website import pictures, quotes, redis  # not in the processes that measure

    redis.write()
    quotes.write()
    pictures.draw()


def measure(name: str) -> Sequence[Line]:
    """The rows of a benchmark."""
    prepare_process()
    rows: Sequence[Line] = import_module(f".{name}", __package__).measure()
    return rows


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
