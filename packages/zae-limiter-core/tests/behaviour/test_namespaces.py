"""Namespaces are registered, deleted softly and recovered; in both variants."""

from typing import Any

import pytest

from support.core.owners import maintenance_of
from support.core.wires import Wire
from support.core.worlds import Process, World, outcomes, passes
from zae_limiter import Limit, RateLimiterUnavailable, Repository
from zae_limiter.exceptions import InvalidIdentifierError, InvalidNameError, NamespaceNotFoundError, NamespaceStateError
from zae_limiter.operations.errors import OutcomeUnknown, Unreachable
from zae_limiter.operations.values import Get, Query, Transact
from zae_limiter.values import Namespace

RPM = Limit.per_minute("rpm", 60)


async def admin(world: World) -> tuple[Repository, Wire]:
    process: Process = await world.process()
    return process.repository, process.wire


def names(found: list[Namespace]) -> list[str]:
    return [each.name for each in found]


async def test_a_namespace_is_registered_once_and_shown_as_it_is(world: World) -> None:
    repository, _ = await admin(world)
    made = await repository.register_namespace("prod")
    assert (made.name, made.created_at, made.deleted_at) == ("prod", "2023-11-14T22:13:20.000Z", None)
    world.clock.advance(5)
    assert await repository.register_namespace("prod") == made
    assert await repository.get_namespace("prod") == made
    assert (await world.process("prod", register=False)).repository.namespace_id == made.namespace_id


async def test_a_name_that_nobody_registered_is_none(world: World) -> None:
    repository, _ = await admin(world)
    assert await repository.get_namespace("prod") is None


async def test_eight_that_register_a_name_at_once_get_the_same(world: World) -> None:
    repository, _ = await admin(world)
    found = await outcomes(*(repository.register_namespace("prod") for _ in range(8)))
    assert len(set(found)) == 1


async def test_the_list_has_those_in_use_by_name(world: World) -> None:
    repository, _ = await admin(world)
    for name in ("b", "c", "a"):
        await repository.register_namespace(name)
    await repository.delete_namespace("c")
    assert names(await repository.list_namespaces()) == ["a", "b", "default"]


async def test_a_deleted_namespace_is_not_found_by_any_open_and_keeps_all(world: World) -> None:
    repository, _ = await admin(world)
    prod, _ = await world.process("prod")
    await prod.set_system_defaults([RPM])
    world.clock.advance(1)
    deleted = await repository.delete_namespace("prod")
    assert (deleted.namespace_id, deleted.deleted_at) == (prod.repository.namespace_id, "2023-11-14T22:13:21.000Z")
    for register in (True, False):
        with pytest.raises(NamespaceNotFoundError, match="'prod' was deleted") as refused:
            await world.process("prod", register=register)
        assert refused.value.deleted_id == deleted.namespace_id
    with pytest.raises(NamespaceNotFoundError, match="'nobody': register it first") as refused:
        await world.process("nobody", register=False)
    assert refused.value.deleted_id is None
    with pytest.raises(NamespaceNotFoundError):
        await repository.namespace("prod")
    assert await repository.get_namespace("prod") is None
    assert await maintenance_of(repository).list_orphan_namespaces() == [deleted]
    assert await prod.get_system_defaults() == ([RPM], None)


async def test_what_is_not_there_or_deleted_cannot_be_deleted(world: World) -> None:
    repository, _ = await admin(world)
    await repository.register_namespace("prod")
    await repository.delete_namespace("prod")
    for name in ("prod", "nobody"):
        with pytest.raises(NamespaceNotFoundError, match=f"'{name}'") as caught:
            await repository.delete_namespace(name)
        assert (caught.value.deleted_id is None) == (name == "nobody")


async def test_a_recovered_namespace_is_as_it_was(world: World) -> None:
    repository, _ = await admin(world)
    prod, _ = await world.process("prod")
    await prod.set_system_defaults([RPM])
    before = await repository.get_namespace("prod")
    deleted = await repository.delete_namespace("prod")
    assert await maintenance_of(repository).recover_namespace(deleted.namespace_id) == before
    assert await maintenance_of(repository).list_orphan_namespaces() == []
    again, _ = await world.process("prod", register=False)
    assert again.repository.namespace_id == deleted.namespace_id
    assert await passes(again, "e", "r", rpm=1)


async def test_a_name_that_is_taken_anew_has_another_id_and_nothing_in_it(world: World) -> None:
    repository, _ = await admin(world)
    prod, _ = await world.process("prod")
    await prod.set_system_defaults([RPM])
    old = await repository.delete_namespace("prod")
    new = await repository.register_namespace("prod")
    assert new.namespace_id != old.namespace_id
    assert await (await world.process("prod")).limiter.get_system_defaults() == ([], None)
    assert await maintenance_of(repository).list_orphan_namespaces() == [old]
    with pytest.raises(NamespaceStateError, match=f"taken by '{new.namespace_id}'"):
        await maintenance_of(repository).recover_namespace(old.namespace_id)


async def test_of_two_deleted_namespaces_of_a_name_either_can_come_back(world: World) -> None:
    repository, _ = await admin(world)
    deleted = []
    for _ in range(2):
        world.clock.advance(1)
        await repository.register_namespace("prod")
        deleted.append(await repository.delete_namespace("prod"))
    assert await maintenance_of(repository).list_orphan_namespaces() == deleted
    for back, gone in (deleted, deleted[::-1]):
        recovered = await maintenance_of(repository).recover_namespace(back.namespace_id)
        assert await repository.get_namespace("prod") == recovered
        assert [each.namespace_id for each in await maintenance_of(repository).list_orphan_namespaces()] == [
            gone.namespace_id
        ]
        await repository.delete_namespace("prod")


async def test_only_a_deleted_namespace_can_be_recovered(world: World) -> None:
    repository, _ = await admin(world)
    with pytest.raises(NamespaceStateError, match="it is not deleted") as caught:
        await maintenance_of(repository).recover_namespace(repository.namespace_id)
    assert caught.value.namespace_id == repository.namespace_id
    with pytest.raises(NamespaceNotFoundError, match="'unknown'"):
        await maintenance_of(repository).recover_namespace("unknown")


async def test_a_write_whose_answer_was_lost_is_found_to_be_done(world: World) -> None:
    repository, wire = await admin(world)

    def lose() -> None:
        wire.break_once(OutcomeUnknown("slow"), on=Transact, applied=True)

    lose()
    made = await repository.register_namespace("prod")
    world.clock.advance(1)
    lose()
    deleted = await repository.delete_namespace("prod")
    assert deleted.namespace_id == made.namespace_id
    assert (deleted.deleted_at or "").startswith("2023-11-14T22:13:21.0")  # and the pause before the repeat
    lose()
    assert await maintenance_of(repository).recover_namespace(made.namespace_id) == made


@pytest.mark.parametrize("bad", ["", "1a", "a#b", "a/b", "x" * 65, None, 3])
async def test_a_bad_name_is_refused_before_any_request(world: World, bad: Any) -> None:
    repository, wire = await admin(world)
    for call in (repository.register_namespace, repository.get_namespace, repository.delete_namespace):
        with pytest.raises(InvalidNameError):
            await call(bad)
    assert wire.sent() == []


@pytest.mark.parametrize("bad", ["", "a/b", "a#b", "x" * 65, None, 3])
async def test_a_bad_id_is_refused_before_any_request(world: World, bad: Any) -> None:
    repository, wire = await admin(world)
    for call in (maintenance_of(repository).recover_namespace, maintenance_of(repository).purge_namespace):
        with pytest.raises(InvalidIdentifierError):
            await call(bad)
    assert wire.sent() == []


async def test_a_store_that_is_away_is_unavailable(world: World) -> None:
    repository, wire = await admin(world)
    wire.break_down(Unreachable("refused"), on=(Get, Query))
    for call in (repository.list_namespaces, maintenance_of(repository).list_orphan_namespaces):
        with pytest.raises(RateLimiterUnavailable, match="refused"):
            await call()
    with pytest.raises(RateLimiterUnavailable, match="refused"):
        await repository.get_namespace("prod")
