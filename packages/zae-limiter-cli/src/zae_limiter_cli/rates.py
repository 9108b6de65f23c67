"""Write rates as the texts of limits have them, and know the periods of the short notation of `--limit`."""

from collections.abc import Mapping
from dataclasses import fields
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from zae_limiter import Limit

PERIODS: Final[Mapping[str, int]] = {"sec": 1, "min": 60, "hour": 3600, "day": 86400}


def amount(tokens: float, unit: str) -> str:
    """Return tokens for people: ``1,500``; those of money as ``$1,234.50``."""
    if not unit:
        return f"{tokens:,}"
    from zae_limiter.values.money import show_amount

    return show_amount(round(tokens), unit)


def about(tokens: float, unit: str) -> str:
    """Return an estimate for people: whole tokens, or money to the cent, of less than a cent to a hundredth of it."""
    step = 1 if not unit else 10_000 if abs(tokens) >= 10_000 else 100
    return amount(round(tokens / step) * step, unit)


def in_money(unit: str, **amounts: float) -> dict[str, dict[str, str]]:
    """Return what a JSON document has beside the millionths of a limit of money: the amounts for people."""
    return {"money": {name: amount(each, unit) for name, each in amounts.items()}} if unit else {}


def rate(limit: "Limit") -> str:
    """Return how the tokens of a limit come back: ``100/min``, ``250/month UTC``, ``5 per hour from first use``."""
    from zae_limiter.values.limit_text import write_count, write_refill

    if limit.kind == "total":
        return f"never (expires {write_count(limit.expires)} after its last use)" if limit.expires else "never"
    if limit.kind == "concurrent":
        return f"when freed (lost after {limit.expires} s)"
    return write_refill({each.name: getattr(limit, each.name) for each in fields(limit)})
