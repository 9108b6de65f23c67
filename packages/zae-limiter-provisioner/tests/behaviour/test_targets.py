"""A plan and an apply of some addresses leave all others as they are, in the table and in the state."""

import pytest

from support.provisioner.provisions import EVERY_LEVEL, World, limits, manifest
from zae_limiter_manifest import Address, Request

AFTER = manifest(
    resources={"gpt-4": limits(51), "gpt-5": limits(5)}, entities={"user-2": {"resources": {"gpt-4": limits(2)}}}
)


def state_of(world: World) -> tuple[set[str], str | None, str | None]:
    state = world.ask("state").state
    assert state
    return {str(address) for address in state.managed}, state.applied_hash, state.owner


def test_only_targets_are_planned_and_applied_and_only_they_are_managed_anew() -> None:
    world = World()
    world.apply(EVERY_LEVEL)
    managed, applied_hash, owner = state_of(world)
    plan = world.ask("plan", AFTER, targets=("entity user-*", "resource gpt-4")).plan
    assert plan
    assert [(change.action, str(change.address)) for change in plan.changes] == [
        ("update", "resource gpt-4"),
        ("delete", "entity user-1/_default_"),
        ("delete", "entity user-1/gpt-4"),
        ("create", "entity user-2/gpt-4"),
    ]
    world.apply(AFTER, targets=("resource gpt-4",), expected_serial=plan.serial)
    assert world.live() == manifest(
        system=EVERY_LEVEL.to_dict()["system"],
        resources={"gpt-4": limits(51)},
        entities=EVERY_LEVEL.to_dict()["entities"],
    )
    assert state_of(world) == (managed, applied_hash, owner)
    world.apply(AFTER, targets=("user-2/*",))
    assert state_of(world) == ({*managed, "entity user-2/gpt-4"}, applied_hash, owner)
    world.apply(AFTER)
    assert world.live() == AFTER
    assert state_of(world)[0] == {str(address) for address in AFTER.managed_set()}


@pytest.mark.parametrize("before", [EVERY_LEVEL, None], ids=["applied", "new"])
def test_a_target_that_fits_nothing_changes_nothing(before: object) -> None:
    world = World()
    if before:
        world.apply(EVERY_LEVEL)
        told = state_of(world)
    answer = world.apply(AFTER, targets=("resource nothing",))
    assert answer.plan
    assert answer.plan.changes == ()
    if before:
        assert (state_of(world), world.live()) == (told, EVERY_LEVEL)
    assert Address("gpt-5") not in world.live().managed_set()


def test_a_target_that_is_already_right_is_managed_without_the_others() -> None:
    world = World()
    world.apply(manifest(resources={"gpt-4": limits(51)}))
    world.apply(AFTER, targets=("resource gpt-4",))
    assert state_of(world)[0] == {"resource gpt-4"}


@pytest.mark.parametrize("targets", ["gpt-4", [""], [7], ["x" * 101]], ids=str)
def test_bad_targets_are_refused(targets: object) -> None:
    with pytest.raises((ValueError, TypeError), match="targets"):
        Request.of("plan", AFTER, targets=targets)
    with pytest.raises(ValueError, match="targets and take_over"):
        Request.of("plan", AFTER, targets=("x",), take_over=True)
