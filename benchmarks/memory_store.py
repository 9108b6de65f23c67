"""Sync calls in memory: acquires, and what may follow one.

Lives here: warm calls, the best of several runs. Never: a network.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from timeit import timeit

from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter.flows.acquire.ahead import grant_ahead
from zae_limiter.flows.acquire.requests import validate_request

from .measure import pin_client
from .report import Row

CALLS = 3_000
ROUNDS = 15
RESOURCE, HELD = "gpt-4", "held"
AHEAD_SECONDS = 60.0
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
    taken = _best((acquire_one, acquire, cascade, statuses, correct, refusal, *_of_held(limiter, limits)))
    return [
        Row("an acquire of one limit", taken["acquire_one"], "us", at_most=6),
        Row("an acquire of two limits", taken["acquire"], "us", at_most=10),
        Row("an acquire of two limits, of child and parent", taken["cascade"], "us"),
        Row("an acquire of two limits, and its statuses", taken["statuses"], "us"),
        Row("an acquire of two limits, and a correction", taken["correct"], "us"),
        Row("a refusal", taken["refusal"], "us"),
        Row("an acquire of two limits that are held ahead", taken["held"], "us", at_most=5),
        Row("of that: the check of its arguments", taken["held_check"], "us"),
        Row("of that: its tokens", taken["held_take"], "us"),
    ]


def _of_held(limiter: SyncRateLimiter, limits: Sequence[Limit]) -> tuple[Callable[[], None], ...]:
    """An acquire of limits that are held ahead, and two of its parts."""
    limiter.set_resource_defaults(HELD, [replace(limit, ahead=AHEAD_SECONDS) for limit in limits])
    request = validate_request("user", HELD, TWO)

    def held() -> None:
        with limiter.acquire("user", HELD, TWO):
            pass

    def held_check() -> None:
        validate_request("user", HELD, TWO)

    def held_take() -> None:
        if grant_ahead(limiter.namespace_state, request, limiter.driver.post) is None:
            raise RuntimeError("nothing is held ahead")

    for _ in range(CALLS):  # until the pace is known
        held()
    return held, held_check, held_take


def _best(calls: Sequence[Callable[[], None]]) -> dict[str, float]:
    """Microseconds of each call by its name, in the best of several rounds that take turns."""
    best = {call.__name__: float("inf") for call in calls}
    for _ in range(ROUNDS):
        for call in calls:
            best[call.__name__] = min(best[call.__name__], timeit(call, number=CALLS) / CALLS * 1e6)
    return best
