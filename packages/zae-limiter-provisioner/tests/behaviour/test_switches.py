"""Switches in a manifest: what an apply stores, what it finds live, and what it undoes."""

from support.provisioner.provisions import World
from zae_limiter import Switches
from zae_limiter.maintenance import SyncMaintenance
from zae_limiter_manifest import load

DISABLED = """\
namespace: tenant-alpha
resources: {gpt-4: {disabled: true, reason: down, limits: {rpm: 100/min}}}
entities: {acme: {resources: {_default_: {bypass: true}, gpt-4: {cascade: off}}}}
"""


def test_switches_are_applied_and_found_live_and_a_second_plan_is_empty(world: World) -> None:
    wanted = load(DISABLED)
    done = world.apply(wanted)
    assert done.plan
    assert done.plan.created == 3
    assert world.live() == wanted
    again = world.apply(wanted)
    assert again.plan
    assert again.plan.changes == ()


def test_a_switch_that_is_set_by_hand_is_drift_which_an_apply_undoes(world: World) -> None:
    wanted = load(DISABLED)
    world.apply(wanted)
    repository = world.repository()
    repository.set_switches("acme", "gpt-4", disabled=True, reason="by hand")
    done = world.apply(wanted)
    assert done.plan
    (change,) = done.plan.changes
    assert change.drift
    assert repository.get_switches("acme", "gpt-4") == Switches(cascade="off")


def test_what_leaves_the_manifest_loses_its_switches(world: World) -> None:
    world.apply(load(DISABLED))
    world.apply(load("namespace: tenant-alpha\nresources: {gpt-4: {limits: {rpm: 100/min}}}"))
    repository = world.repository()
    assert not repository.get_switches(None, "gpt-4")
    assert SyncMaintenance(repository).get_configs([("acme", "_default_"), ("acme", "gpt-4")]) == {}
