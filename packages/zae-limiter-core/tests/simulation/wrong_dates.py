"""The dates of answers as they come in: an intermediary, or a host with a wrong clock, may send wrong ones.

Lives here: sequences of wrong dates, such as a repeated one, and when they begin. Never: the choice of the date that a
process believes (zae_limiter.clock.estimate).
"""

from collections.abc import Callable
from random import Random

MINUTE_MS = 60_000
HOUR_MS = 60 * MINUTE_MS
OFF_MS = (90_000, -2 * MINUTE_MS, 10 * MINUTE_MS, 70 * MINUTE_MS, -3 * HOUR_MS, 26 * HOUR_MS, 9_000 * HOUR_MS)
MOST_SECONDS = 4  # in a row that agree, where the wall clock and the answers before say otherwise
MOST_REPEATED = 30
AT_FIRST = 3  # wrong dates at most that a process meets when it starts

WrongDates = Callable[[int], int | None]


class Dates:
    """The dates that one process is shown, in epoch milliseconds; with each, a sequence of wrong ones may begin."""

    def __init__(self, rng: Random, chance: float) -> None:
        self._rng = rng
        self._chance = chance
        self._sequence: WrongDates | None = None
        self._last_ms = 0

    @property
    def in_sequence(self) -> bool:
        """Whether a sequence of wrong dates has begun that may go on."""
        return self._sequence is not None

    def at_first(self, true_ms: int, trial: int) -> int:
        """The date of one of the answers that come before anything is known; no two wrong dates agree."""
        if self._chance and trial < AT_FIRST and self._rng.random() < 0.5:
            return true_ms + OFF_MS[trial] * self._rng.choice((1, -1))
        self._last_ms = true_ms
        return true_ms

    def shown(self, true_ms: int, *, wall_is_right: bool) -> int:
        """The date of an answer. After the end of a sequence comes a right date, once at least."""
        if self._sequence is None and self._rng.random() < self._chance:
            self._sequence = self._begin(wall_is_right=wall_is_right)
        date_ms = None if self._sequence is None else self._sequence(true_ms)
        if date_ms is not None:
            return date_ms
        self._sequence, self._last_ms = None, true_ms
        return true_ms

    def _begin(self, *, wall_is_right: bool) -> WrongDates:
        off_ms = self._rng.choice(OFF_MS) * self._rng.choice((1, -1))
        sequences = [_once(off_ms), _repeated(self._last_ms, self._rng.randint(1, MOST_REPEATED)), _in_a_row(off_ms)]
        return self._rng.choice(sequences if wall_is_right else sequences[:2])


def _once(off_ms: int) -> WrongDates:
    dates = iter([off_ms])
    return lambda true_ms: next((true_ms + each for each in dates), None)


def _repeated(date_ms: int, times: int) -> WrongDates:
    dates = iter([date_ms] * times)
    return lambda _: next(dates, None)


def _in_a_row(off_ms: int) -> WrongDates:
    """Dates that go on with the time, as long as they are of few enough different seconds."""
    seconds: set[int] = set()

    def date(true_ms: int) -> int | None:
        seconds.add(true_ms // 1000)
        return true_ms + off_ms if len(seconds) <= MOST_SECONDS else None

    return date
