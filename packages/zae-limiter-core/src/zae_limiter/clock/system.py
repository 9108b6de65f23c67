"""The current time, as the limiter counts it: in epoch milliseconds of the store's clock.

Buckets mint by the time that a process writes, so processes have to agree on it, and it must not step: one that writes
as of an hour later takes what others were to have. Wall clocks are wrong, and are set. So the time is the clock that
cannot be set and that no suspension stops (``runtime.elapsed``), plus an offset that the ``Date`` of each answer of the
store corrects, without a request of its own. ``estimate`` says what a date proves, and which
dates are believed.

The price: a date has whole seconds, so a machine whose clock is wrong by less becomes right only by and by; and before
the first answer there is nothing but its wall clock. docs/design/admission.md ("Clocks"),
docs/decisions/a-possible-clock-stays.md.
"""

import logging
from collections.abc import Callable
from functools import lru_cache
from time import time_ns
from typing import Protocol

from ..runtime.elapsed import elapsed_ns
from .estimate import JUMP_MS, Offset, TimeEstimate

NANOS_PER_MILLI = 1_000_000

log = logging.getLogger(__name__)


class Clock(Protocol):
    """The source of the time; pass one of your own to test what happens later.

    One with ``sleep(seconds)`` has the waits of the sync variant as well, one with an awaited ``sleep_async(seconds)``
    those of the async one: ``zae_limiter.testing.ManualClock`` is such a clock.
    """

    def now_ms(self) -> int:
        """Return the current time in epoch milliseconds."""


class SystemClock:
    """The elapsed time plus an offset: a step of the wall clock does nothing. Threads may share it.

    At the start the offset is the wall clock's; then the ``Date`` of every answer corrects it. A date that contradicts
    the belief counts once other answers, or the wall clock, agree with it (``estimate``). ``wall_ns`` and
    ``monotonic_ns`` are the two clocks, in nanoseconds; for tests.
    """

    def __init__(self, *, wall_ns: Callable[[], int] = time_ns, monotonic_ns: Callable[[], int] = elapsed_ns) -> None:
        self._wall_ns = wall_ns
        self._monotonic_ns = monotonic_ns
        self._known = TimeEstimate(self._by_wall())

    def now_ms(self) -> int:
        """Return the current time in epoch milliseconds."""
        return int(self._monotonic_ns() / NANOS_PER_MILLI + self._known.offset.ms)

    @property
    def doubted(self) -> bool:
        """Whether the last answers contradict the belief, and too few of them agree."""
        return self._known.doubted

    def on_answer(self, date: str, sent_ms: float, received_ms: float) -> None:
        """Correct the offset by an answer's ``Date``; an unreadable date is ignored.

        ``sent_ms`` and ``received_ms`` are of ``elapsed_ms``. One assignment replaces the estimate: another thread
        sees the former or the new one. Of two answers at once one may be lost, which proves less, but nothing wrong.
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
            moved_ms = after.offset.ms - before.offset.ms
            if abs(moved_ms) > JUMP_MS:
                where = "slow" if moved_ms > 0 else "fast"
                log.warning("this process's clock was %.1f s %s: corrected by the store's", abs(moved_ms) / 1000, where)

    def _by_wall(self) -> Offset:
        return Offset((self._wall_ns() - self._monotonic_ns()) / NANOS_PER_MILLI)


@lru_cache(maxsize=16)  # answers of the same second have the same date
def read_http_date(text: str) -> int | None:
    """Return the epoch milliseconds of an HTTP ``Date``, a whole second; ``None`` for an invalid date."""
    from email.utils import parsedate_to_datetime  # a process with answers has it loaded; others start without it

    try:
        instant = parsedate_to_datetime(text)
    except (ValueError, OverflowError):
        return None
    return int(instant.timestamp()) * 1000 if instant.tzinfo else None
