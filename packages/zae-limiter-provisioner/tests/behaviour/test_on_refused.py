"""What follows a refusal: applied, exported, restored where somebody changed it, and removed with the declaration."""

from typing import Any

from support.provisioner.provisions import World, manifest
from zae_limiter import Limit, OnRefused
from zae_limiter.maintenance import SyncMaintenance
from zae_limiter_manifest import LimitsManifest

PLACES = {"system": (None, None), "resource": (None, "gpt-4"), "entity": ("acme", "gpt-4")}


def declared(on_refused: dict[str, Any] | None) -> LimitsManifest:
    policy = {} if on_refused is None else {"on_refused": on_refused}
    level = {"limits": {"rpm": {"capacity": 60}}, **policy}
    system: dict[str, Any] = {"system": policy} if policy else {}
    return manifest(**system, resources={"gpt-4": level}, entities={"acme": {"resources": {"gpt-4": level}}})


def stored(world: World) -> dict[str, OnRefused | None]:
    found = SyncMaintenance(world.repository()).get_configs([*PLACES.values()])
    return {name: found[place].on_refused if place in found else None for name, place in PLACES.items()}


def test_an_apply_sets_changes_and_removes_it_at_each_level_and_an_export_has_it(world: World) -> None:
    for said, wanted in (
        ({"wait": 2, "overflow": "credits"}, OnRefused(2, "credits")),
        ({"overflow": "credits"}, OnRefused(overflow="credits")),
        ({"overflow": "credits", "at": "80%"}, OnRefused(overflow="credits", at="80%")),
        ({}, OnRefused()),
        (None, None),
    ):
        world.apply(declared(said))
        assert stored(world) == dict.fromkeys(PLACES, wanted)
        assert world.live() == declared(said)
        assert world.apply(declared(said)).plan.changes == ()  # type: ignore[union-attr]


def test_one_that_is_changed_by_hand_is_drift_and_the_apply_restores_it(world: World) -> None:
    wanted = declared({"wait": 2})
    world.apply(wanted)
    world.repository().set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 60)], on_refused=OnRefused())
    plan = world.ask("diff", wanted).plan
    assert plan
    assert [(str(change.address), change.drift) for change in plan.changes] == [("resource gpt-4", True)]
    world.apply(wanted)
    assert stored(world)["resource"] == OnRefused(2)
