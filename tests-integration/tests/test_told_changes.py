"""What lives here: changed limits of an entity, as processes of their own obey them with their next request.
What never does: every kind of change (core's own tests).
"""

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from support.core.owners import maintenance_of
from support.integration.asked_processes import AskedProcess, standing_by
from support.integration.harness import Harness
from zae_limiter import Limit, RateLimiter

pytestmark = [pytest.mark.needs("endpoint", "atomic"), pytest.mark.parametrize("variant", ["async"], indirect=True)]

ENTITY, RESOURCE = "auth0|123", "/v1/chat#7"
MANY, NONE, TWO = (Limit.per_hour("rpm", capacity) for capacity in (3600, 0, 2))


@pytest.fixture
async def admin(harness: Harness) -> RateLimiter:
    admin = await harness.open()
    await admin.set_resource_defaults(RESOURCE, [MANY])
    return admin


@pytest.fixture(scope="module")
def pair() -> Iterator[list[AskedProcess]]:
    with standing_by(2) as processes:
        yield processes


@pytest.fixture
def two(harness: Harness, admin: RateLimiter, pair: list[AskedProcess]) -> list[AskedProcess]:
    """Two processes at work: both have read the limits, and seen the bucket."""
    for each in pair:
        each.open(harness.target.endpoint_url or "", harness.table_name)
    assert all(each.passes(ENTITY, RESOURCE) for each in pair * 2)
    return pair


async def test_a_block_is_obeyed_with_the_next_request(admin: RateLimiter, two: list[AskedProcess]) -> None:
    assert await admin.set_limits(ENTITY, [NONE], RESOURCE) == 1
    assert not any(each.passes(ENTITY, RESOURCE) for each in two * 2)
    assert await admin.delete_limits(ENTITY, RESOURCE) == 1
    deadline = time.monotonic() + 30  # the bucket begins empty, and gets a token a second
    for each in two:
        while not each.passes(ENTITY, RESOURCE):
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)


async def test_a_lowered_limit_is_obeyed_with_the_next_request(admin: RateLimiter, two: list[AskedProcess]) -> None:
    assert await admin.set_limits(ENTITY, [TWO]) == 1
    assert [each.passes(ENTITY, RESOURCE) for each in two * 2] == [True, True, False, False]


async def test_an_override_is_obeyed_with_the_next_request(admin: RateLimiter, two: list[AskedProcess]) -> None:
    until = datetime.now(UTC) + timedelta(hours=2)
    assert await admin.set_limits(ENTITY, [NONE], override_until=until) == 1
    assert not any(each.passes(ENTITY, RESOURCE) for each in two)


async def test_a_resource_is_blocked_with_the_next_request_once_its_buckets_are_told(
    admin: RateLimiter, two: list[AskedProcess]
) -> None:
    await admin.set_resource_defaults(RESOURCE, [NONE])
    assert all(each.passes(ENTITY, RESOURCE) for each in two)  # nobody was told
    assert (await maintenance_of(admin.repository).count_live_buckets(RESOURCE)).writes == 1
    assert (await maintenance_of(admin.repository).invalidate_live_buckets(RESOURCE)).invalidated == 1
    assert not any(each.passes(ENTITY, RESOURCE) for each in two * 2)


@pytest.mark.long(keep=1)
async def test_a_lowered_system_limit_is_obeyed_with_the_next_request_once_its_buckets_are_told(
    admin: RateLimiter, two: list[AskedProcess]
) -> None:
    await admin.set_system_defaults([TWO])
    await admin.delete_resource_defaults(RESOURCE)
    assert (await maintenance_of(admin.repository).invalidate_live_buckets()).invalidated == 1
    assert [each.passes(ENTITY, RESOURCE) for each in two * 2] == [True, True, False, False]
