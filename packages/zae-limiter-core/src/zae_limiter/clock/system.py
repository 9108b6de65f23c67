"""Time, as the limiter counts it.

Lives here: epoch milliseconds, as the store counts them. Never: what happens at an instant.
"""

import logging
from collections.abc import Callable
from functools import lru_cache
from time import monotonic_ns, time_ns
from typing import Protocol

from .agreement import JUMP_MS, TimeEstimate
from .offset import Offset

NANOS_PER_MILLI = 1_000_000

log = logging.getLogger(__name__)


class Clock(Protocol):
    """Where ``now`` comes from; give your own to test what happens later."""

    def now_ms(self) -> int:
        """Epoch milliseconds."""


class SystemClock:
    """The monotonic clock and an offset: a step of the wall clock does nothing. Threads may share it.

    The offset is the wall clock's at the start, and corrected by the ``Date`` of every answer that it is shown. One
    that contradicts what was believed is believed once others, or the wall clock, agree with it (``agreement``).
    ``wall_ns`` and ``monotonic_ns`` are where the two come from, in nanoseconds; for tests.
    """

    def __init__(self, *, wall_ns: Callable[[], int] = time_ns, monotonic_ns: Callable[[], int] = monotonic_ns) -> None:
        self._wall_ns = wall_ns
        self._monotonic_ns = monotonic_ns
        self._known = TimeEstimate(self._by_wall())

    def now_ms(self) -> int:
        """Epoch milliseconds."""
        return int(self._monotonic_ns() / NANOS_PER_MILLI + self._known.offset.ms)

    @property
    def doubted(self) -> bool:
        """Whether the last answers contradict what it says, and it waits for more of them."""
        return self._known.doubted

    def on_answer(self, date: str, sent_ms: float, received_ms: float) -> None:
        """Correct the offset by an answer's ``Date``, which is left aside where nobody can read it.

        The times are those of ``time.monotonic`` in ms. One assignment replaces all that is known: another thread
        sees it before or after, and of two that answer at once one may be forgotten, which proves less but no wrong.
        """
        date_ms = read_http_date(date)
        if date_ms is None:
            return
        before = self._known
        after = before.after(date_ms, sent_ms=sent_ms, received_ms=received_ms, by_wall=self._by_wall)
        if after is before:
            return
        self._known = after
        if after.offset is not before.offset:
            _report(after.offset.ms - before.offset.ms)

    def _by_wall(self) -> Offset:
        return Offset((self._wall_ns() - self._monotonic_ns()) / NANOS_PER_MILLI)


def _report(moved_ms: float) -> None:
    if abs(moved_ms) > JUMP_MS:
        where = "behind" if moved_ms > 0 else "ahead of"
        log.warning("this process's clock was %.1f s %s the store's: corrected", abs(moved_ms) / 1000, where)


@lru_cache(maxsize=16)  # answers of the same second say the same
def read_http_date(text: str) -> int | None:
    """The epoch milliseconds of an HTTP ``Date``, a whole second; ``None`` for what is none."""
    from email.utils import parsedate_to_datetime  # whoever is shown answers has it loaded: others start without

    try:
        instant = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return int(instant.timestamp()) * 1000 if instant.tzinfo else None
