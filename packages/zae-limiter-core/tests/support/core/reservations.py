"""Calls with long-tailed outputs against one limit, in virtual time: what a way of reserving refuses and over-runs.

Each call is made at a random instant, reserves, takes as long as its output is long, and settles. Calls that are refused
do not come again. A refusal is false if the bucket would have had the tokens that the call really uses, had every open
call reserved what it really uses.
"""

import heapq
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from random import Random
from typing import Any

from zae_limiter import Estimate, Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository
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
    refused: int = 0
    falsely: int = 0
    above: int = 0
    debts: int = 0
    deepest: int = 0
    used: int = 0
    minutes: float = 0.0


def run(reserve: Reserve, *, load: float, calls: int = 1500, seed: int = 1) -> Outcome:
    """Make calls whose real demand is ``load`` times what the limit gives."""
    chance, clock, found = Random(seed), ManualClock(), Outcome(calls=calls)
    limit = Limit.per_minute("tpm", TPM)
    limiter = SyncRateLimiter(SyncRepository.in_memory(clock=clock), default_limits=[limit])
    open_calls: list[tuple[float, int, int, Any, ExitStack]] = []
    beyond, now = 0, 0.0  # what open calls have reserved beyond what they really use

    def end_until(instant: float) -> None:
        nonlocal beyond, now
        while open_calls and open_calls[0][0] <= instant:
            end, _, real, lease, stack = heapq.heappop(open_calls)
            clock.advance(end - now)
            now = end
            reserved = lease.consumed["tpm"]
            beyond -= reserved - real
            lease.settle(tpm=real)
            stack.close()
            left = limiter.available("key", "m")["tpm"]
            found.above += real > reserved
            found.debts += left < 0
            found.deepest = min(found.deepest, left)
        clock.advance(instant - now)
        now = instant

    for number in range(calls):
        end_until(now + chance.expovariate(load * TPM / 60 / MEAN))
        real = min(MOST, max(1, round(chance.lognormvariate(0, SIGMA) * MEDIAN)))
        stack = ExitStack()
        try:
            lease = stack.enter_context(limiter.acquire("key", "m", {"tpm": reserve(limiter)}))
        except RateLimitExceeded as refusal:
            found.refused += 1
            found.falsely += refusal.primary_violation.available + beyond >= real
            continue
        found.admitted += 1
        found.used += real
        beyond += lease.consumed["tpm"] - real
        heapq.heappush(open_calls, (now + real / TOKENS_A_SECOND, number, real, lease, stack))
    found.minutes = now / 60
    end_until(float("1e9"))
    return found


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
