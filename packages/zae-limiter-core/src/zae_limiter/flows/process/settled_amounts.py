"""What calls were settled for in the last hour, as one process knows it, for estimates that learn.

The problem: a call reserves its tokens before anybody knows how many it uses. Who reserves the worst case is refused
while most of what is reserved comes back; who reserves the mean goes into debt with each long answer. The choice: the
quantile of the amounts of the last hour, so that a stated share of the calls fits into what it has reserved.

Memory is bounded by a histogram. A cell holds amounts that differ by less than a sixteenth (exact below 32), as in
HdrHistogram, so a quantile is never too low, and too high by a sixteenth at most. Six slots of ten minutes make the
hour, and the oldest is dropped as a whole. Left: a decaying sample, because it forgets by calls, not by time; and the
P2 estimator of Jain and Chlamtac, because it cannot forget at all.
"""

from collections import Counter
from math import ceil
from threading import Lock
from typing import Final

from ...runtime import forks
from ...runtime.lru import LRU
from ...values.estimates import EstimateKey
from ...values.limits import MILLI

SLOTS: Final = 6
SLOT_MS: Final = 600_000
LEAST: Final = 20  # calls, before an estimate learns from them
KEYS: Final = 1_000
_CELLS: Final = 16  # in an octave, each a sixteenth of its lower bound wide
_BITS: Final = 4


class SettledAmounts:
    """The amounts by ``EstimateKey``; those of the keys that were not used for longest go first.

    Threads may share it.
    """

    def __init__(self) -> None:
        self._histograms: LRU[EstimateKey, _Histogram] = LRU(KEYS)
        self._lock = Lock()
        forks.register(self)

    def forget(self) -> None:
        """Take a new lock in a child process: the parent's may be held there for ever."""
        self._lock = Lock()

    def add(self, key: EstimateKey, amount_milli: int, now_ms: int) -> None:
        """Remember what a call was settled for."""
        histogram = self._histograms.setdefault(key, _Histogram())
        with self._lock:
            histogram.add(-(-amount_milli // MILLI), now_ms)

    def quantile(self, key: EstimateKey, share: float, now_ms: int) -> int | None:
        """Return the tokens that were enough for a ``share`` of the calls; ``None`` if there were too few of them.

        Too few are less than ``LEAST``, or so few that the share leaves none of them out.
        """
        histogram = self._histograms.get(key)
        if histogram is None:
            return None
        with self._lock:
            return histogram.quantile(share, now_ms)


class _Histogram:
    """The number of amounts by cell, in slots of time."""

    __slots__ = ("_slots",)

    def __init__(self) -> None:
        self._slots: dict[int, Counter[int]] = {}

    def add(self, amount: int, now_ms: int) -> None:
        slot = self._forget(now_ms)
        self._slots.setdefault(slot, Counter())[_cell(amount)] += 1

    def quantile(self, share: float, now_ms: int) -> int | None:
        self._forget(now_ms)
        cells: Counter[int] = Counter()
        for each in self._slots.values():
            cells.update(each)
        calls = cells.total()
        if calls < LEAST or calls * (1 - share) < 1:
            return None
        left = ceil(calls * share)
        for cell in sorted(cells):
            left -= cells[cell]
            if left <= 0:
                return _most_of(cell)
        raise AssertionError("the cells hold all calls")

    def _forget(self, now_ms: int) -> int:
        """Drop the slots that are too old, or in the future of a clock that was corrected; return the current one."""
        slot = now_ms // SLOT_MS
        for each in [each for each in self._slots if not slot - SLOTS < each <= slot]:
            del self._slots[each]
        return slot


def _cell(amount: int) -> int:
    """Return the cell of an amount: its first five binary digits, and how many follow."""
    shift = max(0, amount.bit_length() - _BITS - 1)
    return shift * _CELLS + (amount >> shift)


def _most_of(cell: int) -> int:
    """Return the largest amount of a cell."""
    shift = max(0, cell // _CELLS - 1)
    return ((cell - shift * _CELLS + 1) << shift) - 1
