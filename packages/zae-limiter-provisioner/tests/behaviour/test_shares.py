"""A region's share of each limit: recorded, kept by who asks for none, and shown where it moves."""

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from support.provisioner.provisions import EVERY_LEVEL, NAMESPACE, Killed, World, limits, manifest, rpm
from support.provisioner.stack_sender import Stack
from zae_limiter.maintenance import SyncMaintenance
from zae_limiter_manifest import LimitsManifest

WANTED = manifest(resources={"gpt-4": limits(100)}, tiers={"gold": {"resources": {"gpt-4": limits(50)}}})


def capacity(world: World) -> int:
    return world.repository().get_resource_defaults("gpt-4")[0].capacity


def test_an_apply_with_a_share_scales_every_level_and_records_it(world: World) -> None:
    done = world.apply(EVERY_LEVEL, share="60%").plan
    assert done
    assert (done.share, done.share_before, done.manifest_hash) == ("60%", None, EVERY_LEVEL.canonical_hash())
    assert world.live() == manifest(
        system={"on_unavailable": "allow", **limits(60)},
        resources={"gpt-4": limits(30)},
        entities={"user-1": {"resources": {"gpt-4": limits(12), "_default_": limits(6)}}},
    )
    state = world.ask("state").state
    assert state
    assert (state.share, state.applied_hash) == ("60%", EVERY_LEVEL.canonical_hash())


@pytest.mark.parametrize("action", ["plan", "diff", "apply"])
def test_who_asks_for_no_share_keeps_the_recorded_one(world: World, action: str) -> None:
    """Nobody gives a region 100 % by the way that had 60 %."""
    world.apply(WANTED, share="60%")
    plan = world.ask(action, WANTED).plan
    assert plan
    assert (plan.share, plan.share_before, plan.changes) == ("60%", "60%", ())
    raised = manifest(resources={"gpt-4": limits(200)})
    world.apply(raised)
    assert (capacity(world), world.ask("state").state.share) == (120, "60%")  # type: ignore[union-attr]


def test_a_share_that_moves_is_a_change_of_each_limit_and_the_whole_is_a_share(world: World) -> None:
    world.apply(WANTED, share="60%")
    plan = world.ask("plan", WANTED, share="100%").plan
    assert plan
    assert (plan.share, plan.share_before, plan.updated, plan.drifted) == (None, "60%", 2, ())
    world.apply(WANTED, share="100.0%")
    assert (world.live(), world.ask("state").state.share) == (WANTED, None)  # type: ignore[union-attr]


def test_a_share_that_somebody_moves_between_plan_and_apply_refuses_the_plan(world: World) -> None:
    world.apply(WANTED, share="60%")
    plan = world.ask("plan", WANTED).plan
    assert plan
    world.apply(WANTED, share="40%")
    (failure,) = world.ask("apply", WANTED, expected_plan=plan.changes_hash()).errors
    assert failure.code == "different_plan"


def test_a_limit_that_cannot_be_divided_is_refused_before_anything_is_written(world: World) -> None:
    world.apply(WANTED)
    wanted = manifest(resources={"gpt-4": limits(100), "jobs": limits(1)})
    for action in ("plan", "diff", "apply"):
        (failure,) = world.ask(action, wanted, share="60%").errors
        assert (failure.code, "60% is less than one token of resource jobs: rpm (1/min)" in failure.message) == (
            "indivisible",
            True,
        )
    assert (world.live(), world.ask("state").state.share) == (WANTED, None)  # type: ignore[union-attr]


def test_an_apply_that_was_killed_has_recorded_its_share_before_its_first_change(world: World) -> None:
    world.apply(WANTED)
    with pytest.raises(Killed):
        world.ask("apply", WANTED, share="60%", store=world.store(2))
    assert SyncMaintenance(world.repository()).get_provisioner_state().share == "60%"
    world.clock.advance(1000)
    world.apply(WANTED)
    assert capacity(world) == 60


def test_an_apply_of_targets_keeps_the_share(world: World) -> None:
    world.apply(WANTED, share="60%")
    world.apply(manifest(resources={"gpt-4": limits(200)}), targets=("resource gpt-4",))
    assert (capacity(world), world.ask("state").state.share) == (120, "60%")  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="targets and share"):
        world.ask("apply", WANTED, share="50%", targets=("resource gpt-4",))


def test_an_override_is_what_somebody_has_set_in_this_region(world: World) -> None:
    world.apply(EVERY_LEVEL)
    until = world.repository().namespace_state.now() / 1000 + 3600
    world.repository().set_limits("user-1", rpm(7), "gpt-4", override_until=datetime.fromtimestamp(until, UTC))
    world.apply(EVERY_LEVEL, share="60%")
    plan = world.ask("plan", EVERY_LEVEL).plan
    assert plan
    assert [each.decl.limits["rpm"].capacity for each in plan.overrides] == [7]


def test_a_rollback_gives_the_limits_of_then_in_the_share_of_now(world: World) -> None:
    first = world.apply(WANTED, share="60%").plan
    world.apply(manifest(resources={"gpt-4": limits(10)}), share="40%")
    assert first
    kept = world.ask("show", NAMESPACE, serial=first.serial).manifest
    assert kept == WANTED
    world.apply(kept)
    assert capacity(world) == 40


def test_a_recorded_share_that_is_none_refuses_until_one_is_given(world: World) -> None:
    world.apply(WANTED, share="60%")
    repository = world.repository()
    state = replace(SyncMaintenance(repository).get_provisioner_state(), share="0%")
    SyncMaintenance(repository).put_provisioner_state(state, expected_serial=state.serial)
    for action in ("plan", "apply"):
        assert world.ask(action, WANTED).errors[0].code == "unreadable_state"
    world.apply(WANTED, share="60%")
    assert capacity(world) == 60


def test_a_stack_delivers_a_share_and_keeps_it_where_its_template_has_none(stack: Stack, world: World) -> None:
    told = stack.do("Create", WANTED, Share="60%")
    assert (told["Status"], told["Reason"]) == ("SUCCESS", "Share of this region: 100% -> 60% of each limit.")
    assert capacity(world) == 60
    told = stack.do("Update", manifest(resources={"gpt-4": limits(200)}))
    assert (told["Status"], told["Reason"]) == ("SUCCESS", "Share of this region: 60% of each limit.")
    assert capacity(world) == 120
    assert stack.do("Update", manifest(resources={"gpt-4": limits(300)}), Share="")["Status"] == "SUCCESS"
    assert capacity(world) == 180
    assert stack.do("Update", WANTED, Share="100%")["Status"] == "SUCCESS"
    assert capacity(world) == 100


def test_a_stack_with_a_share_that_is_none_changes_nothing(stack: Stack, world: World) -> None:
    stack.do("Create", WANTED)
    told = stack.do("Update", LimitsManifest.from_dict(WANTED.to_dict()), Share="0%")
    assert (told["Status"], told["Reason"]) == (
        "FAILED",
        'Share: a share is 0.01% to 100%, such as 60% or 33.33%, not "0%"',
    )
    assert world.live() == WANTED
