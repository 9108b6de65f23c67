"""A bucket that is anchored anew is the same bucket."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.flows.steps import play
from zae_limiter.maintenance import reanchor
from zae_limiter.operations.values import Conditions, Get, Key, Put, Update
from zae_limiter.rules.balances import refill_bucket
from zae_limiter.schema.attributes import bucket_attributes
from zae_limiter.schema.items import BucketId, read_bucket, rule_attributes
from zae_limiter.values.limits import Limit

START = 1_700_000_000_000
HOUR = 3_600_000

limits = st.builds(
    lambda name, capacity, more, amount, period: Limit(name, capacity, capacity + more, amount, period),
    st.just("l"),
    st.integers(1, 10_000),
    st.integers(0, 1_000),
    st.integers(1, 10_000),
    st.integers(1, 10**8),
)
several = st.lists(limits, min_size=1, max_size=3).map(
    lambda found: [
        Limit(f"l{n}", each.capacity, each.burst, each.refill_amount, each.refill_period)
        for n, each in enumerate(found)
    ]
)
shards = st.sampled_from([(0, 1), (0, 2), (1, 2), (5, 64), (63, 64)])
balances = st.integers(-(10**9), 10**9)


def bucket(limits: list[Limit], shard: tuple[int, int], tokens: list[int]) -> dict[str, Any]:
    place = BucketId("ns", "e", "r", shard[0])
    item = {**place.attributes(), "shard_count": shard[1], "cascade": False, "ev": 3, "rf": START, "cv": START - 5}
    for limit, balance in zip(limits, tokens, strict=False):
        at = bucket_attributes(limit.name)
        item |= {at.tokens: balance, at.consumed: 7000, **rule_attributes(limit)}
    return {**item, "b_wcu_tc": 9000, "ttl": 12345}


def stored(item: dict[str, Any]) -> MemoryTable:
    table = MemoryTable()
    table.execute(Put(item))
    return table


def state(table: MemoryTable, item: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = table.execute(Get(Key(item["PK"], item["SK"])))
    return found


@given(
    several,
    shards,
    st.lists(balances, min_size=3, max_size=3),
    st.integers(0, 10**10),
    st.lists(st.integers(-HOUR, 10**11)),
)
def test_any_process_finds_the_same_available_at_every_instant(
    limits: list[Limit], shard: tuple[int, int], tokens: list[int], later: int, instants: list[int]
) -> None:
    before = bucket(limits, shard, tokens)
    table = stored(before)
    assert play(reanchor(before, START + later), table.execute)
    old, new = read_bucket(before), read_bucket(state(table, before))
    assert new.anchor_ms == START + later
    for limit in limits:
        for now in (START, START + later, *(START + instant for instant in instants)):
            was = refill_bucket(old.shard_limits[limit.name], old.tokens_milli(limit.name), now)
            assert refill_bucket(new.shard_limits[limit.name], new.tokens_milli(limit.name), now) == was


RPM = Limit.per_minute("rpm", 60)


def test_what_was_consumed_since_the_image_stays_consumed() -> None:
    image = bucket([RPM], (0, 1), [60_000])
    table = stored(image)
    table.execute(Update(Key(image["PK"], image["SK"]), add={"b_rpm_tk": -5000, "b_rpm_tc": 5000}))
    assert play(reanchor(image, START + HOUR), table.execute)
    assert state(table, image)["b_rpm_tk"] == 55_000 + 3600 * 1000


def test_nothing_but_balances_anchor_and_the_count_of_writes_changes() -> None:
    image = bucket([RPM], (0, 1), [60_000])
    table = stored(image)
    play(reanchor(image, START + HOUR), table.execute)
    changed = {"b_rpm_tk": 60_000 + 3600 * 1000, "rf": START + HOUR, "b_wcu_tc": 10_000}
    assert state(table, image) == {**image, **changed}


@pytest.mark.parametrize("other", [START + 1, START - 1])
def test_an_anchor_that_others_moved_is_left_alone(other: int) -> None:
    image = bucket([RPM], (0, 1), [60_000])
    table = stored({**image, "rf": other})
    assert not play(reanchor(image, START + HOUR), table.execute)
    assert state(table, image) == {**image, "rf": other}


def test_a_bucket_that_expired_is_not_made_again() -> None:
    image = bucket([RPM], (0, 1), [60_000])
    table = MemoryTable()
    assert not play(reanchor(image, START + HOUR), table.execute)
    assert table.execute(Get(Key(image["PK"], image["SK"]))) is None


def test_a_write_that_was_decided_before_fails_once() -> None:
    image = bucket([RPM], (0, 1), [60_000])
    table = stored(image)
    play(reanchor(image, START + HOUR), table.execute)
    assert not play(reanchor(image, START + HOUR), table.execute)
    seen = Conditions(equals={"rf": START + HOUR})
    assert table.execute(Update(Key(image["PK"], image["SK"]), add={"b_rpm_tk": -1000}, when=seen))
