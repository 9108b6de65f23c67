"""Every entity and every bucket of a namespace, in pages; in both variants."""

import logging
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from support.core.owners import maintenance_of
from support.core.shards import split_into
from support.core.worlds import World, take
from zae_limiter import Limit, ValidationError
from zae_limiter.operations.values import Put
from zae_limiter.schema import keys
from zae_limiter.values import KnownEntity

RPM = Limit.per_minute("rpm", 60)


def at(world: World, **later: float) -> datetime:
    return datetime.fromtimestamp(world.clock.now_ms() / 1000, UTC) + timedelta(**later)


async def pages(method: Any, size: int, **arguments: Any) -> list[Any]:
    """What all pages of this size have."""
    found: list[Any] = []
    following = None
    while True:
        page = await method(limit=size, next=following, **arguments)
        rows = page.entities if hasattr(page, "entities") else page.buckets
        assert len(rows) <= size
        found += rows
        if page.next is None:
            return found
        assert len(rows) == size
        following = page.next


async def known(repository: Any, size: int = 1000, **arguments: Any) -> list[tuple[str, bool, bool, bool]]:
    return [
        (each.entity_id, each.record is not None, each.has_limits, each.has_buckets)
        for each in await pages(repository.list_entities, size, **arguments)
    ]


@pytest.mark.parametrize("size", [1, 2, 3, 1000])
async def test_an_entity_is_known_by_a_record_by_limits_or_by_a_bucket(world: World, size: int) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    repository = limiter.repository
    assert await known(repository, size) == []
    await limiter.create_entity("acme", "Acme")
    await limiter.create_entity("acme-2", parent_id="acme")
    await limiter.repository.set_many_limits(
        {(each, on): [RPM] for each in ("acme", "own") for on in ("r", "s", "_default_")}
    )
    for entity in ("acme", "used", "auth0|1"):
        for resource in ("r", "s", "t"):
            await take(limiter, entity, resource, rpm=1)
    everybody = [
        ("acme", True, True, True),
        ("acme-2", True, False, False),
        ("auth0|1", False, False, True),
        ("own", False, True, False),
        ("used", False, False, True),
    ]
    assert await known(repository, size) == everybody
    assert await known(repository, size, begins_with="acme") == everybody[:2]
    assert await known(repository, size, begins_with="auth0|") == [everybody[2]]
    assert await known(repository, size, begins_with="nobody") == []
    assert await known(await repository.namespace("other"), size) == []
    first = (await repository.list_entities(limit=1)).entities[0]
    assert first == KnownEntity("acme", await limiter.get_entity("acme"), has_limits=True, has_buckets=True)


async def test_an_override_that_has_ended_makes_nobody_known(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    await limiter.set_limits("e", [RPM], "r", override_until=at(world, seconds=60))
    assert await known(limiter.repository) == [("e", False, True, False)]
    world.clock.advance(seconds=61)
    assert await known(limiter.repository) == []


@pytest.mark.parametrize("size", [1, 2, 7, 1000])
async def test_every_bucket_is_in_one_page_with_all_its_shards(world: World, size: int) -> None:
    limiter, _ = await world.process(default_limits=[Limit.per_minute("rpm", 6000)])
    repository = limiter.repository
    places = [(entity, resource) for entity in ("a", "a-b", "a/b", "c") for resource in ("gpt-4", "r", "r/2")]
    for entity, resource in places:
        await take(limiter, entity, resource, rpm=10)
    split_into(world, limiter, 16, "a", "r")
    found = await pages(repository.list_buckets, size)
    assert sorted((each.entity_id, each.resource) for each in found) == places
    assert {each.shard_count for each in found if (each.entity_id, each.resource) == ("a", "r")} == {16}
    assert [each.available["rpm"] for each in found] == [5990] * len(places)
    of_one = await pages(repository.list_buckets, size, resource="r")
    assert [each.entity_id for each in of_one] == ["a", "a-b", "a/b", "c"]
    assert of_one == [each for each in found if each.resource == "r"]


async def test_pages_cost_what_they_show(world: World) -> None:
    limiter, wire = await world.process(default_limits=[RPM])
    for number in range(30):
        await take(limiter, f"e-{number:02}", "r", rpm=1)
    wire.sent()
    page = await limiter.repository.list_entities(limit=10)
    assert (len(page.entities), page.next) == (10, "e-09")
    assert wire.sent() == ["Query"] * 3  # of records, of buckets, and of the resources with limits of entities


async def test_rows_that_are_no_entities_are_left_out(world: World) -> None:
    limiter, _ = await world.process(default_limits=[RPM])
    repository = limiter.repository
    await limiter.create_entity("e")
    ns = repository.namespace_id
    for pk, sk in ((keys.pk_entity(ns, "f"), "#OTHER"), (keys.pk_entity("foreign", "g"), keys.sk_meta())):
        world.table.execute(Put({"PK": pk, "SK": sk, "GSI4PK": ns, "GSI4SK": keys.pk_entity(ns, "f")}))
    record = keys.pk_entity(ns, "not-a-record")
    world.table.execute(Put({"PK": record, "SK": keys.sk_meta(), "GSI4PK": ns, "GSI4SK": record, "version": "one"}))
    assert await known(repository) == [("e", True, False, False)]


async def test_a_link_to_a_further_parent_is_no_row_to_drop(world: World, caplog: pytest.LogCaptureFixture) -> None:
    limiter, _ = await world.process()
    for parent in ("a", "b", "c"):
        await limiter.create_entity(parent)
    await limiter.create_entity("e", parent_ids=["a", "b", "c"])
    with caplog.at_level(logging.WARNING):
        for size in (1, 2, 3, 1000):
            assert [entity for entity, *_ in await known(limiter.repository, size)] == ["a", "b", "c", "e"]
        assert await maintenance_of(limiter.repository).list_entity_ids() == ["a", "b", "c", "e"]
    assert [record.message for record in caplog.records if "dropped" in record.message] == []


async def test_bad_arguments_are_refused_by_their_name(world: World) -> None:
    repository = (await world.process()).limiter.repository
    for method, arguments, field in (
        ("list_entities", {"limit": 0}, "limit"),
        ("list_entities", {"limit": 1001}, "limit"),
        ("list_entities", {"next": ""}, "next"),
        ("list_entities", {"begins_with": "\n"}, "begins_with"),
        ("list_buckets", {"limit": True}, "limit"),
        ("list_buckets", {"next": "a"}, "next"),
        ("list_buckets", {"next": "a#b#c"}, "next"),
        ("list_buckets", {"next": "a|#b"}, "next"),
        ("list_buckets", {"next": 3}, "next"),
        ("list_buckets", {"resource": "_default_"}, "resource"),
    ):
        with pytest.raises(ValidationError) as refused:
            await getattr(repository, method)(**arguments)
        assert refused.value.field == field
