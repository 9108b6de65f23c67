"""Calls with long-tailed outputs against one limit, in virtual time: what a way of reserving refuses and over-runs.

Each call is made at a random instant, reserves, takes as long as its output is long, and settles. A call that is
refused does not come again. A refusal is false if the bucket would have had the tokens that the call really uses, had
every open call reserved what it really uses.
"""

import heapq
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random

from zae_limiter import Estimate, Limit, RateLimitExceeded, SyncLease, SyncRateLimiter, SyncRepository
from zae_limiter.testing import ManualClock

TPM = 100_000
MEDIAN, SIGMA, MOST = 300, 1.2, 8_000  # of the output's lengths, log-normal
TOKENS_A_SECOND = 50
MEAN = 600  # of the lengths, cut off at MOST
Reserve = Callable[[SyncRateLimiter], int | Estimate]

WAYS: dict[str, Reserve] = {
    "the worst case, 8,000": lambda limiter: MOST,
    "the mean, 600": lambda limiter: MEAN,
    "what 50 % of the calls used": lambda limiter: limiter.estimate("m", default=1_000, most=MOST, quantile=0.5),
    "what 75 % of the calls used": lambda limiter: limiter.estimate("m", default=1_000, most=MOST, quantile=0.75),
    "what 90 % of the calls used": lambda limiter: limiter.estimate("m", default=1_000, most=MOST, quantile=0.9),
}


@dataclass
class Outcome:
    """``falsely``: refused although the tokens were there. ``debts``: calls whose settlement left the bucket in debt.

    ``above``: calls that used more than they had reserved. ``used``: what all admitted calls used, in tokens.
    """

    calls: int = 0
    admitted: int = 0
    falsely: int = 0
    above: int = 0
    debts: int = 0
    deepest: int = 0
    used: int = 0


def run(reserve: Reserve, *, load: float, calls: int = 1500, seed: int = 1) -> Outcome:
    """Make calls whose real demand is ``load`` times what the limit gives."""
    chance, play = Random(seed), _Play(reserve)
    for _ in range(calls):
        play.end_until(play.now + chance.expovariate(load * TPM / 60 / MEAN))
        play.begin(min(MOST, max(1, round(chance.lognormvariate(0, SIGMA) * MEDIAN))))
    play.end_until(float("1e9"))
    return play.outcome


class _Play:
    """The calls that are under way; ``beyond`` is what they have reserved beyond what they really use."""

    def __init__(self, reserve: Reserve) -> None:
        self.outcome, self.now = Outcome(), 0.0
        self._reserve, self._clock = reserve, ManualClock()
        limits = [Limit.per_minute("tpm", TPM)]
        self._limiter = SyncRateLimiter(SyncRepository.in_memory(clock=self._clock), default_limits=limits)
        self._open: list[tuple[float, int, int, SyncLease, ExitStack]] = []
        self._beyond = 0

    def begin(self, real: int) -> None:
        found, stack = self.outcome, ExitStack()
        found.calls += 1
        try:
            lease = stack.enter_context(self._limiter.acquire("key", "m", {"tpm": self._reserve(self._limiter)}))
        except RateLimitExceeded as refusal:
            found.falsely += refusal.primary_violation.available + self._beyond >= real
            return
        found.admitted += 1
        found.used += real
        self._beyond += lease.consumed["tpm"] - real
        heapq.heappush(self._open, (self.now + real / TOKENS_A_SECOND, found.calls, real, lease, stack))

    def end_until(self, instant: float) -> None:
        while self._open and self._open[0][0] <= instant:
            end, _, real, lease, stack = heapq.heappop(self._open)
            self._go_to(end)
            self._settle(real, lease, stack)
        self._go_to(instant)

    def _settle(self, real: int, lease: SyncLease, stack: ExitStack) -> None:
        found, reserved = self.outcome, lease.consumed["tpm"]
        self._beyond -= reserved - real
        lease.settle(tpm=real)
        stack.close()
        left = self._limiter.available("key", "m")["tpm"]
        found.above += real > reserved
        found.debts += left < 0
        found.deepest = min(found.deepest, left)

    def _go_to(self, instant: float) -> None:
        self._clock.advance(instant - self.now)
        self.now = instant


def row(name: str, calm: Outcome, crowded: Outcome) -> str:
    """Return the row of the guide's table."""
    cells = (
        name,
        f"{calm.falsely / calm.calls:.1%}",
        f"{calm.debts / calm.admitted:.1%}",
        f"{crowded.falsely / crowded.calls:.1%}",
        f"{crowded.debts / crowded.admitted:.1%}",
        f"{-crowded.deepest:,}",
        f"{crowded.above / crowded.admitted:.0%}",
    )
    return f"| {' | '.join(cells)} |"
