"""Write rates as the texts of limits have them, and know the periods of the short notation of `--limit`."""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zae_limiter import Limit

PERIODS: Final[Mapping[str, int]] = {"sec": 1, "min": 60, "hour": 3600, "day": 86400}


def rate(limit: "Limit") -> str:
    """Return how the tokens of a limit come back: ``100/min``, ``250/month UTC``, ``5 per hour from first use``."""
    from zae_limiter.values.limit_text import write_count, write_refill

    if limit.kind == "total":
        return f"never (expires {write_count(limit.expires)} after its last use)" if limit.expires else "never"
    if limit.kind == "concurrent":
        return f"when freed (lost after {limit.expires} s)"
    return write_refill({each.name: getattr(limit, each.name) for each in fields(limit)})
