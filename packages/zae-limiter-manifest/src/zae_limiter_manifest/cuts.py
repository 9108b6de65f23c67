"""Find the cuts of a plan: the changes that leave callers less than before."""

from collections.abc import Mapping
from typing import NamedTuple

from .changes import Change
from .declarations import Decl, LimitDecl, RecordDecl


class Cut(NamedTuple):
    """A limit that a change lowers; `share` is what it loses of its capacity or of its rate, over 0, at most 1."""

    limit: str
    share: float


def largest_cut(change: Change) -> Cut | None:
    """Return the limit of a change that loses the largest share; None if none loses anything.

    A limit that refuses nobody afterwards is no cut. A limit that is added, or removed with its item, has no share:
    what held before, or holds afterwards, is on another level.
    """
    before, after = _limits(change.before), _limits(change.after)
    cuts = [Cut(name, _share(before[name], limit)) for name, limit in after.items() if name in before]
    largest = max(cuts, key=lambda cut: cut.share, default=None)
    return largest if largest and largest.share > 0 else None


def _limits(decl: Decl | None) -> Mapping[str, LimitDecl]:
    return {} if decl is None or isinstance(decl, RecordDecl) else decl.limits


def _share(before: LimitDecl, after: LimitDecl) -> float:
    if after.shadow:
        return 0
    kept = [
        (after.capacity, before.capacity),
        (after.burst, before.burst),
        (after.refill_amount * before.refill_period, before.refill_amount * after.refill_period),
    ]
    return max((1 - new / old for new, old in kept if old), default=0)
