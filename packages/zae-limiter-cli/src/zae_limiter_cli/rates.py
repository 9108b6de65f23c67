"""Write rates in the notation of the command line."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zae_limiter import Limit

PERIODS: Final[Mapping[str, int]] = {"sec": 1, "min": 60, "hour": 3600, "day": 86400}

_WORDS: Final = {seconds: word for word, seconds in PERIODS.items()}


def rate(limit: "Limit") -> str:
    """Return a rate as on the command line, which has words for some periods: ``100/min``, ``100/90s``."""
    if limit.kind != "token_bucket":
        return _of_calendar(limit)
    seconds = limit.refill_period
    return f"{limit.refill_amount:,}/{_WORDS.get(seconds, f'{seconds}s')}"


def _of_calendar(limit: "Limit") -> str:
    """Return what comes when a window begins: ``250/calendar month from day 15 (UTC)``; ``never`` of a total."""
    if limit.kind == "total":
        return "never"
    first = "" if limit.starts_on == 1 else f" from day {limit.starts_on}"
    window = f"'{limit.window}'" if " " in limit.window else f"calendar {limit.window}"
    return f"{limit.refill_amount:,}/{window}{first} ({limit.timezone})"
