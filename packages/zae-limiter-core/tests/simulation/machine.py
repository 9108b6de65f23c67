"""The computer that a process runs on: its clocks, right or wrong.

Lives here: how far they are off, and that they drift and step. Never: how they are corrected (zae_limiter.clock).
"""

import math
from email.utils import formatdate
from functools import lru_cache
from random import Random

from zae_limiter.clock.system import SystemClock

from .kernel import Kernel
from .wrong_dates import Dates

DAY_MS = 86_400_000
OFF_MS = (0, 0, 3, -40, 900, 3_600_000, DAY_MS, -DAY_MS)
PPM = (0, 5, -30, 90, -90)
BOOTED_US = 10**7  # before, at least
TRIP_MS = 10  # of an answer that opening the repository brought
PAUSE_MS = 250  # until it asks again, where the clock is doubted
TRIALS = 11
RIGHT_MS = 40
DATE_MS = 1_000
WORST_MS = DATE_MS + 100  # a date is a second wide; an answer takes its time; clocks drift


class Machine:
    """A wall clock that may be a day off and steps at times, a monotonic one that drifts, and the clock over both.

    ``wrong_dates``: the chance that a sequence of wrong dates begins with an answer.
    ``as_wrong``: how many answers behind a wrong date are as wrong.
    ``worst_ms``: the most that the clock over both may be off.
    """

    def __init__(self, kernel: Kernel, rng: Random, *, wrong_dates: float, as_wrong: int = 0) -> None:
        self._kernel = kernel
        self._rng = rng
        self._off_ms = rng.choice(OFF_MS)
        self._rate = 1 + rng.choice(PPM) / 1_000_000
        self._booted_us = kernel.now_us - rng.randint(BOOTED_US, 10**9)
        self._dates = Dates(rng, wrong_dates)
        self._as_wrong = as_wrong
        self._wrong = 0, 0  # by how many seconds the next answers are, and how many
        self.worst_ms = WORST_MS
        self.clock = SystemClock(wall_ns=self._wall_ns, monotonic_ns=self._monotonic_ns)
        self._open()

    def monotonic_ms(self) -> float:
        """Milliseconds since some instant."""
        return (self._kernel.now_us - self._booted_us) * self._rate / 1000

    def answered(self, served_ms: int, sent_ms: float) -> None:
        """An answer came in, which the store dated; ``sent_ms`` is of the monotonic clock."""
        if self._rng.random() < 0.05 and not self._dates.in_sequence:
            self._off_ms += self._rng.choice((-DAY_MS, -2_000, 2_000, DAY_MS))
        date_ms = self._dates.shown(served_ms, wall_is_right=abs(self._off_ms) <= RIGHT_MS)
        received_ms, before_ms = self.monotonic_ms(), self.clock.now_ms()
        self.clock.on_answer(
            _date(date_ms // 1000 + self._go_on(date_ms // 1000 - served_ms // 1000)), sent_ms, received_ms
        )
        if date_ms // 1000 == served_ms // 1000 and abs(self.clock.now_ms() - before_ms) > DATE_MS:
            self._jumped(received_ms - sent_ms, self._kernel.now_ms - served_ms)

    def _go_on(self, wrong_s: int) -> int:
        """By how many seconds more a date is wrong, because the ones before it were."""
        wrong, times = (wrong_s, self._as_wrong + 1) if wrong_s else self._wrong
        self._wrong = wrong, max(0, times - 1)
        return wrong - wrong_s if times else 0

    def _jumped(self, trip_ms: float, back_ms: int) -> None:
        """The clock follows one answer alone, against all before: its date proves a second, and its way there or back.

        A belief that is possible stays, so a wall clock that is off by as much is believed.
        """
        self.worst_ms = max(self.worst_ms, WORST_MS + math.ceil(max(back_ms, trip_ms - back_ms)))

    def _open(self) -> None:
        """Some time ago; as ``open_namespace`` does it, until the clock is not doubted."""
        now_ms = self.monotonic_ms()
        for trial in range(TRIALS):
            ago_ms = (TRIALS - trial) * (PAUSE_MS + TRIP_MS)
            date_ms = self._dates.at_first(self._kernel.now_ms - ago_ms + TRIP_MS // 2, trial)
            self.clock.on_answer(_date(date_ms // 1000), now_ms - ago_ms, now_ms - ago_ms + TRIP_MS)
            if not self.clock.doubted:
                return

    def _wall_ns(self) -> int:
        return self._kernel.epoch_ms * 10**6 + self._kernel.now_us * 1000 + self._off_ms * 10**6

    def _monotonic_ns(self) -> int:
        return round(self.monotonic_ms() * 10**6)


@lru_cache(maxsize=1024)
def _date(second: int) -> str:
    return formatdate(second, usegmt=True)
