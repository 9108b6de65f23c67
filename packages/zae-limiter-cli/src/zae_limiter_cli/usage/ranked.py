"""Rank some entities by what their windows of usage have together."""

from collections import Counter
from collections.abc import Iterable
from heapq import nsmallest
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from zae_limiter import UsageSnapshot
    from zae_limiter.values import EntityUsage, Refuser

TOTALS: Final = (
    *("total_events", "total_refused", "total_shadowed", "total_uncounted", "total_below", "total_refused_below"),
)


class _Sums:
    """The sums of an entity's windows on one resource."""

    def __init__(self) -> None:
        self.totals, self.consumed = Counter[str](), Counter[str]()
        self.refused_by: Counter[Refuser] = Counter()

    def add(self, each: "UsageSnapshot") -> None:
        self.totals.update({name: getattr(each, name) for name in TOTALS})
        self.consumed.update(each.consumed)
        self.refused_by.update(each.refused_by)


def ranked(snapshots: "Iterable[UsageSnapshot]", by: str, most: int) -> "tuple[EntityUsage, ...]":
    """Return the entities with the most of ``by``, a total or a limit, as ``get_top_usage`` does for all; whole tokens
    of each window are added.
    """
    from zae_limiter.values import EntityUsage

    places: dict[tuple[str, str], _Sums] = {}
    for each in snapshots:
        places.setdefault((each.entity_id, each.resource), _Sums()).add(each)
    amounts = {place: sums.totals[by] if by in TOTALS else sums.consumed[by] for place, sums in places.items()}
    found = nsmallest(most, ((-amount, place) for place, amount in amounts.items() if amount > 0))
    return tuple(
        EntityUsage(
            *place,
            dict(sorted(places[place].consumed.items())),
            refused_by=dict(sorted(places[place].refused_by.items())),
            **_totals(places[place]),
        )
        for _, place in found
    )


def _totals(sums: _Sums) -> dict[str, Any]:
    return {name: sums.totals[name] for name in TOTALS}
