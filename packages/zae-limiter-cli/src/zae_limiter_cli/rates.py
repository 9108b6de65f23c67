"""Write rates as the texts of limits have them, and know the periods of the short notation of `--limit`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zae_limiter import Limit

PERIODS: Final[Mapping[str, int]] = {"sec": 1, "min": 60, "hour": 3600, "day": 86400}


def rate(limit: "Limit") -> str:
    """Return how the tokens of a limit come back: ``100/min``, ``10k/90s``, ``5 per hour from first use``."""
    from zae_limiter.values.limit_text import write_limit, write_rate

    if limit.kind == "first_use":
        return write_limit({"shadow": False, **limit.rule.to_dict()})
    if limit.kind != "token_bucket":
        return _of_calendar(limit)
    return write_rate(limit.refill_amount, limit.refill_period)


def _of_calendar(limit: "Limit") -> str:
    """Return what comes when a window begins: ``250/calendar month from day 15 (UTC)``; ``never`` of a total."""
    if limit.kind == "total":
        return "never"
    if limit.has_slots:
        return f"when freed (lost after {limit.expires} s)"
    first = "" if limit.starts_on == 1 else f" from day {limit.starts_on}"
    window = f"'{limit.window}'" if " " in limit.window else f"calendar {limit.window}"
    return f"{limit.refill_amount:,}/{window}{first} ({limit.timezone})"
