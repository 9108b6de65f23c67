"""Write limits, amounts and durations as text."""

import math
from collections.abc import Sequence

from zae_limiter import Limit

from .events import Event


def limits_in_words(limits: Sequence[Limit]) -> str:
    """Return all limits as text, with commas."""
    return ", ".join(map(str, limits)) or "none"


def seconds(duration: float) -> str:
    """Return a duration as text: ``1.4 s``, or ``50 ms`` if it is short."""
    return f"{duration:.1f} s" if duration >= 0.1 or duration == 0 else f"{duration * 1000:.0f} ms"


def refusal(event: Event) -> str:
    """Return why a call gave up: ``rpm in 12.0 s``."""
    if math.isinf(event.wait):
        return f"more {event.short} than the limit ever holds"
    return f"{event.short} in {seconds(event.wait)}"


def units(amount: float) -> str:
    """Return a number of units as text, without decimals if it is whole."""
    return f"{amount:,.0f}" if amount == int(amount) else f"{amount:,.1f}"


def count(number: int, noun: str) -> str:
    """Return a number with its noun: ``1 call``, ``2 calls``."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"
