"""A month or a day of usage: from its first instant to the first of the next, in UTC."""

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, Self

from ..errors import CommandError
from ..times import parse_instant

HOURS_OF_A_MONTH: Final = 730  # as the vendor bills it


@dataclass(frozen=True, slots=True)
class Month:
    """A month that has begun. ``elapsed`` is its part that has passed, 1 for a past one."""

    start: datetime
    end: datetime
    elapsed: float

    @classmethod
    def of(cls, text: str | None, now: datetime) -> Self:
        """Return the month of a text like 2026-11; without one that of ``now``. Raises ``CommandError``."""
        from zae_limiter.values.usage import EARLIEST

        try:
            start = now if text is None else datetime.strptime(text, "%Y-%m").replace(tzinfo=UTC)
            if text is not None and len(text) != len("2026-11"):
                raise ValueError(text)
        except ValueError:
            raise CommandError(f"--month {text!r}: must be a month like 2026-11") from None
        start = start.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
        if start > now:
            raise CommandError(f"--month {text!r}: has not begun: pass a month until {now:%Y-%m}")
        if start.year < EARLIEST.year:
            raise CommandError(f"--month {text!r}: must not be before {EARLIEST:%Y-%m}")
        end = start.replace(year=start.year + start.month // 12, month=start.month % 12 + 1)
        return cls(start, end, min(1.0, (now - start) / (end - start)))

    @property
    def day(self) -> str | None:
        """The day as an ISO date; ``None`` for a whole month."""
        return None

    def __str__(self) -> str:
        return f"{self.start:%Y-%m}"


class Day(Month):
    """A day that has begun. ``elapsed`` is its part of a month, as far as it has passed."""

    @classmethod
    def of(cls, text: str | None, now: datetime) -> Self:
        """Return the day of a text like 2026-11-28 or yesterday. Raises ``CommandError``."""
        instant = parse_instant("--day", text or "today", now, UTC)
        start = instant.replace(hour=0, minute=0, second=0, microsecond=0)
        if start > now:
            raise CommandError(f"--day {text!r}: has not begun: pass a day until {now:%Y-%m-%d}")
        end = start + timedelta(days=1)
        return cls(start, end, (min(now, end) - start) / timedelta(hours=HOURS_OF_A_MONTH))

    @property
    def day(self) -> str:
        """The day as an ISO date."""
        return f"{self.start:%Y-%m-%d}"

    def __str__(self) -> str:
        return self.day
