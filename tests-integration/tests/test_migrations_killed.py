"""What lives here: migrations by processes that die right before any of their writes, while others acquire.
What never does: every order in which two runs meet, every refusal (core's own tests), the command (those of the CLI).
"""

import asyncio
import os
from collections.abc import Iterator
from itertools import count

import pytest

from support.core.owners import maintenance_of
from support.core.rehearsal import REHEARSED, SHORTER, record_item
from support.integration.awaited import Variant
from support.integration.harness import Harness
from support.integration.migrating_processes import migrator
from support.integration.split_processes import Place, Worker, ready, taker
from zae_limiter import Limit, RateLimiter
from zae_limiter.flows.records import migrating
from zae_limiter.maintenance import VersionRecord
from zae_limiter.operations.values import Get, Item, Put, Scan

pytestmark = [pytest.mark.needs("endpoint", "atomic"), pytest.mark.parametrize("variant", ["async"], indirect=True)]

VARIANTS: tuple[Variant, Variant] = ("async", "sync")
TEN_YEARS = 10 * 365 * 24 * 3600
STANDING = Limit.custom("rpm", 1_000_000, refill_amount=1, refill_period=TEN_YEARS)
BUCKETS = 12
HOT = "key-0"
LATE_SECONDS = 0.2  # a request outlives who sent it
EVERY_WRITE = os.environ.get("ZAEL_TEST_EVERY_WRITE") == "1"  # a minute; else a few of them


def place(harness: Harness, variant: Variant = "sync", *, lives: int | None = None) -> Place:
    return Place(harness.target.endpoint_url or "", harness.table_name, variant, lives=lives, split_above=1_000_000)


@pytest.fixture
async def limiter(harness: Harness) -> RateLimiter:
    limiter = await harness.open()
    await limiter.set_resource_defaults("gpt-4", [STANDING])
    for number in range(BUCKETS):
        async with limiter.acquire(f"key-{number}", "gpt-4", {"rpm": 1}):
            pass
    return limiter


@pytest.fixture
def takers(limiter: RateLimiter, harness: Harness) -> Iterator[list[Worker]]:
    """One process of each variant, both on one bucket."""
    with ready(*(Worker(taker, place(harness, variant), seed) for seed, variant in enumerate(VARIANTS))) as workers:
        yield workers


def buckets(harness: Harness) -> list[Item]:
    return [item for item in harness.perform(Scan(1000)).items if item["SK"] == "#STATE"]


def put_back(harness: Harness) -> None:
    """The table as it was before any migration."""
    for item in buckets(harness):
        old = {name: value for name, value in item.items() if name != SHORTER}
        harness.perform(Put({**old, "cascade": False}))
    harness.perform(Put(record_item()))


def is_migrated(harness: Harness) -> bool:
    found = buckets(harness)
    assert [(item.get(SHORTER), "cascade" in item) for item in found] == [(False, False)] * BUCKETS
    assert harness.perform(Get(migrating.KEY)) is None
    return True


def deaths(harness: Harness) -> Iterator[int]:
    yield from count() if EVERY_WRITE else harness.target.quirks.migrator_deaths


def heard(workers: list[Worker]) -> int:
    for worker in workers:
        worker.order("end")
    return sum(worker.fate().admitted for worker in workers)


async def test_no_death_between_two_writes_leaves_an_item_out_or_disturbs_an_acquire(
    harness: Harness, limiter: RateLimiter, takers: list[Worker]
) -> None:
    for lives in deaths(harness):
        put_back(harness)
        before = harness.consumed(HOT, "gpt-4", "rpm")
        mortal, heir = (Worker(migrator, place(harness, lives=each)) for each in (lives, None))
        for worker in (mortal, heir):
            worker.wait_until_ready()
        for worker in takers:
            worker.order(HOT)
        mortal.order("go")
        died = mortal.fate().died
        assert died or EVERY_WRITE
        if died:
            heir.order("go")
            assert not heir.fate().died
        admitted = heard(takers)
        await asyncio.sleep(LATE_SECONDS)
        assert is_migrated(harness), lives
        assert await maintenance_of(limiter.repository).get_version_record() == VersionRecord(3, "0.1.0", "0.1.0")
        assert harness.consumed(HOT, "gpt-4", "rpm") - before == admitted * 1000 > 0
        for worker in (mortal, heir):
            worker.close()
        if not died:
            break


async def test_two_processes_that_migrate_at_once_do_not_disturb_each_other(
    harness: Harness, limiter: RateLimiter, takers: list[Worker]
) -> None:
    put_back(harness)
    before = harness.consumed(HOT, "gpt-4", "rpm")
    both = [Worker(migrator, place(harness)) for _ in range(2)]
    for worker in both:
        worker.wait_until_ready()
    for worker in [*takers, *both]:
        worker.order(HOT)
    finished = [worker.fate() for worker in both]
    admitted = heard(takers)
    assert not any(fate.died for fate in finished)
    assert sum(fate.admitted for fate in finished) >= len(REHEARSED)
    assert is_migrated(harness)
    assert await maintenance_of(limiter.repository).get_version_record() == VersionRecord(3, "0.1.0", "0.1.0")
    assert harness.consumed(HOT, "gpt-4", "rpm") - before == admitted * 1000 > 0
    for worker in both:
        worker.close()
