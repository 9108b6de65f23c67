"""A month of usage: from its first instant to the first of the next, in UTC."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Self

from ..errors import CommandError


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

    def __str__(self) -> str:
        return f"{self.start:%Y-%m}"
