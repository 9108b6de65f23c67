"""Sync calls in memory: acquires, and what may follow one.

Lives here: warm calls, the best of several runs. Never: a network.
"""

from collections.abc import Callable
from timeit import timeit

from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository

from .measure import pin_client
from .report import Row

CALLS = 3_000
ROUNDS = 15
RESOURCE = "gpt-4"
ONE, TWO = {"rpm": 1}, {"rpm": 1, "tpm": 500}


def measure() -> list[Row]:
    pin_client()
    limiter = SyncRateLimiter(SyncRepository.in_memory())
    limits = [Limit.per_day("rpm", 10**9), Limit.per_day("tpm", 10**12)]
    limiter.set_resource_defaults("one", limits[:1])
    limiter.set_resource_defaults(RESOURCE, limits)
    limiter.create_entity("project")
    limiter.create_entity("key", parent_id="project", cascade=True)

    def acquire_one() -> None:
        with limiter.acquire("user", "one", ONE):
            pass

    def acquire() -> None:
        with limiter.acquire("user", RESOURCE, TWO):
            pass

    def cascade() -> None:
        with limiter.acquire("key", RESOURCE, TWO):
            pass

    def statuses() -> None:
        with limiter.acquire("user", RESOURCE, TWO) as lease:
            lease.statuses  # noqa: B018 - it computes them

    def correct() -> None:
        with limiter.acquire("user", RESOURCE, TWO) as lease:
            lease.adjust(tpm=-100)

    def refusal() -> None:
        try:
            with limiter.acquire("another", RESOURCE, {"rpm": 10**9}):
                raise RuntimeError("a limit that is short admitted")
        except RateLimitExceeded:
            return

    with limiter.acquire("another", RESOURCE, {"rpm": 10**6}):
        pass
    taken = _best({each.__name__: each for each in (acquire_one, acquire, cascade, statuses, correct, refusal)})
    return [
        Row("an acquire of one limit", taken["acquire_one"], "us", at_most=6),
        Row("an acquire of two limits", taken["acquire"], "us", at_most=10),
        Row("an acquire of two limits, of child and parent", taken["cascade"], "us"),
        Row("an acquire of two limits, and its statuses", taken["statuses"], "us"),
        Row("an acquire of two limits, and a correction", taken["correct"], "us"),
        Row("a refusal", taken["refusal"], "us"),
    ]


def _best(calls: dict[str, Callable[[], None]]) -> dict[str, float]:
    """Microseconds of each call, in the best of several rounds that take turns."""
    best = dict.fromkeys(calls, float("inf"))
    for _ in range(ROUNDS):
        for name, call in calls.items():
            best[name] = min(best[name], timeit(call, number=CALLS) / CALLS * 1e6)
    return best
