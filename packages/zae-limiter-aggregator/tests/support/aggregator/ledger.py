"""What callers know that they consumed, and random courses of their calls.

Lives here: how calls are drawn and entered. Never: how their stream is delivered.
"""

from collections import Counter
from contextlib import suppress
from datetime import datetime
from typing import Any

from hypothesis import strategies as st

from zae_limiter.values.usage import UsageSnapshot, Window, window_start

from .lives import Life

RESOURCES = ("gpt-4", "openai/o1")


class Ledger:
    """The amounts that callers know they consumed."""

    def __init__(self) -> None:
        self.tokens: Counter[tuple[str, str, Window, datetime, str]] = Counter()
        self.events: Counter[tuple[str, str, Window, datetime]] = Counter()

    def enter(self, life: Life, entity: str, resource: str, tokens: int, events: int) -> None:
        windows: tuple[Window, Window] = ("hourly", "daily")
        for window in windows:
            place = (entity, resource, window, window_start(window, life.clock.now_ms()))
            self.tokens[*place, "tpm"] += tokens
            self.events[place] += events

    def agree_with(self, life: Life) -> None:
        found: list[UsageSnapshot] = []
        for entity in ("parent", "child", "other"):
            found += life.usage(entity) + life.usage(entity, "daily")
        events = {(s.entity_id, s.resource, s.window, s.window_start): s.total_events for s in found}
        tokens = {
            (s.entity_id, s.resource, s.window, s.window_start, limit): amount
            for s in found
            for limit, amount in s.consumed.items()
        }
        assert no_zeros(events) == no_zeros(self.events)
        assert no_zeros(tokens) == no_zeros(self.tokens)


def no_zeros(counts: dict[Any, int]) -> dict[Any, int]:
    return {place: amount for place, amount in counts.items() if amount}


class Failed(Exception):
    """Raised in a lease's body."""


leases = st.tuples(
    st.sampled_from(["child", "other", "parent"]),
    st.sampled_from(RESOURCES),
    st.integers(1, 9),
    st.integers(-1, 9),
    st.sampled_from([0, 0, 1, 700]),
    st.booleans(),
)
pauses = st.sampled_from([0, 1, 300, 3700])


def live(life: Life, ledger: Ledger, deeds: list[Any]) -> None:
    for entity, resource, amount, adjustment, seconds, fails in deeds:
        whose = ("child", "parent") if entity == "child" else (entity,)
        correction = -amount if fails else adjustment
        with suppress(Failed), life.limiter.acquire(entity, resource, {"tpm": amount}) as lease:
            for each in whose:
                ledger.enter(life, each, resource, amount, 1)
            life.clock.advance(seconds)
            if fails:
                raise Failed
            lease.adjust(tpm=adjustment)
        for each in whose:
            ledger.enter(life, each, resource, correction, -1 if fails else 0)
