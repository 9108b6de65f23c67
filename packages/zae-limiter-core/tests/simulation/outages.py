"""Outages: the traffic of processes that lose the table for a while, and when they lose it.

Lives here: who comes when, and what happens around an outage. Never: what may be admitted in it (sharing).
"""

from collections.abc import Sequence
from functools import partial
from random import Random
from typing import Protocol

from .callers import Process
from .driver import Driver
from .kernel import Kernel
from .plan import Plan
from .sharing import MARGIN_MS, WINDOW_MS, Outage, Sharing

SECOND_US = 1_000_000
HISTORY_S = 65, 95  # before an outage: two whole windows of half a minute
SPLIT_UP_S = 10  # a bucket is split before it has a history
RUSH_S = 3  # as soon as the table is back
EVERY_WEIGHT = (0.1, 1, 1, 1, 4)
AT_A_BOUNDARY = 0.3  # of the windows by which all processes go


class Cut(Process, Protocol):
    """A process that may lose the table."""

    driver: Driver


class History(Protocol):
    """A history with outages."""

    kernel: Kernel
    plan: Plan
    rng: Random
    sharing: Sharing

    @property
    def processes(self) -> Sequence[Cut]:
        """Those that are there."""

    def arrive(self, weights: Sequence[float]) -> None:
        """Somebody comes to a process, which is chosen by its weight."""

    def split(self) -> None:
        """A shard is split."""

    def crash(self) -> None:
        """A process starts anew."""

    def suspend(self) -> None:
        """A process stands still."""


class Outages:
    """The outages of one history."""

    def __init__(self, history: History) -> None:
        self._history = history
        self._rng = history.rng

    def schedule(self) -> None:
        """Have everything happen."""
        history, plan, rng = self._history, self._history.plan, self._rng
        begin_us, callers = 0, plan.callers // plan.outages
        for _ in range(plan.outages):
            away_us = begin_us + rng.randint(HISTORY_S[0] * SECOND_US, HISTORY_S[1] * SECOND_US)
            if rng.random() < AT_A_BOUNDARY:
                away_us = self._at_a_boundary(away_us)
            back_us = away_us + round(rng.choice((2, 10, 40, 90)) * rng.uniform(0.5, 1.0) * SECOND_US)
            end_us = back_us + rng.choice((10, 40)) * SECOND_US
            rush_us = back_us + RUSH_S * SECOND_US
            for part, since_us, until_us in (
                (0.45, begin_us, away_us),
                (0.25, away_us, back_us),
                (0.2, back_us, rush_us),
                (0.1, rush_us, end_us),
            ):
                self._come(round(callers * part), since_us, until_us)
            self._be_away(away_us, back_us)
            for times, event in ((plan.crashes, history.crash), (plan.suspensions, history.suspend)):
                for _ in range(times):
                    history.kernel.later(rng.randint(away_us - 5 * SECOND_US, back_us + 5 * SECOND_US), event)
            begin_us = end_us
        for _ in range(plan.splits):
            history.kernel.later(rng.randint(SECOND_US, SPLIT_UP_S * SECOND_US), history.split)

    def _at_a_boundary(self, at_us: int) -> int:
        """The end of a window, as processes may see it whose clocks differ."""
        epoch_us = 1000 * self._history.kernel.epoch_ms
        window_us, skew_us = 1000 * WINDOW_MS, 1000 * self._history.plan.skew_ms
        end_us = epoch_us + at_us + window_us - (epoch_us + at_us) % window_us
        return end_us - epoch_us + self._rng.choice((0, 1000 * MARGIN_MS)) + self._rng.randint(-skew_us, skew_us)

    def _come(self, callers: int, since_us: int, until_us: int) -> None:
        """So many come within that time; one process or another may be busy at first, and again later."""
        kernel, rng = self._history.kernel, self._rng
        change_us = rng.randint(since_us, until_us)
        before, after = ([rng.choice(EVERY_WEIGHT) for _ in self._history.processes] for _ in range(2))
        for _ in range(callers):
            at_us = rng.randint(since_us, until_us)
            kernel.later(at_us, partial(self._history.arrive, before if at_us < change_us else after))

    def _be_away(self, away_us: int, back_us: int) -> None:
        """The table is away for everybody, or for some."""
        history, rng = self._history, self._rng
        places = range(len(history.processes))
        some = rng.random() < history.plan.cut_off
        chosen = rng.sample(places, rng.randint(1, len(places) - 1)) if some and len(places) > 1 else places
        epoch_ms = history.kernel.epoch_ms
        from_ms, until_ms = epoch_ms + away_us // 1000, epoch_ms + -(-back_us // 1000)  # every one that it touches
        outage = Outage(from_ms, until_ms, whole=len(chosen) == len(places))
        history.sharing.outages.append(outage)

        def switch(*, away: bool) -> None:
            for place in chosen:
                history.processes[place].driver.link.away = away

        history.kernel.later(away_us, partial(switch, away=True))
        history.kernel.later(back_us, partial(switch, away=False))
