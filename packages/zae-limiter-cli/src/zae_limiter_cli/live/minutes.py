"""Refusals by the minute and by the limit that refused, of the last hour, from the readings that `top` makes.

The table counts usage by the hour; buckets count on. An entity that refuses calls of those below it counts them, too:
they count once, at the limit that refused.
"""

from collections import Counter
from collections.abc import Mapping
from typing import Final

from .counters import REFUSED, STEP_MS, Counters, Counts
from .rows import MINUTE_MS, Place

MINUTES: Final = 60


class Minutes(Counters):
    """What was refused in each of the last minutes."""

    def __init__(self) -> None:
        super().__init__(MINUTES * MINUTE_MS // STEP_MS)

    def by_limit(self, now_ms: int, most: int) -> tuple[list[int], dict[str, list[int | None]]]:
        """Return the begins of the last minutes, and the refusals of each limit in them: those of most refusals first,
        the rest together. ``None`` for a minute before the first reading.
        """
        this = now_ms // MINUTE_MS
        minutes = range(this - MINUTES + 1, this + 1)
        refused = {minute: Counter[str]() for minute in minutes}
        for step, found in self.steps.items():
            refused.get(step * STEP_MS // MINUTE_MS, Counter[str]()).update(_refused(found))
        sums = sum(refused.values(), Counter[str]())
        names = [name for name, _ in sorted(sums.items(), key=lambda each: (-each[1], each[0]))]
        groups = {name: [name] for name in names[:most]} | ({"others": names[most:]} if names[most:] else {})
        first = this + 1 if self.since_ms is None else self.since_ms // MINUTE_MS
        return [minute * MINUTE_MS for minute in minutes], {
            group: [sum(refused[minute][name] for name in inner) if minute >= first else None for minute in minutes]
            for group, inner in groups.items()
        }


def _refused(step: "Mapping[Place, Counts]") -> Counter[str]:
    """Return how many calls each limit refused; limits of the entity that was asked are counted together."""
    counts, own = Counter[str](), Counter({place: counted[REFUSED] for place, counted in step.items()})
    for place, counted in step.items():
        for refuser, number in counted.items() if counted[REFUSED] else ():
            if not isinstance(refuser, str):
                counts[str(refuser)] += number
                own.subtract({place: number, Place(refuser.entity_id, place.resource): number})
    for place, number in own.items():
        if number > 0:
            names = [name for name in step[place] if isinstance(name, str) and name != REFUSED]
            counts[f"{place.entity_id}/{names[0]}" if len(names) == 1 else f"{place.entity_id}, its own limits"] += (
                number
            )
    return +counts
