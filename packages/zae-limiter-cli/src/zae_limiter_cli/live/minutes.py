"""Refusals by the minute and by the limit that refused, of the last hour, from the readings that `top` makes.

The table counts usage by the hour; buckets count on. So a minute is the difference of two readings: nothing is read for
it. An entity that refuses calls of those below it counts them, too: they count once, at the limit that refused.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from .rows import MINUTE_MS, Place, Reading

if TYPE_CHECKING:
    from zae_limiter.values import Bucket, Refuser

MINUTES: Final = 60


@dataclass(slots=True)
class Minutes:
    """What was refused in each of the last minutes; ``since_ms`` is the first reading, ``None`` before it."""

    since_ms: int | None = None
    _counts: dict[int, Counter[str]] = field(default_factory=dict)
    _last: Reading | None = None

    def add(self, reading: Reading) -> None:
        """Count what was refused since the reading before: evenly, if that was minutes ago."""
        before, self._last = self._last, reading
        if self.since_ms is None or before is None:
            self.since_ms = reading.at_ms
            return
        first = max(before.at_ms, reading.at_ms - MINUTES * MINUTE_MS)
        edges = [first, *range(first - first % MINUTE_MS + MINUTE_MS, reading.at_ms, MINUTE_MS), reading.at_ms]
        refused = _refused_between(before, reading)
        for (begin, end), shares in zip(pairwise(edges), _spread(refused, edges), strict=True):
            minute = self._counts.setdefault(begin // MINUTE_MS, Counter())
            minute.update({name: number for name, number in shares.items() if number and end > begin})
        kept = reading.at_ms // MINUTE_MS - MINUTES
        self._counts = {minute: counts for minute, counts in self._counts.items() if minute > kept}

    def by_limit(self, now_ms: int, most: int) -> tuple[list[int], dict[str, list[int | None]]]:
        """Return the begins of the last minutes, and the refusals of each limit in them: those of most refusals first,
        the rest together. ``None`` for a minute before the first reading.
        """
        this = now_ms // MINUTE_MS
        minutes = range(this - MINUTES + 1, this + 1)
        sums = sum(self._counts.values(), Counter[str]())
        names = [name for name, _ in sorted(sums.items(), key=lambda each: (-each[1], each[0]))]
        groups = {name: [name] for name in names[:most]} | ({"others": names[most:]} if names[most:] else {})
        none = Counter[str]()
        first = this + 1 if self.since_ms is None else self.since_ms // MINUTE_MS
        return [minute * MINUTE_MS for minute in minutes], {
            group: [
                sum(self._counts.get(minute, none)[name] for name in inner) if minute >= first else None
                for minute in minutes
            ]
            for group, inner in groups.items()
        }


def _spread(counts: Mapping[str, int], edges: list[int]) -> list[dict[str, int]]:
    """Return the part of each count in each of the times between the edges; the parts add up to it."""
    whole = max(1, edges[-1] - edges[0])
    until = [{name: count * (edge - edges[0]) // whole for name, count in counts.items()} for edge in edges[:-1]]
    until.append(dict(counts))
    return [{name: later[name] - sooner[name] for name in counts} for sooner, later in pairwise(until)]


def _refused_between(before: Reading, now: Reading) -> Counter[str]:
    """Return how many calls each limit refused between two readings."""
    known = [(place, before.buckets[place], bucket) for place, bucket in now.buckets.items() if place in before.buckets]
    grown = {place: _grown(was, bucket) for place, was, bucket in known if bucket.refused >= was.refused}
    counts, below = Counter[str](), Counter[Place]()
    for place, (_, by) in grown.items():
        counts.update({str(refuser): number for refuser, number in by.items()})
        for refuser, number in by.items():
            below[Place(refuser.entity_id, place.resource)] += number
    for place, (refused, by) in grown.items():
        own = refused - sum(by.values()) - below[place]
        if own > 0:
            counts[_own_limits(now.buckets[place])] += own
    return counts


def _grown(was: "Bucket", bucket: "Bucket") -> tuple[int, "dict[Refuser, int]"]:
    by = {refuser: number - was.refused_by.get(refuser, 0) for refuser, number in bucket.refused_by.items()}
    return bucket.refused - was.refused, {refuser: number for refuser, number in by.items() if number > 0}


def _own_limits(bucket: "Bucket") -> str:
    """Return the name of what refused a call by limits of the entity itself, which are counted together."""
    names = [each.limit.name for each in bucket.limits]
    return f"{bucket.entity_id}/{names[0]}" if len(names) == 1 else f"{bucket.entity_id}, its own limits"
