"""Schedules of limits: applied, exported, and restored where somebody changed them."""

from support.provisioner.provisions import World, manifest
from support.provisioner.stack_sender import Stack
from zae_limiter import Limit
from zae_limiter_manifest import LimitsManifest

ENTRIES = ["sale: 2026-11-27 5k/min", "night: 22:00-06:00 Europe/Berlin 10/min"]


def wanted() -> LimitsManifest:
    return manifest(resources={"gpt-4": {"limits": {"rpm": {"capacity": 600, "schedule": ENTRIES}}}})


def test_an_apply_stores_them_and_an_export_has_them(world: World) -> None:
    world.apply(wanted())
    assert world.repository().get_resource_defaults("gpt-4") == [Limit.custom("rpm", 600, schedule=ENTRIES)]
    assert world.live() == wanted()
    assert world.apply(wanted()).plan.changes == ()  # type: ignore[union-attr]


def test_an_entry_that_is_changed_by_hand_is_drift_and_the_apply_restores_it(world: World) -> None:
    world.apply(wanted())
    world.repository().set_resource_defaults("gpt-4", [Limit.custom("rpm", 600, schedule=ENTRIES[:1])])
    plan = world.ask("diff", wanted()).plan
    assert plan
    assert [(str(change.address), change.drift) for change in plan.changes] == [("resource gpt-4", True)]
    world.apply(wanted())
    assert world.live() == wanted()


def test_a_stack_has_them(stack: Stack, world: World) -> None:
    assert stack.do("Create", wanted())["Reason"] == ""
    assert world.live() == wanted()
