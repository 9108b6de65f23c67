"""The burst: every call takes its tokens first, and waits as long as the limiter says."""

import asyncio
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Final

from zae_limiter import RateLimiter, RateLimitExceeded

from .events import Event, State
from .scenario import CALLERS, Caller, EffectiveLimits

LONGEST_WAIT_SECONDS: Final = 6.5
MODEL_SECONDS: Final = 0.3


@dataclass(frozen=True, slots=True)
class Burst:
    """All calls at once, and the state of each; ``report`` gets every change."""

    limiter: RateLimiter
    resource: str
    effective_limits: Mapping[str, EffectiveLimits]
    report: Callable[[Event], None]
    begun: float

    @classmethod
    def of(
        cls,
        limiter: RateLimiter,
        resource: str,
        effective_limits: Iterable[EffectiveLimits],
        report: Callable[[Event], None],
    ) -> "Burst":
        """Return a burst that begins now."""
        by_caller = {effective.entity_id: effective for effective in effective_limits}
        return cls(limiter, resource, by_caller, report, time.monotonic())

    @property
    def now(self) -> float:
        """Seconds since the burst began."""
        return time.monotonic() - self.begun

    async def run(self) -> None:
        """Make every call, and return when the last one has its answer or has given up."""
        async with asyncio.TaskGroup() as calls:
            for caller, number in _in_any_order():
                calls.create_task(self._call(caller, number))

    async def _call(self, caller: Caller, number: int) -> None:
        begun = self.now
        event = Event(caller.entity_id, number, "calling")
        while True:
            try:
                await self._attempt(caller, event)
            except RateLimitExceeded as refusal:
                wait = refusal.retry_after_seconds
                waits = self.now + wait <= LONGEST_WAIT_SECONDS
                short = _short(caller, refusal)
                self._report(event, state="waiting" if waits else "refused", wait=wait, short=short)
            else:
                return
            if not waits:
                return
            await asyncio.sleep(wait)
            event = replace(event, waited=self.now - begun)

    async def _attempt(self, caller: Caller, event: Event) -> None:
        consume = self.effective_limits[caller.entity_id].consume(caller.tokens)
        async with self.limiter.acquire(caller.entity_id, self.resource, consume) as lease:
            self._report(event, state="uncounted" if lease.degraded else "admitted")
            await asyncio.sleep(MODEL_SECONDS)

    def _report(self, event: Event, *, state: State, wait: float = 0, short: str = "") -> None:
        self.report(replace(event, at=self.now, state=state, wait=wait, short=short))


def _in_any_order() -> list[tuple[Caller, int]]:
    order = [(caller, number) for caller in CALLERS for number in range(caller.calls)]
    random.Random(4).shuffle(order)  # the same in every run
    return order


def _short(caller: Caller, refusal: RateLimitExceeded) -> str:
    worst = refusal.primary_violation
    return worst.limit_name if worst.entity_id == caller.entity_id else f"{worst.entity_id}'s {worst.limit_name}"
