"""Patterns of resources beside all else that a limit has, over both engines of one machine."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from zae_limiter import Draw, Limit, OnRefused, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter.exceptions import AccessDisabled
from zae_limiter.testing import ManualClock

NOON = int(datetime(2026, 3, 2, 12, tzinfo=UTC).timestamp()) * 1000
Opens = Callable[..., SyncRateLimiter]


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock(NOON)


@pytest.fixture(params=["memory", "sqlite"])
def opens(request: pytest.FixtureRequest, tmp_path: Path, clock: ManualClock) -> Opens:
    in_memory: list[SyncRepository] = []  # whose table is in this process, so that a second one is the first

    def repository(**options: Any) -> SyncRepository:
        if request.param == "memory":
            in_memory.append(SyncRepository.in_memory(clock=clock, **options))
            return in_memory[0]
        return SyncRepository.sqlite(tmp_path / "limits.db", clock=clock, **options)

    return lambda **options: SyncRateLimiter(repository(**options))


def taken(limiter: SyncRateLimiter, resource: str, amount: int = 1, entity: str = "e") -> bool:
    try:
        with limiter.acquire(entity, resource, {"rpm": amount}):
            return True
    except RateLimitExceeded:
        return False


def test_a_scheduled_pattern_holds_by_the_clock(opens: Opens, clock: ManualClock) -> None:
    limiter = opens()
    limiter.set_resource_defaults("a/*", [Limit.custom("rpm", 3, schedule=["late: 12:10-12:20 9/min"])])
    assert [taken(limiter, "a/b", 3), taken(limiter, "a/b")] == [True, False]
    clock.advance(11 * 60)
    assert [taken(limiter, "a/b", 9), taken(limiter, "a/c", 9), taken(limiter, "a/b")] == [True, True, False]
    [bucket] = limiter.explain("e", "a/b").buckets
    assert (bucket.pattern, bucket.limits[0].schedule[:4]) == ("a/*", "late")
    clock.advance(10 * 60)
    assert [taken(limiter, "a/b", 9), taken(limiter, "a/b", 3)] == [False, True]


def test_a_scheduled_quota_of_a_pattern_keeps_its_use(opens: Opens, clock: ManualClock) -> None:
    limiter = opens(config_cache_ttl=60)
    day = Limit.custom("rpm", 100, kind="calendar", window="day", schedule=["late: 12:10-12:20 capacity 500"])
    limiter.set_resource_defaults("a/*", [day])
    assert taken(limiter, "a/b", 80)
    limiter.set_resource_defaults("a/*", [Limit.parse("rpm: 90/day UTC")])
    assert [taken(limiter, "a/b", 11), taken(limiter, "a/b", 10)] == [False, True]
    limiter.set_resource_defaults("a/*", [day])
    clock.advance(11 * 60)
    assert [taken(limiter, "a/b", 411), taken(limiter, "a/b", 410), taken(limiter, "a/b")] == [False, True, False]
    limiter.delete_resource_defaults("a/*")
    limiter.set_system_defaults([Limit.parse("rpm: 600/day UTC")])
    assert [taken(limiter, "a/b", 101), taken(limiter, "a/b", 100)] == [False, True]


def test_a_pattern_in_shadow_refuses_no_call(opens: Opens) -> None:
    limiter = opens()
    limiter.set_system_defaults([Limit.per_minute("rpm", 1)])
    limiter.set_resource_defaults("a/*", [Limit.per_minute("rpm", 3, shadow=True)])
    assert taken(limiter, "a/b", 3)
    with limiter.acquire("e", "a/b", {"rpm": 5}) as lease:
        assert [each.limit_name for each in lease.shadowed] == ["rpm"]
    limiter.set_resource_defaults("a/*", [Limit.per_minute("rpm", 3)])
    assert [taken(limiter, "a/b"), taken(limiter, "b")] == [False, True]


def test_a_prefetched_pattern_ends_with_the_pattern(opens: Opens, clock: ManualClock) -> None:
    limiter, other = opens(config_cache_ttl=60), opens()
    limiter.set_resource_defaults("a/*", [Limit.custom("rpm", 600, refill_amount=600, refill_period=60, prefetch=2)])
    assert sum(taken(limiter, "a/b") for _ in range(50)) == 50
    other.set_resource_defaults("a/*", [Limit.per_minute("rpm", 10)])
    clock.advance(61)
    assert sum(taken(limiter, "a/b") for _ in range(40)) == 10


def test_shards_of_a_pattern_follow_its_change(opens: Opens, clock: ManualClock) -> None:
    limiter = opens(split_above=1, config_cache_ttl=60)
    limiter.set_resource_defaults("a/*", [Limit.per_minute("rpm", 1_000)])
    for _ in range(60):
        assert taken(limiter, "a/b")
        clock.advance(ms=200)
    [bucket] = limiter.explain("e", "a/b").buckets
    assert bucket.shard_count > 1
    limiter.set_resource_defaults("a/b*", [Limit.per_minute("rpm", 5)])
    assert sum(taken(limiter, "a/b") for _ in range(20)) <= 5
    assert limiter.explain("e", "a/b").buckets[0].limits[0].limit.capacity == 5


def test_a_parent_has_its_own_levels_under_a_pattern(opens: Opens) -> None:
    limiter = opens()
    limiter.create_entity("team")
    limiter.create_entity("e", parent_id="team", cascade=True)
    limiter.set_resource_defaults("a/*", [Limit.per_minute("rpm", 5)])
    limiter.set_limits("team", [Limit.per_minute("rpm", 7)], "a/b")
    assert [taken(limiter, "a/b", 5), taken(limiter, "a/c", 5)] == [True, True]
    with pytest.raises(RateLimitExceeded) as refused, limiter.acquire("team", "a/b", {"rpm": 3}):
        pass
    assert refused.value.violations[0].available == 2
    assert not taken(limiter, "a/c", 1, "team")


def test_a_switch_of_a_resource_leaves_others_of_the_pattern(opens: Opens) -> None:
    limiter = opens()
    limiter.set_resource_defaults("a/*", [Limit.per_minute("rpm", 5)])
    limiter.repository.set_resource_switches("a/b", disabled=True)
    with pytest.raises(AccessDisabled), limiter.acquire("e", "a/b", {"rpm": 1}):
        pass
    assert taken(limiter, "a/c")
    limiter.repository.set_resource_switches("a/b", disabled=None)
    assert taken(limiter, "a/b")


def test_a_pattern_overflows_to_a_resource(opens: Opens) -> None:
    limiter = opens()
    limiter.set_resource_defaults("credits", [Limit.per_minute("rpm", 50)])
    limiter.set_resource_defaults("a/*", [Limit.per_minute("rpm", 1)], on_refused=OnRefused(overflow="credits"))
    with limiter.acquire("e", "a/b", {"rpm": 1}) as first, limiter.acquire("e", "a/b", {"rpm": 1}) as second:
        assert (first.resource, second.resource, second.overflowed) == ("a/b", "credits", True)


def test_an_override_holds_beside_a_pattern_until_its_end(opens: Opens, clock: ManualClock) -> None:
    limiter = opens()
    limiter.set_resource_defaults("a/*", [Limit.per_minute("rpm", 1), Limit.per_minute("tpm", 9)])
    until = datetime.fromtimestamp(NOON / 1000 + 600, UTC)
    limiter.set_limits("e", [Limit.per_minute("rpm", 20)], "a/b", extends=True, override_until=until)
    assert [taken(limiter, "a/b", 20), taken(limiter, "a/c", 2)] == [True, False]
    assert limiter.repository.resolve_limits("e", "a/b").sources == {"rpm": "entity", "tpm": "pattern"}
    clock.advance(601)
    assert [taken(limiter, "a/b", 2), taken(limiter, "a/b")] == [False, True]


def test_usage_is_of_each_resource(opens: Opens, clock: ManualClock) -> None:
    limiter = opens()
    limiter.set_resource_defaults("a/*", [Limit.per_minute("rpm", 9)])
    assert [taken(limiter, "a/b", 2), taken(limiter, "a/c", 3)] == [True, True]
    found = {bucket.resource: bucket.available for bucket in limiter.repository.get_buckets("e")}
    assert found == {"a/b": {"rpm": 7}, "a/c": {"rpm": 6}}


def test_a_draw_limits_all_resources_of_a_pattern_together(opens: Opens) -> None:
    limiter = opens()
    limiter.set_resource_defaults("a/*", [Limit.per_minute("rpm", 10)])
    limiter.set_resource_defaults("a", [Limit.per_minute("rpm", 15)])
    family = [Draw(resource="a")]
    for model in ("b", "c"):
        with limiter.acquire("e", f"a/{model}", {"rpm": 7}, draws=family):
            pass
    with pytest.raises(RateLimitExceeded) as refused, limiter.acquire("e", "a/d", {"rpm": 7}, draws=family):
        pass
    assert [(each.resource, each.available) for each in refused.value.violations] == [("a", 1)]
    assert [limiter.available("e", f"a/{model}")["rpm"] for model in ("b", "c", "d")] == [3, 3, 10]
