"""A month of simulated time by 50 processes, over a change of the clocks, in every zone: exactly the quota."""

from datetime import UTC, datetime
from zoneinfo import available_timezones

import pytest

from support.core.months import CAPACITY, begins_of, change_of, months
from support.core.worlds import World

ZONES = sorted(available_timezones() - {"localtime", "Factory"})
SOME = [
    "Africa/Cairo",
    "America/Havana",
    "America/New_York",
    "America/St_Johns",
    "Asia/Beirut",
    "Asia/Kathmandu",
    "Australia/Lord_Howe",
    "Europe/Berlin",
    "Pacific/Chatham",
    "UTC",
]


async def used_up(zones: list[str], count: int, *, carry_over: int = 0, multiplier: int = 1, seed: int = 0) -> int:
    """Let so many processes use up the quotas of all zones; answers what they got."""
    world = World("async")
    world.clock.advance(ms=round(datetime(2025, 10, 1, tzinfo=UTC).timestamp() * 1000) - world.clock.now_ms())
    processes = [await world.process(bucket_ttl_multiplier=multiplier) for _ in range(count)]
    return await months(world, zones, processes, carry_over=carry_over, seed=seed)


@pytest.mark.long
@pytest.mark.slow
async def test_fifty_processes_get_exactly_the_quota_in_every_zone_over_a_change_of_its_clocks() -> None:
    zones = sorted({(change_of(zone), *begins_of(zone)): zone for zone in ZONES}.values())  # one of those that agree
    admitted = await used_up(zones, 50)
    assert 2 * CAPACITY * len(zones) <= admitted <= 4 * CAPACITY * len(zones)


@pytest.mark.parametrize("carry_over", [0, 1, 3])
async def test_some_zones_have_exactly_the_quota_and_what_may_be_carried_over(carry_over: int) -> None:
    await used_up(SOME, 5, carry_over=carry_over, multiplier=7)
