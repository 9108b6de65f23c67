"""Find the cuts of a plan, the changes that leave callers less than before, and the raises, which leave them more."""

from collections.abc import Iterator, Mapping
from math import inf
from typing import Final, NamedTuple

from .changes import Change
from .declarations import Decl, RecordDecl
from .level_modes import UnlimitedDecl
from .limit_declarations import LimitDecl
from .switches import SwitchesDecl

DAY: Final = 86400
LENGTHS: Final = {"minute": 60, "hour": 3600, "day": DAY, "week": 7 * DAY, "month": 30 * DAY, "year": 365 * DAY}
"""Of the windows with names, in seconds; a month has thirty days, a year 365."""


class Cut(NamedTuple):
    """A limit that a change lowers; `share` is what it loses of its capacity or of its rate, over 0, at most 1.

    None is the limit where a switch takes away everything.
    """

    limit: str | None
    share: float


class Step(NamedTuple):
    """What a change takes of a limit, or gives: `cut` is the share that is lost, `raised` what is added, as a part of
    what was there. None is the limit where a switch takes or gives everything.
    """

    limit: str | None
    cut: float
    raised: float


def largest_cut(change: Change) -> Cut | None:
    """Return the limit of a change that loses the largest share; None if none loses anything. A switch that disables
    everything, or ends a bypass, comes first.

    A limit that refuses no call afterwards is not a cut. A limit that is added, or removed with its item, has no share:
    what held before, or holds afterwards, is on another level. Weights have no share, which depends on what is used.
    """
    largest = max(steps_of(change), key=lambda step: step.cut, default=None)
    return Cut(largest.limit, largest.cut) if largest and largest.cut > 0 else None


def steps_of(change: Change) -> list[Step]:
    """Return what a change takes or gives of each limit that is there before and after it; a switch comes first."""
    if switched_off(change):
        return [Step(None, 1, 0)]
    before, after = _limits(change.before), _limits(change.after)
    gives_all = _switched(change.after, change.before)  # what takes it away the other way round
    steps = [Step(None, 0, inf)] if gives_all else []
    for name in filter(before.__contains__, after):
        cut, raised = _share(before[name], after[name]), _raised(before[name], after[name])
        if cut > 0 or raised > 0:
            steps.append(Step(name, cut, raised))
    return steps


def switched_off(change: Change) -> str:
    """Return what a switch takes away: `refuses every acquire`, `ends a bypass`; empty if it takes nothing."""
    return _switched(change.before, change.after)


def _switched(was: Decl | None, now: Decl | None) -> str:
    before, after = (each if isinstance(each, SwitchesDecl) else None for each in (was, now))
    if after is not None and after.disabled and not (before is not None and before.disabled):
        return "refuses every acquire"
    if _is_unlimited(was) and now is not None and not _is_unlimited(now):
        return "ends `limits: unlimited`"
    if before is not None and before.bypass and not (after is not None and after.bypass):
        return "ends a bypass"
    return ""


def _is_unlimited(decl: Decl | None) -> bool:
    return isinstance(decl, UnlimitedDecl) and decl.unlimited


def _limits(decl: Decl | None) -> Mapping[str, LimitDecl]:
    return {} if decl is None or isinstance(decl, RecordDecl) else decl.limits


def _share(before: LimitDecl, after: LimitDecl) -> float:
    if after.shadow:
        return 0
    return max((1 - new / old for new, old in _kept(before, after) if old), default=0)


def _raised(before: LimitDecl, after: LimitDecl) -> float:
    if after.shadow:
        return 0 if before.shadow else inf
    return max((new / old - 1 if old else inf for new, old in _kept(before, after) if new > old), default=0)


def _kept(before: LimitDecl, after: LimitDecl) -> Iterator[tuple[int, int]]:
    """Yield what a limit gives afterwards and before. Of two kinds, or two windows, only the rates compare."""
    if (before.kind, before.window) == (after.kind, after.window):
        yield after.capacity, before.capacity
        yield after.burst, before.burst
    new, old = _rate(after), _rate(before)
    if new and old:
        yield new[0] * old[1], old[0] * new[1]


def _rate(limit: LimitDecl) -> tuple[int, int] | None:
    """Return how many tokens come in how many seconds: of a total none; None for the windows of a cron expression."""
    if limit.kind in ("total", "concurrent") or not limit.capacity:
        return 0, 1
    seconds = LENGTHS.get(limit.window) if limit.window else limit.refill_period
    return (limit.refill_amount, seconds) if seconds else None
