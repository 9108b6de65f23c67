"""A history that fails, made as small as it will be.

Lives here: which parts of a plan are left out, and in which order. Never: why it fails.
"""

from collections.abc import Iterator, Mapping

from zae_limiter.operations.values import NOTHING

from .kernel import Violation
from .plan import Plan
from .world import World

TROUBLES = (
    "changes",
    "modes",
    "crashes",
    "expiries",
    "merges",
    "splits",
    "disturbances",
    "deletions",
    "overrides",
    "moves",
    "draws",
    "early",
    "overflows",
    "streams",
    "switches",
    "weighs",
    "signed",
    "wrong_clocks",
    "wrong_dates",
    "conflicting",
    "cancelled",
    "allowing",
    "long_work",
    "bursts",
    "checks",
    "failing",
    "idle",
    "waiting",
    "shadows",
    "shadow_processes",
    "suspensions",
    "forks",
    "outages",
    "cut_off",
    "prefetching",
    "skew_ms",
)


def shrunk(seed: int, changes: Mapping[str, str] = NOTHING) -> Mapping[str, str]:
    """What can be changed in the plan of a seed that fails, so that it still fails, with less in it."""
    kept = dict(changes)
    while (better := next((try_ for try_ in _smaller(seed, kept) if _fails(seed, try_)), None)) is not None:
        kept = better
    return kept


def _smaller(seed: int, kept: dict[str, str]) -> Iterator[dict[str, str]]:
    plan = World(seed, changes=kept).plan
    yield from ({**kept, name: "0"} for name in TROUBLES if getattr(plan, name))
    if kept.get("network") != "healthy":
        yield {**kept, "network": "healthy"}
    yield from ({**kept, name: str(count)} for name, count in _fewer(plan))


def _fewer(plan: Plan) -> Iterator[tuple[str, int]]:
    for name, count in (("callers", plan.callers), ("processes", plan.processes)):
        yield from ((name, fewer) for fewer in (count // 2, count - 1) if fewer > 0)
    counts = {"entities": len(plan.entities), "resources": len(plan.resources), "limits": len(plan.limits)}
    for name, many in counts.items():
        if many > 1:
            yield name, many - 1


def _fails(seed: int, changes: dict[str, str]) -> bool:
    try:
        World(seed, changes=changes).run()
    except Violation:
        return True
    return False
