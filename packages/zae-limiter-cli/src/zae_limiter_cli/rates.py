"""Write rates in the notation of the command line."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zae_limiter import Limit

PERIODS: Final[Mapping[str, int]] = {"sec": 1, "min": 60, "hour": 3600, "day": 86400}

_WORDS: Final = {seconds: word for word, seconds in PERIODS.items()}


def rate(limit: "Limit") -> str:
    """Return a rate as on the command line, which has words for some periods: ``100/min``, ``100/90s``."""
    seconds = limit.refill_period
    return f"{limit.refill_amount:,}/{_WORDS.get(seconds, f'{seconds}s')}"
