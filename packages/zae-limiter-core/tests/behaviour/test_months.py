"""A month of simulated time by 50 processes, over a change of the clocks, in every zone: exactly the quota."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from typing import Any
from unittest.mock import patch
from zoneinfo import ZoneInfo, available_timezones

import pytest

from support.core.months import CAPACITY, WrongQuota, begins_of, change_of, months
from support.core.worlds import World
from zae_limiter.rules import calendar, periods
from zae_limiter.rules.balances import ShardLimit
from zae_limiter.rules.calendar import Calendar
from zae_limiter.values import clocks
from zae_limiter.values.clocks import Clocks
from zae_limiter.values.limits import Limit

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


def _second(real: Callable[..., int]) -> Callable[..., int]:
    return lambda self, wall, *, fold: real(self, wall, fold=1 - fold)


def _since_anchor(self: ShardLimit, now_ms: int) -> int:
    """A window counts from the instant of the anchor on, as if each anchor began one."""
    begun = self.minted(now_ms) - self.minted_at_anchor
    return begun + (self.rule.minted(1) if begun else 0) + (begun > 0) * 1000


FAULTS: dict[str, tuple[Any, ...]] = {
    "a boundary minted twice": (patch.object(ShardLimit, "minted_since_anchor", _since_anchor),),
    "the begin of the second of two midnights": (patch.object(Clocks, "_second", _second(Clocks._second)),),
    "a zone that is ignored": (patch.object(clocks, "zone_of", lambda _: ZoneInfo("UTC")),),
    "carry-over kept too long": (
        patch.object(Limit, "ceiling_milli", property(lambda self: 1000 * (self.burst + self.capacity))),
    ),
    "carry-over of a new bucket": (patch.object(Limit, "initial_milli", property(lambda self: 1000 * self.burst)),),
    "an epoch dropped early": (patch.object(Calendar, "longest_ms", lambda *_: 10 * 86_400_000),),
    "quota that comes a quarter of an hour late": (
        patch.object(Calendar, "minted", lambda self, t_ms: self._look(t_ms - 900_000)),
    ),
}


@pytest.fixture
def faulty(fault: str) -> Iterator[None]:
    """Have everything that follows make a mistake."""
    with ExitStack() as faults:
        for each in (clocks.clocks_of, periods.periods_of, calendar.calendar_of):
            each.cache_clear()
            faults.callback(each.cache_clear)
        for each in FAULTS[fault]:
            faults.enter_context(each)
        yield


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.usefixtures("faulty")
async def test_each_fault_is_found(fault: str) -> None:
    with pytest.raises(WrongQuota):
        await _used_up_often()


async def _used_up_often() -> None:
    for seed in range(6):
        await used_up(SOME, 5, carry_over=seed % 2, seed=seed)
