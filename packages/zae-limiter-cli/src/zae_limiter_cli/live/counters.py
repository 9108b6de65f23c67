"""What buckets counted in the last minutes, by the half minute, from the readings that `top` makes.

Buckets count on, and keep no times: what one counted in a time is the difference of two readings. So nothing is read
for it, and nothing is known of before the first reading.
"""

from collections import Counter
from itertools import pairwise
from typing import TYPE_CHECKING, Final, TypeAlias

from .rows import Place, Reading

if TYPE_CHECKING:
    from zae_limiter.values import Bucket, Refuser

Counts: TypeAlias = "Counter[Refuser | str]"  # tokens used, by limit; acquires that a limit above refused, by refuser
STEP_MS: Final = 30_000
REFUSED: Final = ""  # all refused acquires, in `Counts`


class Counters:
    """What each bucket counted in each of the last ``steps`` half minutes; ``since_ms`` is the first reading."""

    def __init__(self, steps: int) -> None:
        self._most = steps
        self._last: Reading | None = None
        self.since_ms: int | None = None
        self.steps: dict[int, dict[Place, Counts]] = {}  # by the number of half minutes since 1970

    def add(self, reading: Reading) -> None:
        """Count what was counted since the reading before: evenly, if that was steps ago."""
        before, self._last = self._last, reading
        if self.since_ms is None or before is None:
            self.since_ms = reading.at_ms
            return
        first = max(before.at_ms, reading.at_ms - self._most * STEP_MS)
        edges = [first, *range(first - first % STEP_MS + STEP_MS, reading.at_ms, STEP_MS), reading.at_ms]
        for place, bucket in reading.buckets.items():
            if (was := before.buckets.get(place)) is not None:
                for begin, counts in zip(edges, _spread(_grown(was, bucket), edges), strict=False):
                    self.steps.setdefault(begin // STEP_MS, {}).setdefault(place, Counter()).update(counts)
        oldest = reading.at_ms // STEP_MS - self._most
        self.steps = {step: found for step, found in self.steps.items() if step >= oldest}


def _counts(bucket: "Bucket") -> Counts:
    counts: Counts = Counter({each.limit.name: each.consumed for each in bucket.limits})
    counts.update({REFUSED: bucket.refused})
    counts.update(bucket.refused_by)
    return counts


def _grown(was: "Bucket", bucket: "Bucket") -> Counts:
    """Return what a bucket counted since: nothing where it counts anew, because it was made again."""
    before = _counts(was)
    return Counter({name: max(0, count - before[name]) for name, count in _counts(bucket).items()})


def _spread(counts: Counts, edges: list[int]) -> list[Counts]:
    """Return the part of the counts in each of the times between the edges; the parts add up to them."""
    whole = max(1, edges[-1] - edges[0])
    parts = [{name: count * (edge - edges[0]) // whole for name, count in counts.items()} for edge in edges[:-1]]
    return [Counter({name: late[name] - soon[name] for name in counts}) for soon, late in pairwise([*parts, counts])]
