"""Patterns of resources, applied from a manifest."""

from support.provisioner.provisions import NAMESPACE, World
from zae_limiter_manifest import dump, load

TEXT = f"""
namespace: {NAMESPACE}
system: {{limits: {{rpm: 10/min, tpm: 99/min}}}}
resources:
  "*": {{limits: {{rpm: 5/min}}, extends: true}}
  "anthropic/*": {{limits: {{rpm: 7/min}}, bypass: true}}
  "anthropic/opus": {{limits: {{rpm: 1/min}}}}
"""


def test_patterns_are_applied_exported_and_planned(world: World) -> None:
    assert world.apply(load(TEXT)).status == "applied"
    repository = world.repository()
    found = [repository.resolve_limits("e", each) for each in ("x", "anthropic/x", "anthropic/opus")]
    assert [(each.source, each.pattern, each.limits[0].capacity) for each in found] == [
        ("pattern", "*", 5),
        ("pattern", "anthropic/*", 7),
        ("resource", None, 1),
    ]
    plan = world.ask("plan", load(TEXT)).plan
    assert plan is not None
    assert plan.changes == ()
    assert load(dump(world.live())).resources.keys() == {"*", "anthropic/*", "anthropic/opus"}


def test_a_pattern_that_goes_from_the_file_is_deleted(world: World) -> None:
    world.apply(load(TEXT))
    world.repository().set_resource_defaults("b/*", ["rpm: 3/min"])
    text = TEXT.replace('"*": {limits: {rpm: 5/min}, extends: true}', "y: {limits: {rpm: 1/min}}")
    assert world.apply(load(text)).status == "applied"
    assert world.repository().list_resources_with_defaults() == ["anthropic/*", "anthropic/opus", "b/*", "y"]


def test_a_pattern_changed_by_hand_is_drift(world: World) -> None:
    world.apply(load(TEXT))
    world.repository().set_resource_defaults("*", ["rpm: 3/min"])
    plan = world.ask("plan", load(TEXT)).plan
    assert plan is not None
    assert [(str(each.address), each.drift) for each in plan.changes] == [("resource *", True)]
