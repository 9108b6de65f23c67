"""Levels that are unlimited, or extend the next one, applied from a manifest."""

from support.provisioner.provisions import NAMESPACE, World
from zae_limiter_manifest import dump, load

TEXT = f"""
namespace: {NAMESPACE}
system: {{limits: {{rpm: 10/min, tpm: 99/min}}}}
resources:
  gpt-4: {{limits: {{rpm: 5/min}}, extends: true}}
tiers:
  gold: {{resources: {{_default_: {{limits: {{rpm: 100/min}}, extends: true}}}}}}
entities:
  key: {{parent: team, tier: gold, cascade: true}}
  team: {{resources: {{_default_: {{limits: unlimited}}}}}}
"""


def test_modes_are_applied_exported_and_planned(world: World) -> None:
    assert world.apply(load(TEXT)).status == "applied"
    repository = world.repository()
    assert repository.resolve_limits("key", "gpt-4").sources == {"rpm": "tier_default", "tpm": "system"}
    assert repository.resolve_limits("team", "gpt-4").unlimited
    plan = world.ask("plan", load(TEXT)).plan
    assert plan is not None
    assert plan.changes == ()
    assert "limits: unlimited" in dump(world.live())


def test_an_export_reads_modes_set_by_hand(world: World) -> None:
    world.apply(load(TEXT))
    world.repository().set_limits("team", ["rpm: 5/min"], extends=True)
    plan = world.ask("plan", load(TEXT)).plan
    assert plan is not None
    [change] = plan.changes
    assert change.drift
    assert {(each.field, each.before, each.after) for each in change.fields() if each.limit is None} == {
        ("unlimited", "no", "yes"),
        ("extends", "yes", "no"),
    }
