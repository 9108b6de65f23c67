"""A sync acquire in memory.

Lives here: two limits, warm, the best of several runs. Never: a network.
"""

from timeit import repeat

from zae_limiter import Limit, SyncRateLimiter, SyncRepository

from .measure import pin_client
from .report import Row

CALLS = 5_000
ROUNDS = 15


def measure() -> list[Row]:
    pin_client()
    limiter = SyncRateLimiter(SyncRepository.in_memory())
    limiter.set_resource_defaults("gpt-4", [Limit.per_day("rpm", 10**9), Limit.per_day("tpm", 10**12)])

    def acquire() -> None:
        with limiter.acquire("user", "gpt-4", {"rpm": 1, "tpm": 500}):
            pass

    best = min(repeat(acquire, number=CALLS, repeat=ROUNDS)) / CALLS
    return [Row("an acquire of two limits", best * 1e6, "us", at_most=10)]
