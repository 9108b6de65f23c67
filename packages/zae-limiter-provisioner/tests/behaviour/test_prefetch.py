"""The seconds that tokens may be prefetched: applied, exported, restored where somebody changed them."""

from support.provisioner.provisions import World, manifest
from zae_limiter import Limit
from zae_limiter_manifest import LimitsManifest

OFF, ON = Limit.per_minute("tpm", 600), Limit.per_minute("tpm", 600, prefetch=1)


def holding(**seconds: float) -> LimitsManifest:
    """A system, a resource and an entity, each with these seconds, if any, at the level."""
    level = {**seconds, "limits": {"tpm": {"capacity": 600}}}
    return manifest(system=level, resources={"gpt-4": level}, entities={"u": {"resources": {"gpt-4": level}}})


def test_an_apply_sets_changes_and_removes_the_seconds_and_an_export_has_them(world: World) -> None:
    for wanted in (holding(), holding(prefetch=1), holding(prefetch=0.25), holding()):
        world.apply(wanted)
        assert world.live() == wanted
        assert world.apply(wanted).plan.changes == ()  # type: ignore[union-attr]
    world.apply(holding(prefetch=1))
    repository = world.repository()
    found = (repository.get_system_defaults()[0], repository.get_resource_defaults("gpt-4"))
    assert found == ([ON], [ON])
    assert repository.get_limits("u", "gpt-4") == [ON]


def test_seconds_that_are_changed_by_hand_are_drift_and_the_apply_restores_them(world: World) -> None:
    world.apply(holding(prefetch=1))
    world.repository().set_system_defaults([OFF])
    plan = world.ask("diff", holding(prefetch=1)).plan
    assert plan
    assert [(str(change.address), change.drift) for change in plan.changes] == [("system", True)]
    world.apply(holding(prefetch=1))
    assert world.live() == holding(prefetch=1)


def test_limits_without_the_seconds_are_stored_as_by_releases_before_them(world: World) -> None:
    world.apply(holding())
    assert not [name for item in world.items() for name in item if name.endswith("_pf")]
