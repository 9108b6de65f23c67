"""What lives here: switches, as processes of their own obey them with their next request.
What never does: every level and every place that names one (core's own tests).
"""

import time
from collections.abc import Iterator

import pytest

from support.core.owners import maintenance_of
from support.integration.asked_processes import AskedProcess, standing_by
from support.integration.harness import Harness
from zae_limiter import Limit, RateLimiter

pytestmark = [pytest.mark.needs("endpoint", "atomic"), pytest.mark.parametrize("variant", ["async"], indirect=True)]

ENTITY, PARENT, RESOURCE = "auth0|123", "acme/x", "/v1/chat#7"
MANY = Limit.per_hour("rpm", 3600)
STALE_SECONDS = 1.0


@pytest.fixture
async def admin(harness: Harness) -> RateLimiter:
    admin = await harness.open()
    await admin.set_resource_defaults(RESOURCE, [MANY])
    await admin.create_entity(PARENT)
    await admin.create_entity(ENTITY, parent_id=PARENT, cascade=True)
    return admin


@pytest.fixture(scope="module")
def pair() -> Iterator[list[AskedProcess]]:
    with standing_by(2) as processes:
        yield processes


@pytest.fixture
def two(harness: Harness, admin: RateLimiter, pair: list[AskedProcess]) -> list[AskedProcess]:
    """Two processes at work: both have read the limits, and seen the buckets."""
    for each in pair:
        each.open(harness.target.endpoint_url or "", harness.table_name)
    assert all(each.passes(ENTITY, RESOURCE) for each in pair * 2)
    return pair


@pytest.mark.parametrize("who", [ENTITY, PARENT])
async def test_who_is_disabled_is_refused_at_once_and_let_in_within_a_second(
    admin: RateLimiter, two: list[AskedProcess], who: str
) -> None:
    assert await admin.repository.set_switches(who, disabled=True, reason="unpaid") == 1
    assert not any(each.passes(ENTITY, RESOURCE) for each in two * 2)
    assert await admin.repository.set_switches(who, disabled=None) == 1
    time.sleep(STALE_SECONDS)  # noqa: ASYNC251 - for the other processes
    assert all(each.passes(ENTITY, RESOURCE) for each in two)


async def test_a_resource_is_disabled_at_once_when_its_buckets_are_told(
    admin: RateLimiter, two: list[AskedProcess]
) -> None:
    await admin.set_limits(ENTITY, [MANY], RESOURCE)
    await admin.repository.set_resource_switches(RESOURCE, disabled=True)
    assert (
        await maintenance_of(admin.repository).invalidate_live_buckets(RESOURCE, for_switches=True)
    ).invalidated == 2
    assert not any(each.passes(ENTITY, RESOURCE) for each in two)


@pytest.mark.long(keep=1)
async def test_the_path_changes_with_the_next_request(admin: RateLimiter, two: list[AskedProcess]) -> None:
    async def drawn_on() -> int:
        bucket = await admin.repository.get_bucket(PARENT, RESOURCE)
        assert bucket is not None
        return bucket.limits[0].consumed

    assert await drawn_on() == 4
    assert await admin.repository.set_switches(ENTITY, RESOURCE, cascade="off") == 1
    assert all(each.passes(ENTITY, RESOURCE) for each in two)
    assert await drawn_on() == 4
    assert await admin.repository.set_switches(ENTITY, RESOURCE, cascade="on") == 1
    assert all(each.passes(ENTITY, RESOURCE) for each in two)
    assert await drawn_on() == 6
