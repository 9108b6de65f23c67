"""Entities with several parents and more than two levels: an acquire draws on the whole path; in both variants."""

import asyncio

import pytest

from support.core.worlds import Process, World, drain, go_on, passes, stand_still, take, until
from zae_limiter import Limit, RateLimitExceeded, ValidationError
from zae_limiter.http import headers
from zae_limiter.operations.errors import Throttled
from zae_limiter.operations.values import Key, Update
from zae_limiter.schema import keys

RPM = Limit.per_hour("rpm", 100)
PATH = ("key-1", "user", "team", "org", "world")


async def diamond(world: World, **options: object) -> Process:
    """A key of a user and a team, who both are of one organisation, above which there is one more."""
    process = await world.process(default_limits=[RPM], **options)  # type: ignore[arg-type]
    repository = process.repository
    await repository.create_entity("world")
    await repository.create_entity("org", parent_id="world", cascade=True)
    for each in ("user", "team"):
        await repository.create_entity(each, parent_id="org", cascade=True)
    await repository.create_entity("key-1", parent_ids=["user", "team"], cascade=True)
    await repository.create_entity("key-2", parent_id="team", cascade=True)
    process.wire.sent()
    return process


async def left(process: Process, *entities: str) -> list[int]:
    return [(await process.limiter.available(each, "r"))["rpm"] for each in entities]


async def test_each_bucket_of_the_path_is_drawn_on_once(world: World) -> None:
    it = await diamond(world)
    for _ in range(3):  # created, then the ordinary writes
        await take(it.limiter, "key-1", "r", rpm=10)
    assert await left(it, *PATH) == [70, 70, 70, 70, 70]
    await take(it.limiter, "key-2", "r", rpm=10)
    assert await left(it, *PATH, "key-2") == [70, 70, 60, 60, 60, 90]
    await take(it.limiter, "team", "r", rpm=1)
    assert await left(it, *PATH) == [70, 70, 59, 59, 59]


async def test_a_cold_path_is_read_twice_and_created_in_one_transaction(world: World) -> None:
    await diamond(world)
    other = await world.process(default_limits=[RPM])
    await take(other.limiter, "key-1", "r", rpm=1)
    assert other.wire.sent() == ["BatchGet", "BatchGet", "Transact"]
    await take(other.limiter, "key-1", "r", rpm=1)
    assert other.wire.sent() == ["Update"] * 5


async def test_a_process_that_knows_the_path_above_reads_only_the_new_key(world: World) -> None:
    it = await diamond(world)
    await take(it.limiter, "key-1", "r", rpm=1)
    it.wire.sent()
    await take(it.limiter, "key-2", "r", rpm=1)
    assert sorted(it.wire.sent()) == ["BatchGet", "Put", "Update", "Update", "Update"]


@pytest.mark.parametrize("short", PATH)
@pytest.mark.parametrize("seen", ["unseen", "seen", "stale"])
async def test_whoever_is_short_refuses_for_all_and_is_named_with_the_way_to_it(
    world: World, short: str, seen: str
) -> None:
    it = await diamond(world)
    await it.repository.set_limits(short, [Limit.per_hour("rpm", 20)])
    if seen != "unseen":
        await take(it.limiter, "key-1", "r", rpm=1)
    world.clock.advance(ms=5_000 if seen == "stale" else 0)
    before = await left(it, *PATH)
    with pytest.raises(RateLimitExceeded) as caught:
        await take(it.limiter, "key-1", "r", rpm=21)
    ways = {"user": ("key-1", "user"), "team": ("key-1", "team"), "org": ("key-1", "user", "org")}
    ways |= {"key-1": ("key-1",), "world": ("key-1", "user", "org", "world")}
    assert (caught.value.refused_by, caught.value.path) == (short, ways[short])
    assert str(caught.value).startswith(f"{' > '.join(ways[short])}/r: 21 rpm requested")
    assert [each.entity_id for each in caught.value.statuses] == list(PATH)
    assert await left(it, *PATH) == before
    assert await passes(it.limiter, "key-1", "r", rpm=10)
    assert await left(it, *PATH) == [each - 10 for each in before]


async def test_refusals_count_for_who_asked_and_for_who_was_short(world: World) -> None:
    it = await diamond(world)
    await it.repository.set_limits("org", [Limit.per_hour("rpm", 5)])
    await take(it.limiter, "key-1", "r", rpm=5)
    for _ in range(2):
        assert not await passes(it.limiter, "key-1", "r", rpm=1)
    await it.limiter.close()
    items = {each: world.bucket_of(it.limiter, each, "r") or {} for each in PATH}
    assert {each: item.get("rj") for each, item in items.items()} == {**dict.fromkeys(PATH), "key-1": 2, "org": 2}
    assert items["key-1"]["rj_org/rpm"] == 2


async def test_a_write_that_fails_gives_back_what_the_others_took(world: World) -> None:
    it = await diamond(world)
    await take(it.limiter, "key-1", "r", rpm=1)
    it.wire.break_once(Throttled("slow down"), on=Update)
    await take(it.limiter, "key-1", "r", rpm=1)  # sent again
    assert await left(it, *PATH) == [98] * 5


async def test_each_ancestor_has_limits_of_its_own_and_amounts_only_of_these(world: World) -> None:
    it = await diamond(world)
    await it.repository.set_limits("user", [Limit.per_hour("usd", 10)])
    await take(it.limiter, "key-1", "r", rpm=10, usd=2)
    assert await left(it, "key-1", "team", "org", "world") == [90] * 4
    assert await it.limiter.available("user", "r") == {"usd": 8}
    with pytest.raises(ValidationError, match=r"unknown limit .* on resource .r. \(known: rpm, usd\)"):
        await take(it.limiter, "key-1", "r", rpm=1, tokens=1)


async def test_the_call_cascades_for_who_asks_and_stored_flags_go_on(world: World) -> None:
    it = await world.process(default_limits=[RPM])
    await it.repository.create_entity("top")
    await it.repository.create_entity("middle", parent_id="top", cascade=False)
    await it.repository.create_entity("key", parent_id="middle", cascade=False)
    async with it.limiter.acquire("key", "r", {"rpm": 10}, cascade=True):
        pass
    assert await left(it, "key", "middle", "top") == [90, 90, 100]
    await it.repository.update_entity("middle", cascade=True)
    async with it.limiter.acquire("key", "r", {"rpm": 10}, cascade=True):
        pass
    assert await left(it, "key", "middle", "top") == [80, 80, 90]


async def test_a_lease_settles_every_bucket(world: World) -> None:
    it = await diamond(world)
    async with it.limiter.acquire("key-1", "r", {"rpm": 10}) as lease:
        await lease.consume(rpm=5)
        await lease.adjust(rpm=5)
    assert await left(it, *PATH) == [80] * 5
    with pytest.raises(ZeroDivisionError):
        async with it.limiter.acquire("key-1", "r", {"rpm": 10}):
            1 / 0  # noqa: B018
    assert await left(it, *PATH) == [80] * 5


async def test_who_waits_waits_for_the_whole_path(world: World) -> None:
    stand_still(world)
    it = await diamond(world)
    await it.repository.set_limits("world", [Limit.per_second("rpm", 10)])
    await take(it.limiter, "key-1", "r", rpm=10)

    async def waits(key: str) -> float:
        async with it.limiter.acquire(key, "r", {"rpm": 5}, max_wait=5) as lease:
            return lease.waited

    waiting = [asyncio.create_task(waits(each)) for each in ("key-1", "key-2", "team")]
    await until(lambda: world.clock.waiting == 3)
    assert await go_on(world, waiting, 4, 0.1)
    assert all(each > 0 for each in await asyncio.gather(*waiting))
    assert await left(it, "key-1", "key-2", "user", "team", "org") == [85, 95, 85, 75, 75]


async def test_tokens_are_prefetched_along_the_path(world: World) -> None:
    it = await diamond(world)
    await it.repository.set_system_defaults([Limit.per_minute("rpm", 6000, prefetch=5)])
    for _ in range(30):
        await take(it.limiter, "key-1", "r", rpm=1)
        world.clock.advance(ms=10)
    it.wire.sent()
    for _ in range(20):
        await take(it.limiter, "key-1", "r", rpm=1)
    async with it.limiter.acquire("key-1", "r", {"rpm": 1}) as lease:
        assert [each.entity_id for each in lease.statuses] == list(PATH)
        assert [each.path[-1] for each in lease.statuses] == list(PATH)
    assert len(it.wire.sent()) <= 2 * len(PATH)  # 105 without what is held: each block may be renewed
    taken = {each: 5900 - (await it.limiter.available(each, "r"))["rpm"] for each in PATH}
    assert len(set(taken.values())) == 1, taken


async def test_an_organisation_is_held_though_its_keys_are_not(world: World) -> None:
    it = await diamond(world)
    await it.repository.set_limits("org", [Limit.per_minute("rpm", 6000, prefetch=5)])
    for _ in range(80):
        await take(it.limiter, "key-1", "r", rpm=1)
        world.clock.advance(ms=20)
    await it.repository.close()
    items = {each: world.bucket_of(it.limiter, each, "r") or {} for each in PATH}
    assert {each: (item["b_rpm_tc"], item["ev"]) for each, item in items.items()} == dict.fromkeys(PATH, (80_000, 80))
    assert items["key-1"]["b_wcu_tc"] == 80_000
    assert items["org"]["b_wcu_tc"] <= 20_000


async def test_explain_shows_the_whole_path_by_what_is_stored(world: World) -> None:
    it = await diamond(world)
    await it.repository.set_limits("org", [Limit.per_hour("rpm", 5)])
    await take(it.limiter, "key-1", "r", rpm=5)
    it.wire.sent()
    found = await it.limiter.explain("key-1", "r", {"rpm": 1})
    assert it.wire.sent() == ["BatchGet", "BatchGet"]
    assert [each.entity_id for each in found.buckets] == list(PATH)
    assert [each.path for each in found.buckets][3] == ("key-1", "user", "org")
    assert (found.parent_id, found.parent_ids, found.cascades) == ("user", ("user", "team"), True)
    assert found.binding is not None
    assert found.binding[0].entity_id == "org"
    assert (await it.limiter.time_until_available("key-1", "r", {"rpm": 1})) == pytest.approx(720, abs=1)


async def test_headers_name_the_buckets_above_on_request_by_place_or_entity(world: World) -> None:
    it = await diamond(world)
    async with it.limiter.acquire("key-1", "r", {"rpm": 1}) as lease:
        assert headers(lease)["RateLimit"].count(";r=") == 1
        fields = headers(lease, show="all")
        named = headers(lease, show="all", names=lambda each: f"{each.entity_id}/{each.limit_name}")
    names = [part.partition(";")[0].strip() for part in fields["RateLimit"].split(",")]
    assert names == ['"rpm"', '"parent/rpm"', '"parent-2/rpm"', '"parent-3/rpm"', '"parent-4/rpm"']
    names = [part.partition(";")[0].strip() for part in named["RateLimit"].split(",")]
    assert names == ['"key-1/rpm"', '"user/rpm"', '"team/rpm"', '"org/rpm"', '"world/rpm"']


async def test_a_move_above_holds_for_everybody_below(world: World) -> None:
    it = await diamond(world)
    await take(it.limiter, "key-1", "r", rpm=10)
    await it.repository.create_entity("other-org")
    await it.repository.update_entity("team", parent_ids=["other-org"])
    await take(it.limiter, "key-1", "r", rpm=10)
    assert await left(it, *PATH, "other-org") == [80, 80, 80, 80, 80, 90]
    await it.repository.update_entity("user", parent_ids=["other-org"])  # the hint of the key names who was above
    late = await world.process(default_limits=[RPM])
    await take(late.limiter, "key-1", "r", rpm=10)
    assert await left(it, *PATH, "other-org") == [70, 70, 70, 80, 80, 80]


async def test_eight_buckets_are_drawn_on_together(world: World) -> None:
    it = await world.process(default_limits=[RPM])
    parents: list[str] = []
    for number in range(7):
        await it.repository.create_entity(f"e{number}", parent_ids=parents[-4:], cascade=bool(parents))
        parents.append(f"e{number}")
    await it.repository.create_entity("key", parent_ids=parents[-4:], cascade=True)
    await take(it.limiter, "key", "r", rpm=10)
    assert await drain(it.limiter, "key", "r", "rpm", step=10) == 90
    assert await left(it, "key", *parents) == [0] * 8
    with pytest.raises(ValidationError, match="at most 7 entities can be"):
        await it.repository.create_entity("too-deep", parent_ids=["key"])


async def test_too_many_buckets_are_refused_though_a_race_put_them_there(world: World) -> None:
    it = await world.process(default_limits=[RPM])
    await it.repository.create_entity("e0")
    for number in range(1, 8):
        await it.repository.create_entity(f"e{number}", parent_id=f"e{number - 1}", cascade=True)
    await it.repository.create_entity("above")
    ns = it.repository.namespace_id
    key = Key(keys.pk_entity(ns, "e0"), keys.sk_meta())
    it.wire.sent()
    world.table.execute(Update(key, set={"parent_id": "above", "cascade": True}))
    with pytest.raises(ValidationError, match="draws on more than 8 buckets: e7, e6"):
        await take(it.limiter, "e7", "r", rpm=1)
    assert all(world.bucket_of(it.limiter, f"e{number}", "r") is None for number in range(8))
    assert set(it.wire.sent()) == {"BatchGet"}
