"""Sync calls in memory: acquires, and what may follow one, beside what other libraries take for an acquire.

Lives here: ours, and each library as its documentation says; CPU of rounds that take turns. Never: a network.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import count

from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository

from .measure import Taken, compared, pin_client
from .report import Row, microseconds, ratio

CALLS = 2_000
NEW = 500  # entities of a round
MANY = 10**9
# So large that they never run out, and refill so slowly that a bucket that was used is never full again.
RPD, TPD = Limit.per_day("rpd", 10**7), Limit.per_day("tpd", 10**10)
USED_UP = Limit.per_day("rpd", 1)
PREFETCH_SECONDS = 60.0
ONE, TWO = {"rpd": 1}, {"rpd": 1, "tpd": 500}

Call = Callable[[], object]


def measure() -> list[Row]:
    pin_client()
    taken = compared({**_ours(), **_theirs()}, CALLS)
    first = _first_acquires()
    theirs = {name: each for name, each in taken.items() if "," in name}
    return [
        microseconds("an acquire of one limit", taken["one"], at_most=5),
        microseconds("an acquire of two limits", taken["two"], at_most=6),
        microseconds("an acquire of two limits, of child and parent", taken["cascade"]),
        microseconds("an acquire of two limits, and its statuses", taken["statuses"]),
        microseconds("an acquire of two limits, and a correction", taken["corrected"]),
        microseconds("a refusal", taken["refused"]),
        ratio("a refusal / an acquire of one limit", taken["refused"], taken["one"], at_most=1),
        microseconds("an acquire of two limits that are prefetched", taken["held"], at_most=4),
        ratio("the same / without prefetch", taken["held"], taken["two"], at_most=1),
        ratio("a limit that is never held, with prefetch / without", taken["in-vain"], taken["one"], at_most=1.1),
        microseconds("the first acquire of an entity", first["ours"], at_most=80),
        *(microseconds(name, each) for name, each in theirs.items()),
        microseconds("limits, fixed window: the first acquire of an entity", first["limits"]),
        ratio("an acquire of one limit / that of limits", taken["one"], taken[LIMITS], at_most=2),
    ]


def _ours() -> dict[str, Call]:
    limiter = SyncRateLimiter(SyncRepository.in_memory())
    held = [replace(limit, prefetch=PREFETCH_SECONDS) for limit in (RPD, TPD)]
    in_vain = Limit.custom("rpd", MANY, burst=2 * MANY, refill_amount=MANY, refill_period=1, prefetch=1)
    resources = {"one": [RPD], "two": [RPD, TPD], "used-up": [USED_UP], "held": held, "in-vain": [in_vain]}
    for resource, limits in resources.items():
        limiter.set_resource_defaults(resource, limits)
    limiter.create_entity("project")
    limiter.create_entity("key", parent_id="project", cascade=True)

    def acquire(resource: str, consume: dict[str, int], entity_id: str = "user") -> Call:
        def call() -> None:
            with limiter.acquire(entity_id, resource, consume):
                pass

        return call

    def statuses() -> None:
        with limiter.acquire("user", "two", TWO) as lease:
            lease.statuses  # noqa: B018 - it computes them

    def corrected() -> None:
        with limiter.acquire("user", "two", TWO) as lease:
            lease.adjust(tpd=-100)

    def refused() -> None:
        try:
            acquire_used_up()
        except RateLimitExceeded:
            return
        raise RuntimeError("a limit that is used up admitted")

    acquire_used_up = acquire("used-up", ONE)
    acquire_used_up()
    return {
        "one": acquire("one", ONE),
        "two": acquire("two", TWO),
        "cascade": acquire("two", TWO, "key"),
        "statuses": statuses,
        "corrected": corrected,
        "refused": refused,
        "held": acquire("held", TWO),
        "in-vain": acquire("in-vain", ONE),
    }


LIMITS = "limits, fixed window: an acquire"


def _theirs() -> dict[str, Call]:
    """A call of each library, of one limit: ours gives the tokens back if its block fails, theirs do not."""
    import throttled
    from pyrate_limiter import Duration, Limiter, Rate, StateBucket, TokenBucket

    from limits import RateLimitItemPerDay, storage, strategies

    window, many, one = strategies.FixedWindowRateLimiter(storage.MemoryStorage()), RateLimitItemPerDay(MANY), USED_UP
    used_up = RateLimitItemPerDay(one.capacity)
    window.hit(used_up, "user")
    using, store = throttled.RateLimiterType.TOKEN_BUCKET.value, throttled.store.MemoryStore()
    bucket = throttled.Throttled(key="user", using=using, quota=throttled.per_day(MANY, burst=MANY), store=store)
    empty = throttled.Throttled(key="other", using=using, quota=throttled.per_day(1, burst=1), store=store)
    empty.limit()
    pyrate = Limiter(StateBucket([Rate(MANY, Duration.DAY)], algorithm=TokenBucket()))
    return {
        LIMITS: lambda: window.hit(many, "user"),
        "limits, fixed window: a refusal": lambda: window.hit(used_up, "user"),
        "throttled-py, token bucket: an acquire": bucket.limit,
        "throttled-py, token bucket: a refusal": empty.limit,
        "pyrate-limiter, token bucket: an acquire": lambda: pyrate.try_acquire("user", blocking=False),
    }


def _first_acquires() -> dict[str, Taken]:
    """The first acquire of an entity, of a table with few others."""
    from limits import RateLimitItemPerDay, storage, strategies

    limiter = SyncRateLimiter(SyncRepository.in_memory())
    limiter.set_resource_defaults("one", [RPD])
    window, rate = strategies.FixedWindowRateLimiter(storage.MemoryStorage()), RateLimitItemPerDay(MANY)
    ids, theirs = _ids(), _ids()

    def ours() -> None:
        with limiter.acquire(next(ids), "one", ONE):
            pass

    return compared({"ours": ours, "limits": lambda: window.hit(rate, next(theirs))}, NEW)


def _ids() -> Iterator[str]:
    return (f"entity-{number}" for number in count())
