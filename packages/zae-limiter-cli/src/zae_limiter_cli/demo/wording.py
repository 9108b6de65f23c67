"""Limits, amounts and durations as text."""

import math
from collections.abc import Sequence
from typing import Final

from zae_limiter import Limit

from .events import Event

_PERIODS: Final = {1: "s", 60: "min", 3600: "h", 86400: "day"}


def limit_in_words(limit: Limit) -> str:
    """``rpm 20/min (burst 25)``."""
    period = _PERIODS.get(limit.refill_period, f"{limit.refill_period} s")
    burst = f" (burst {limit.burst:,})" if limit.burst != limit.refill_amount else ""
    return f"{limit.name} {limit.refill_amount:,}/{period}{burst}"


def limits_in_words(limits: Sequence[Limit]) -> str:
    """All of them, with commas."""
    return ", ".join(map(limit_in_words, limits)) or "none"


def seconds(duration: float) -> str:
    """``1.4 s``, and ``50 ms`` where that is more to the point."""
    return f"{duration:.1f} s" if duration >= 0.1 or duration == 0 else f"{duration * 1000:.0f} ms"


def refusal(event: Event) -> str:
    """Why a call gave up: ``rpm in 12.0 s``."""
    if math.isinf(event.wait):
        return f"more {event.short} than the limit ever holds"
    return f"{event.short} in {seconds(event.wait)}"


def units(amount: float) -> str:
    """A number of units: whole where it is whole."""
    return f"{amount:,.0f}" if amount == int(amount) else f"{amount:,.1f}"


def count(number: int, noun: str) -> str:
    """``1 call``, ``2 calls``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
