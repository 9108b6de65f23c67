"""What lives here: what became of a test run, target by target, with the reason of each skip.
What never does: where it is printed.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from skips import reason_of

KINDS = ("passed", "failed", "error", "skipped")
EVERYWHERE = "no target"
Stats = Mapping[str, Sequence[Any]]


def lines(stats: Stats, targets: Iterable[str]) -> Iterator[str]:
    """A line for each target that had tests, and one for each reason of its skips."""
    reports = {kind: [each for each in stats.get(kind, ()) if hasattr(each, "nodeid")] for kind in KINDS}
    for target in (*targets, EVERYWHERE):
        here = {
            kind: [each for each in found if target_of(each.nodeid, targets) == target]
            for kind, found in reports.items()
        }
        if any(here.values()):
            counts = ", ".join(f"{len(found)} {kind}" for kind, found in here.items() if found)
            seconds = sum(getattr(each, "duration", 0.0) for found in here.values() for each in found)
            yield f"{target}: {counts} in {seconds:.0f} s of calls"
            for reason, count in Counter(map(reason_of, here["skipped"])).items():
                yield f"  skipped {count}: {reason}"


def target_of(nodeid: str, targets: Iterable[str]) -> str:
    """The target in the brackets of a test's id."""
    _, _, brackets = nodeid.partition("[")
    parts = brackets.removesuffix("]")
    found = [name for name in targets if re.search(rf"(^|-){re.escape(name)}(-|$)", parts)]
    return max(found, key=len, default=EVERYWHERE)
