"""What lives here: the write units that observers are told, by the store's own count.
What never does: the other parts of an event (core's test_observers).
"""

import uuid

import pytest

from support.integration.targets import Target
from zae_limiter import Limit, RateLimiter, Repository, SyncRateLimiter, SyncRepository
from zae_limiter.observers import Event

pytestmark = pytest.mark.needs("endpoint", "capacity")

LIMITS = [Limit.per_minute("rpm", 100)]
NEW = 4  # a new bucket has three index entries


def options(target: Target) -> dict[str, object]:
    return {
        "stack": f"observed-{uuid.uuid4().hex[:8]}",
        "region": "us-east-1",
        "endpoint_url": target.endpoint_url,
        "create_table": True,
        "count_units": True,
    }


async def test_a_repository_that_counts_units_tells_what_the_store_wrote(target: Target) -> None:
    seen: list[Event] = []
    repository = await Repository.open(**options(target))  # type: ignore[arg-type]
    async with RateLimiter(repository, default_limits=LIMITS, observers=[seen.append]) as limiter:
        for _ in range(2):
            async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
                await lease.adjust(rpm=1)
    check(seen)


def test_so_does_a_sync_one(target: Target) -> None:
    seen: list[Event] = []
    repository = SyncRepository.open(**options(target))  # type: ignore[arg-type]
    with SyncRateLimiter(repository, default_limits=LIMITS, observers=[seen.append]) as limiter:
        for _ in range(2):
            with limiter.acquire("e", "r", {"rpm": 1}) as lease:
                lease.adjust(rpm=1)
    check(seen)


def check(seen: list[Event]) -> None:
    first, *later = [event.write_units for event in seen]
    assert first > NEW  # opening has registered a namespace
    assert later == [1, 1, 1]
