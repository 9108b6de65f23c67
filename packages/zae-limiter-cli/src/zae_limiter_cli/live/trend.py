"""What became of each bucket in the last minutes, as a line of small bars."""

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Final, NamedTuple

from .rows import Place, Reading

if TYPE_CHECKING:
    from zae_limiter.values import Bucket

STEP_MS: Final = 30_000
STEPS: Final = 10  # five minutes
BARS: Final = "▁▂▃▄▅▆▇█"
NOTHING: Final = "·"


class _Counters(NamedTuple):
    """The counters of a bucket: refused acquires, and tokens used of each limit."""

    refused: int
    consumed: Mapping[str, int]


class Trend:
    """Counters of buckets, kept twice a minute for five minutes."""

    def __init__(self) -> None:
        self._kept: deque[tuple[int, dict[Place, _Counters]]] = deque(maxlen=STEPS + 1)

    def add(self, reading: Reading) -> None:
        """Keep a reading, unless the last one is younger than half a minute."""
        if not self._kept or reading.at_ms - self._kept[-1][0] >= STEP_MS:
            self._kept.append((reading.at_ms, {place: _counters(each) for place, each in reading.buckets.items()}))

    def of(self, place: Place, limit: str) -> tuple[bool, Sequence[int]]:
        """Return whether these are refusals, and how many there were in each step, oldest first; else the tokens used.

        A step at whose begin or end the bucket was not read has none.
        """
        steps = [(before.get(place), after.get(place)) for (_, before), (_, after) in pairwise(self._kept)]
        known = [(before, after) for before, after in steps if before is not None and after is not None]
        refused = [max(0, after.refused - before.refused) for before, after in known]
        if any(refused):
            return True, refused
        return False, [max(0, after.consumed.get(limit, 0) - before.consumed.get(limit, 0)) for before, after in known]


def _counters(bucket: "Bucket") -> _Counters:
    return _Counters(bucket.refused, {each.limit.name: each.consumed for each in bucket.limits})


def spark(steps: Sequence[int], width: int) -> str:
    """Return the last steps as bars beside the largest one, right-aligned; a dot for nothing."""
    shown = steps[-width:]
    most = max(shown, default=0)
    bars = [BARS[(len(BARS) - 1) * each // most] if each else NOTHING for each in shown]
    return "".join(bars).rjust(width)
