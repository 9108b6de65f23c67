"""An acquire of one limit in memory, beside what other libraries take for one, for orientation.

Lives here: each library as its documentation says, none of them over a network. Never: a target.
"""

from collections.abc import Callable
from timeit import timeit

from .measure import pin_client
from .report import Row

CALLS = 2_000
ROUNDS = 9
MANY = 10**9


def measure() -> list[Row]:
    pin_client()
    libraries = {
        "zae-limiter, in memory": zae_limiter(),
        "limits, fixed window": limits(),
        "throttled-py, token bucket": throttled(),
        "pyrate-limiter, token bucket": pyrate_limiter(),
    }
    best = dict.fromkeys(libraries, float("inf"))
    for _ in range(ROUNDS):
        for name, acquire in libraries.items():
            best[name] = min(best[name], timeit(acquire, number=CALLS))
    return [Row(f"{name}: an acquire", seconds / CALLS * 1e6, "us") for name, seconds in best.items()]


def zae_limiter() -> Callable[[], object]:
    """A token bucket, whose tokens come back if the block fails."""
    from zae_limiter import Limit, SyncRateLimiter, SyncRepository

    limiter = SyncRateLimiter(SyncRepository.in_memory())
    limiter.set_resource_defaults("api", [Limit.per_minute("rpm", MANY)])

    def acquire() -> None:
        with limiter.acquire("user", "api", {"rpm": 1}):
            pass

    return acquire


def limits() -> Callable[[], object]:
    """A counter for each window of time."""
    from limits import RateLimitItemPerMinute, storage, strategies

    limiter = strategies.FixedWindowRateLimiter(storage.MemoryStorage())
    rate = RateLimitItemPerMinute(MANY)
    return lambda: limiter.hit(rate, "user")


def throttled() -> Callable[[], object]:
    """A token bucket."""
    from throttled import RateLimiterType, Throttled, per_min, store

    limiter = Throttled(
        key="user", using=RateLimiterType.TOKEN_BUCKET.value, quota=per_min(MANY, burst=MANY), store=store.MemoryStore()
    )
    acquire: Callable[[], object] = limiter.limit
    return acquire


def pyrate_limiter() -> Callable[[], object]:
    """A token bucket."""
    from pyrate_limiter import Duration, Limiter, Rate, StateBucket, TokenBucket

    limiter = Limiter(StateBucket([Rate(MANY, Duration.MINUTE)], algorithm=TokenBucket()))
    return lambda: limiter.try_acquire("user", blocking=False)
