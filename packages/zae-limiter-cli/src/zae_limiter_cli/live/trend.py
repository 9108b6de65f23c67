"""What became of each bucket in the last minutes, as a line of small bars."""

from collections.abc import Sequence
from typing import Final

from .counters import REFUSED, STEP_MS, Counters
from .rows import Place

STEPS: Final = 10  # five minutes
BARS: Final = "▁▂▃▄▅▆▇█"
NOTHING: Final = "·"


class Trend(Counters):
    """What buckets counted in the last five minutes."""

    def __init__(self) -> None:
        super().__init__(STEPS)

    def of(self, place: Place, limit: str) -> tuple[bool, Sequence[int]]:
        """Return whether these are refusals, and how many there were in each step, oldest first; else the tokens used.

        A step in which the bucket was not read has none, nor has one that was not seen from its begin to its end.
        """
        known = [found[place] for step, found in self.steps.items() if place in found and self._is_whole(step)]
        refused = [counts[REFUSED] for counts in known]
        return (True, refused) if any(refused) else (False, [counts[limit] for counts in known])

    def _is_whole(self, step: int) -> bool:
        since, last = self.since_ms, self._last
        return since is not None and last is not None and since <= step * STEP_MS <= last.at_ms - STEP_MS


def spark(steps: Sequence[int], width: int) -> str:
    """Return the last steps as bars beside the largest one, right-aligned; a dot for nothing."""
    shown = steps[-width:]
    most = max(shown, default=0)
    bars = [BARS[(len(BARS) - 1) * each // most] if each else NOTHING for each in shown]
    return "".join(bars).rjust(width)
