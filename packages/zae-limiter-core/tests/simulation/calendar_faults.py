"""Rules of calendar limits and totals made wrong.

Lives here: the faults, and the seeds that have found them. Never: which of them are to be found (mutants).
"""

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

from zae_limiter.rules.calendar import Calendar
from zae_limiter.rules.total import Total
from zae_limiter.values.limits import Limit


def _twice(real: Callable[[Calendar, int], int]) -> Callable[[Calendar, int], int]:
    """A window that has just begun begins again a second later."""
    return lambda self, t_ms: real(self, t_ms) + real(self, t_ms - 1_000)


def _early(real: Callable[[Calendar, int], int]) -> Callable[[Calendar, int], int]:
    return lambda self, t_ms: real(self, t_ms + 300)


def _kept(self: Limit) -> int:
    """Nothing bounds what is carried over, for another window."""
    return 1000 * (self.usable_burst + (self.capacity if self.kind == "calendar" else 0))


def _full(self: Limit) -> int:
    return 1000 * self.usable_burst


def _evenly(self: Total, t_ms: int) -> int:
    return t_ms // 10


CALENDAR_FAULTS: dict[str, tuple[Any, int]] = {
    "a boundary minted twice": (patch.object(Calendar, "minted", _twice(Calendar.minted)), 1),
    "a window that begins early": (patch.object(Calendar, "minted", _early(Calendar.minted)), 2),
    "carry-over kept too long": (patch.object(Limit, "ceiling_milli", property(_kept)), 1),
    "a new bucket that has carried over": (patch.object(Limit, "initial_milli", property(_full)), 1),
    "an epoch dropped early": (patch.object(Calendar, "longest_ms", lambda *_: 1), 50),
    "a total that expires": (patch.object(Total, "longest_ms", lambda *_: 1), 7),
    "a total that refills": (patch.object(Total, "minted", _evenly), 7),
}
