import re
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter.operations.errors import Unreadable
from zae_limiter.operations.sizes import item_size, write_units
from zae_limiter.rules.balances import ShardLimit
from zae_limiter.schema import keys
from zae_limiter.schema.attributes import BELOW, COUNTERS, REFUSED_BELOW, UNCOUNTED, bucket_attributes
from zae_limiter.schema.configs import Row, config_attributes
from zae_limiter.schema.entities import entity_item, read_entity
from zae_limiter.schema.items import (
    WRITES,
    BucketId,
    LimitBalance,
    bucket_item,
    new_state,
    read_bucket,
    rule_attributes,
)
from zae_limiter.schema.registry import namespace_items
from zae_limiter.values.entities import Entity
from zae_limiter.values.limits import MILLI, Limit
from zae_limiter.values.naming import RESERVED_LIMIT_NAMES

NOW = 1_700_000_000_000
PAGE = Path(__file__).parents[5] / "docs" / "limiter.md"
EVERYDAY = [name for name in COUNTERS if name not in {UNCOUNTED, BELOW, REFUSED_BELOW}]
EVERY_ITEM = int(
    re.findall(r"^ *\| every item, .*\| about (\d+) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)[0]
)
NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_\-.]{0,63}", fullmatch=True).filter(
    lambda name: name not in RESERVED_LIMIT_NAMES
)


@st.composite
def limit_sets(draw: st.DrawFn) -> tuple[Limit, ...]:
    whole = st.integers(1, 10**15)
    limits = []
    for name in draw(st.lists(NAMES, min_size=1, max_size=5, unique=True)):
        capacity = draw(whole)
        burst = draw(st.integers(capacity, 10**15))
        limits.append(Limit(name, capacity, burst, draw(whole), draw(st.integers(1, 10**8))))
    return tuple(sorted(limits, key=lambda limit: limit.name))


def bucket(limits: tuple[Limit, ...], bucket_id: BucketId) -> dict[str, object]:
    item = {**bucket_id.attributes(), "cascade": False, "shard_count": 2, "rf": NOW, "cv": NOW, "ev": 1, WRITES: MILLI}
    for limit in limits:
        at = bucket_attributes(limit.name)
        item |= {at.tokens: limit._ceiling_milli, at.consumed: 0, **rule_attributes(limit)}
    return item


@st.composite
def declared_limits(draw: st.DrawFn) -> tuple[Limit, ...]:
    """Draw limits as a config has them, with marks and seconds of prefetch where these fit."""
    return tuple(
        replace(limit, shadow=draw(st.booleans()), prefetch=draw(st.integers(0, _most_prefetch_ms(limit))) / 1000)
        for limit in draw(limit_sets())
    )


def _most_prefetch_ms(limit: Limit) -> int:
    return min(3_600_000, (limit.burst - 1) * limit.refill_period * 1000 // limit.refill_amount)


@given(limit_sets())
def test_a_bucket_comes_back_with_the_shapes_of_its_limits(limits: tuple[Limit, ...]) -> None:
    state = read_bucket(bucket(limits, BucketId("ns", "e", "r", shard=1)))
    assert state.anchor_ms == NOW
    assert state.shard_limits == {limit.name: ShardLimit(limit, NOW, 1, 2, fraction=0) for limit in limits}
    assert {name: state.tokens_milli(name) for name in state.shard_limits} == {
        each.name: each._ceiling_milli for each in limits
    }


def test_the_count_of_writes_is_not_shown_as_a_limit() -> None:
    assert "wcu" not in read_bucket(bucket((Limit.per_minute("rpm", 1),), BucketId("ns", "e", "r"))).shard_limits


def test_shapes_are_read_again_only_where_the_anchor_moved() -> None:
    item = bucket((Limit.per_minute("rpm", 1),), BucketId("ns", "e", "r"))
    first = read_bucket(item)
    assert read_bucket(item | {"b_rpm_tk": 5}, first).shard_limits is first.shard_limits
    moved = read_bucket(item | {"rf": NOW + 1, "b_rpm_cp": 9 * MILLI, "b_rpm_ra": 9 * MILLI}, first)
    assert moved.shard_limits == {"rpm": ShardLimit(Limit.per_minute("rpm", 9), NOW + 1, 0, 2, fraction=0)}


def test_a_fraction_is_read_again_wherever_it_changed() -> None:
    item = bucket((Limit.per_minute("rpm", 1), Limit.per_minute("tpm", 10_000)), BucketId("ns", "e", "r"))
    first = read_bucket(item)
    later = read_bucket(item | {"b_rpm_fr": 7}, first)
    assert [each.fraction for each in later.shard_limits.values()] == [7, 0]
    assert [each.minted(NOW) for each in later.limit_states] == [
        each.minted(NOW) for each in later.shard_limits.values()
    ]
    assert read_bucket(item | {"b_rpm_tk": 5, "b_rpm_fr": 7}, later).shard_limits is later.shard_limits
    with pytest.raises(Unreadable):
        read_bucket(item | {"b_rpm_fr": "7"}, later)


@given(declared_limits())
def test_a_config_comes_back_with_its_limits(limits: tuple[Limit, ...]) -> None:
    assert Row({"PK": "x", "SK": "y", "config_version": 1, **config_attributes(limits)}).stored() == limits


def test_a_config_that_is_not_there_has_nothing() -> None:
    assert Row(None).stored() == ()
    assert Row(None).on_unavailable() is None
    assert Row({"on_unavailable": "allow"}).on_unavailable() == "allow"


@given(
    st.builds(
        Entity,
        entity_id=st.just("e"),
        name=st.none() | st.text(),
        parent_id=st.none() | st.just("p"),
        cascade=st.booleans(),
        metadata=st.dictionaries(st.text(), st.text(), max_size=3),
        created_at=st.just("2026-01-01T00:00:00.000Z"),
        version=st.integers(1, 9),
    )
)
def test_an_entity_comes_back_as_it_was(entity: Entity) -> None:
    item = entity_item("ns", entity)
    assert read_entity(item) == entity
    assert (item.get("GSI1PK"), "GSI1SK" in item) == (("ns/PARENT#p", True) if entity.parent_id else (None, False))


def test_a_namespace_is_found_by_name_and_by_id() -> None:
    by_name, by_id = namespace_items("prod", "n5", "2026-01-01T00:00:00.000Z")
    assert (by_name["PK"], by_name["SK"]) == (keys.pk_system(keys.REGISTRY), keys.sk_namespace("prod"))
    assert (by_id["PK"], by_id["SK"]) == (keys.pk_system(keys.REGISTRY), keys.sk_nsid("n5"))
    assert by_name["namespace_id"] == by_id["namespace_id"] == "n5"


UUID = "123e4567-e89b-12d3-a456-426614174000"
LOGIN = "auth0|5f7c8ec7c33c6c004bbafe82"


PARENT = {"cascade": True, "parent_id": UUID}


@pytest.mark.parametrize(
    ("resource", "parent_link", "burst"),
    [
        ("gpt-4", PARENT, 23_456_789),
        ("anthropic.claude-3-haiku", PARENT, 23_456_789),
        ("r" * 33, {"cascade": False}, 23_456_789),
        (UUID.replace("1", "r", 1), PARENT, 12_345_678),
    ],
    ids=["short resource", "long resource", "of 33 characters, no parent", "of 36 characters, no bursts"],
)
@pytest.mark.parametrize("entity", [UUID, LOGIN])
def test_a_bucket_of_three_limits_and_ids_of_36_characters_is_written_with_one_write_unit(
    resource: str, parent_link: dict[str, object], burst: int, entity: str
) -> None:
    limits = tuple(Limit(f"limit_of_{n:03}", 12_345_678, burst, 12_345_678, 86_400) for n in range(3))
    assert {len(limit.name) for limit in limits} == {12}
    item = bucket(limits, BucketId("n" * 11, entity, resource))
    item |= {**parent_link, "rf": NOW + 123, "cv": NOW + 123, "ttl": 1_700_000_001, "shard_count": 64}
    item |= {**dict.fromkeys(EVERYDAY, 123_456_789), WRITES: 123_456_789_000}
    for limit in limits:  # after ten years at the full rate
        at = bucket_attributes(limit.name)
        item |= {at.tokens: -45_061_724_712_345, at.consumed: 45_061_724_712_345}
    assert write_units(None, item) == 1


@pytest.mark.parametrize("parent", [0, 36])
@pytest.mark.parametrize("names", [["rpm"], ["rpm", "tpm"], ["limit_of_001", "limit_of_002", "limit_of_003"]])
@pytest.mark.parametrize("burst", [12_345_678, 23_456_789])
@pytest.mark.parametrize(
    ("entity", "resource"),
    [("e", "r" * 5), (UUID, "r" * 24), ("e" * 256, "r" * 128), (LOGIN, "/v1/chat/completions"), ("é" * 85, "日" * 42)],
)
def test_the_size_of_a_bucket_item_is_what_the_docs_say(
    entity: str, resource: str, burst: int, names: list[str], parent: int
) -> None:
    limits = [Limit(name, 12_345_678, burst, 12_345_678, 86_400) for name in names]
    item = bucket(tuple(limits), BucketId("n" * 11, entity, resource, 63))
    item |= {
        "ttl": 1_700_000_001,
        "shard_count": 64,
        **dict.fromkeys(EVERYDAY, 123_456_789),
        WRITES: 123_456_789_000,
    }
    item |= {"rf": NOW + 123, "cv": NOW + 123}
    item |= {"parent_id": "p" * parent} if parent else {}
    for limit in limits:  # after ten years at the full rate
        at = bucket_attributes(limit.name)
        item |= {at.tokens: -45_061_724_712_345, at.consumed: 45_061_724_712_345}
    plain = sum(map(str.isascii, entity + resource)) - entity.count("|")
    encoded = len((entity + resource).encode()) - plain
    told = EVERY_ITEM + 5 * plain + 13 * encoded + (parent + 9 if parent else 0)
    told += sum(55 + 5 * len(name) + (10 + len(name) if burst != 12_345_678 else 0) for name in names)
    assert told - 20 <= item_size(item) <= told


EVERY_KIND = [
    Limit.per_minute("rpm", 60),
    Limit.per_day("slow", 7),
    Limit.quota("weekly", 100, cron="0 6 * * MON"),
    Limit.concurrent("slots", 5),
    Limit.total("budget", 40),
    Limit.quota("first", 10, window=3600),
]


@pytest.mark.parametrize("limit", EVERY_KIND, ids=lambda limit: limit.kind)
def test_the_state_that_was_made_is_the_one_that_is_read(limit: Limit) -> None:
    of = BucketId("ns", "e", "r")
    balances = [LimitBalance(each, each._initial_milli - MILLI, MILLI) for each in (EVERY_KIND[0], limit)]
    item = bucket_item(of, {"cascade": False}, balances, shard_count=1, anchor_ms=NOW, config_as_of_ms=NOW, spread=True)
    made, read = new_state(item, of, [each.limit for each in balances]), read_bucket(item)
    assert (made.numbers(item), made[:3], made[4:7], made[8:]) == (read.numbers(item), read[:3], read[4:7], read[8:])
    assert [each._replace(minted=int) for each in made.limit_states] == [
        each._replace(minted=int) for each in read.limit_states
    ]
    assert [each.minted(NOW + 7777) for each in made.limit_states] == [
        each.minted(NOW + 7777) for each in read.limit_states
    ]
