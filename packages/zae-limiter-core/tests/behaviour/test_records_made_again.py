"""A change that was decided by a record that another has deleted and made again since; in both variants.

The new record has the version number of the old one. The change is decided again, from the new record.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from support.core.worlds import Process, World, until
from zae_limiter import EntityNotFoundError, Limit, RateLimiter
from zae_limiter.operations.values import Get, Key, Transact
from zae_limiter.schema import keys

OLD = Limit.per_minute("rpm", 60)
NEW = Limit.per_minute("tpm", 6_000)
OVERRIDE = Limit.per_minute("rpm", 600)

Doing = Callable[[RateLimiter], Awaitable[object]]


async def overtake(process: Process, slow: Doing, meanwhile: Doing, other: Process) -> object:
    """What comes of a change that has read, and is to write, while another process does something."""
    process.wire.hold(Transact)
    under_way = asyncio.ensure_future(slow(process.limiter))
    await until(lambda: process.wire.in_flight == 1)
    await meanwhile(other.limiter)
    process.wire.let_go()
    return await under_way


async def test_an_override_does_not_bring_back_limits_that_were_deleted(world: World) -> None:
    here, there = await world.process(), await world.process()
    await here.limiter.set_limits("e", [OLD], resource="r")
    end = datetime.fromtimestamp(world.clock.now_ms() / 1000, UTC) + timedelta(hours=1)

    async def override(limiter: RateLimiter) -> None:
        await limiter.set_limits("e", [OVERRIDE], resource="r", override_until=end)

    async def make_again(limiter: RateLimiter) -> None:
        await limiter.delete_limits("e", resource="r")
        await limiter.set_limits("e", [NEW], resource="r")

    await overtake(here, override, make_again, there)
    assert await there.limiter.get_limits("e", resource="r") == [NEW]


async def test_the_policy_of_a_system_does_not_bring_back_limits_that_were_deleted(world: World) -> None:
    here, there = await world.process(), await world.process()
    await here.limiter.set_system_defaults([OLD])

    async def make_again(limiter: RateLimiter) -> None:
        await limiter.delete_system_defaults()
        await limiter.set_system_defaults([NEW])

    await overtake(here, lambda limiter: limiter.set_system_defaults(None, on_unavailable="allow"), make_again, there)
    assert await there.limiter.get_system_defaults() == ([NEW], "allow")


@pytest.mark.parametrize("slow", ["update", "delete"])
async def test_the_children_of_two_parents_stay_counted(world: World, slow: str) -> None:
    here, there = await world.process(), await world.process()
    for parent in ("old", "new", "third"):
        await here.limiter.create_entity(parent)
    await here.limiter.create_entity("e", parent_id="old")

    async def make_again(limiter: RateLimiter) -> None:
        await limiter.delete_entity("e")
        await limiter.create_entity("e", parent_id="new")

    async def change(limiter: RateLimiter) -> None:
        await (
            limiter.repository.update_entity("e", parent_id="third") if slow == "update" else limiter.delete_entity("e")
        )

    await overtake(here, change, make_again, there)
    counted = [children(world, there, parent) for parent in ("old", "new", "third")]
    assert counted == [0, 0, 1 if slow == "update" else 0]


def children(world: World, process: Process, parent: str) -> int:
    key = Key(keys.pk_entity(process.repository.namespace_id, parent), keys.sk_meta())
    return int(world.table.execute(Get(key))["child_count"])


async def test_an_entity_that_is_deleted_for_good_meanwhile_is_not_there(world: World) -> None:
    here, there = await world.process(), await world.process()
    await here.limiter.create_entity("e")
    with pytest.raises(EntityNotFoundError):
        await overtake(
            here,
            lambda limiter: limiter.repository.update_entity("e", name="a name"),
            lambda limiter: limiter.delete_entity("e"),
            there,
        )
