"""``prefetch`` where it brings nothing: a limit of which no tokens are ever held, and a bucket that is used now and
then, cost what they cost without it.
"""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from support.core.calls import CountedCalls
from zae_limiter import Limit, Options, SyncRateLimiter, SyncRepository
from zae_limiter.engines.memory.store import SyncMemoryStore
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.engines.meter import Meter
from zae_limiter.stores import SyncSQLiteStore
from zae_limiter.testing import ManualClock

HOLDS_NOTHING = {  # what comes within `prefetch`, which a write leaves to others, is all of the usable burst
    "always full": Limit.custom("rps", 1_000, burst=2_000, refill_amount=1_000, refill_period=1),
    "one token": Limit.custom("rps", 1, burst=2, refill_amount=1, refill_period=1),
    "few tokens": Limit.custom("rps", 10, burst=22, refill_amount=10, refill_period=1),
}
HOLDS_SOME = Limit.custom("rps", 1_000, burst=10_000, refill_amount=1_000, refill_period=1)


def shared(clock: ManualClock) -> SyncRepository:
    """A table that other repositories may use as well."""
    return SyncRepository.over(SyncMemoryStore(MemoryTable()), Options(clock=clock))


def own(clock: ManualClock) -> SyncRepository:
    """A table that nobody else uses."""
    return SyncRepository.in_memory(clock=clock)


def calls(
    limit: Limit, prefetch: float, *, every: float = 0.001, opened: Callable[..., SyncRepository] = shared
) -> int:
    """The calls of functions of an acquire, after many others."""
    clock = ManualClock()
    repository = opened(clock)
    repository.set_resource_defaults("r", [replace(limit, prefetch=prefetch)])
    limiter = SyncRateLimiter(repository)

    def one() -> None:
        clock.advance(seconds=every)
        with limiter.acquire("e", "r", {"rps": 1}):
            pass

    for _ in range(20):
        one()
    with CountedCalls() as counted:
        one()
    return counted.number


@pytest.mark.parametrize("name", HOLDS_NOTHING)
def test_a_limit_never_prefetched_costs_nothing_more(name: str) -> None:
    every = 1 / HOLDS_NOTHING[name].capacity
    assert calls(HOLDS_NOTHING[name], 1.0, every=every) == calls(HOLDS_NOTHING[name], 0.0, every=every)


def test_a_bucket_that_is_used_now_and_then_costs_hardly_more() -> None:
    assert calls(HOLDS_SOME, 1.0, every=0.7) <= 1.3 * calls(HOLDS_SOME, 0.0, every=0.7)


def test_few_calls_of_an_own_table_take_no_block() -> None:
    few, none = (calls(HOLDS_SOME, prefetch, every=0.1, opened=own) for prefetch in (1.0, 0.0))
    assert few <= none + 20


def test_few_calls_of_a_file_take_no_block(tmp_path: Path) -> None:
    def requests(prefetch: float) -> int:
        meter = Meter()
        clock, store = ManualClock(), SyncSQLiteStore(tmp_path / f"{prefetch}.db", meter=meter)
        with SyncRepository.over(store, Options(clock=clock)) as repository:
            repository.set_resource_defaults("r", [replace(HOLDS_SOME, prefetch=prefetch)])
            limiter = SyncRateLimiter(repository)
            for _ in range(20):
                clock.advance(seconds=0.1)
                with limiter.acquire("e", "r", {"rps": 1}):
                    pass
        return meter.requests["UpdateItem"]

    assert requests(1.0) == requests(0.0)


def test_a_limit_of_which_tokens_are_held_costs_less() -> None:
    assert calls(HOLDS_SOME, 1.0) < calls(HOLDS_SOME, 0.0) / 2
