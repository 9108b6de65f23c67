"""The mark of shadow limits: applied, exported, restored where somebody changed it, and told to a stack."""

from typing import Any

import pytest

from support.provisioner.provisions import World, limits, manifest
from support.provisioner.stack_sender import Stack
from zae_limiter import Limit
from zae_limiter.operations.errors import NotApplied
from zae_limiter.operations.values import Transact
from zae_limiter_manifest import LimitsManifest


def marked(*names: str, count: int = 2) -> LimitsManifest:
    """A system and a resource with so many limits, of which these are shadow limits."""
    limits = {f"l{number}": {"capacity": 5, "shadow": f"l{number}" in names} for number in range(count)}
    return manifest(system={"limits": {"l0": limits["l0"]}}, resources={"gpt-4": {"limits": limits}})


def test_an_apply_sets_keeps_and_removes_the_mark_and_an_export_has_it(world: World) -> None:
    for wanted in (marked("l0"), marked("l0", "l1"), marked("l1"), marked()):
        world.apply(wanted)
        assert world.live() == wanted
        assert world.ask("diff", wanted).plan == world.ask("plan", wanted).plan
        assert world.apply(wanted).plan.changes == ()  # type: ignore[union-attr]
    world.apply(marked("l0"))
    assert world.repository().get_resource_defaults("gpt-4") == [
        Limit.per_minute("l0", 5, shadow=True),
        Limit.per_minute("l1", 5),
    ]


def test_an_apply_of_another_field_keeps_the_mark(world: World) -> None:
    world.apply(marked("l0"))
    wanted = manifest(resources={"gpt-4": {"shadow": True, "limits": {"l0": {"capacity": 6}}}})
    world.apply(wanted)
    assert world.repository().get_resource_defaults("gpt-4") == [Limit.per_minute("l0", 6, shadow=True)]


@pytest.mark.parametrize("by_hand", [False, True])
def test_a_mark_that_is_changed_by_hand_is_drift_and_the_apply_restores_it(world: World, *, by_hand: bool) -> None:
    wanted = marked() if by_hand else marked("l0")
    world.apply(wanted)
    world.repository().set_system_defaults([Limit.per_minute("l0", 5, shadow=by_hand)])
    plan = world.ask("diff", wanted).plan
    assert plan
    assert [(str(change.address), change.drift) for change in plan.changes] == [("system", True)]
    world.apply(wanted)
    assert world.live() == wanted


def test_limits_without_the_mark_are_stored_as_by_releases_before_it(world: World) -> None:
    world.apply(marked())
    assert not [name for item in world.items() for name in item if name.endswith("_sh")]


def test_the_audit_events_have_the_mark(world: World) -> None:
    world.apply(marked("l0"))
    world.apply(marked())
    event, *_ = world.repository().get_audit_events("$RESOURCE:gpt-4").events
    assert event.before is not None
    assert event.after is not None
    assert (event.before["limits"]["l0"]["shadow"], "shadow" in event.after["limits"]["l0"]) == (True, False)


def test_a_stack_says_which_limits_refuse_from_now_on_and_which_no_longer(stack: Stack, world: World) -> None:
    assert stack.do("Create", marked("l0"))["Reason"] == ""
    assert world.live() == marked("l0")
    assert stack.do("Update", marked("l1"))["Reason"] == (
        "system: l0 shadow -> enforced; resource gpt-4: l0 shadow -> enforced; resource gpt-4: l1 enforced -> shadow"
    )
    rolled_back = stack.do("Update", marked("l0"))["Reason"]
    assert rolled_back.startswith("system: l0 enforced -> shadow; ")
    assert world.live() == marked("l0")


def test_a_stack_that_fails_half_way_says_which_limits_changed_nevertheless(stack: Stack) -> None:
    stack.do("Create", marked("l0"))

    def fault(operation: Any) -> None:
        if isinstance(operation, Transact) and any("RESOURCE#gpt-4" in str(write) for write in operation.writes):
            raise NotApplied("refused")

    stack.store.fault = fault
    told = stack.do("Update", marked("l1"))
    assert told["Status"] == "FAILED"
    assert told["Reason"].startswith("resource gpt-4: ")
    assert told["Reason"].endswith("; changed nevertheless: system: l0 shadow -> enforced")
    stack.store.fault = lambda _: None
    assert stack.do("Update", marked("l1"))["Reason"] == (
        "resource gpt-4: l0 shadow -> enforced; resource gpt-4: l1 enforced -> shadow"
    )


def test_many_long_failures_leave_room_for_the_limits_that_changed(stack: Stack) -> None:
    def wanted(mark: str) -> LimitsManifest:
        names = ["first", *(f"r{number}" for number in range(6))]
        return manifest(resources={name: {"limits": {"l0": {"capacity": 5, "shadow": name == mark}}} for name in names})

    def fault(operation: Any) -> None:
        if isinstance(operation, Transact) and any("RESOURCE#r" in str(write) for write in operation.writes):
            raise NotApplied("refused " * 100)

    stack.do("Create", wanted("first"))
    changed = {f"r{number}": limits(number + 2) for number in range(6)}
    stack.store.fault = fault
    told = stack.do("Update", manifest(resources={"first": {"limits": {"l0": {"capacity": 5}}}, **changed}))
    assert told["Reason"].endswith("; changed nevertheless: resource first: l0 shadow -> enforced")


def test_a_stack_lists_the_first_ten_of_many(stack: Stack) -> None:
    stack.do("Create", marked(count=32))
    said = stack.do("Update", marked(*(f"l{number}" for number in range(32)), count=32))["Reason"]
    assert (said.count(" enforced -> shadow"), said.rpartition("; ")[2]) == (10, "23 more")


@pytest.mark.parametrize("mark", ["yes-ish", "True", 1, None, []])
def test_a_stack_with_another_mark_fails_and_changes_nothing(stack: Stack, world: World, mark: Any) -> None:
    raw = {"gpt-4": {"Shadow": mark, "Limits": {"l0": {"Capacity": 5}}}}
    told = stack.do("Create", marked(), Resources=raw)
    assert (told["Status"], "Resources.gpt-4.Shadow: must be true or false, not " in told["Reason"]) == ("FAILED", True)
    assert world.items() == []
