"""The clocks of a time zone: what they show at an instant, and when they show a time for the first time.

Clocks that are put on leave times out, clocks that are put back show times twice. A time comes at the first instant at
which the clocks show it, or a later one: one that is left out comes at the change, a repeated one comes once.
"""

from datetime import UTC, datetime, timedelta
from functools import lru_cache
from typing import Final

from .windows import zone_of

LAST: Final = datetime(2200, 1, 1, tzinfo=UTC)  # nothing by the clocks of a zone begins later
LAST_MS: Final = int(LAST.timestamp()) * 1000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)


class Clocks:
    """The clocks of one zone; instants are whole seconds since the epoch."""

    def __init__(self, timezone: str) -> None:
        self._zone = zone_of(timezone)

    def shown(self, second: int) -> datetime:
        """Return what the clocks show at an instant."""
        return (_EPOCH + timedelta(seconds=second)).astimezone(self._zone).replace(tzinfo=None)

    def first(self, wall: datetime) -> int:
        """Return the first instant at which the clocks show a time, or a later one.

        Raises ``OverflowError`` for a time too far away.
        """
        second = self._second(wall, fold=0)
        if self.shown(second) != wall:  # the clocks never show it
            second = self._change(self._second(wall, fold=1), second)
        return second

    def _second(self, wall: datetime, *, fold: int) -> int:
        return (wall.replace(tzinfo=self._zone, fold=fold).astimezone(UTC) - _EPOCH) // _SECOND

    def _change(self, before: int, after: int) -> int:
        """Return the second at which the clocks are changed between two instants."""
        shown = self.shown(before) - timedelta(seconds=before)
        while after - before > 1:
            middle = (before + after) // 2
            is_old = self.shown(middle) - timedelta(seconds=middle) == shown
            before, after = (middle, after) if is_old else (before, middle)
        return after


@lru_cache(maxsize=256)
def clocks_of(timezone: str) -> Clocks:
    """Return the clocks of a zone. Raises ``ValidationError`` for one that this machine does not know."""
    return Clocks(timezone)
