"""Calendar windows and totals: applied, exported, and restored where somebody changed them."""

from support.provisioner.provisions import World, manifest
from support.provisioner.stack_sender import Stack
from zae_limiter import Limit
from zae_limiter_manifest import LimitsManifest

USD = {"capacity": 250, "burst": 350, "window": "month", "timezone": "Europe/Berlin", "starts_on": 15}
SEATS = {"capacity": 3, "window": "0 6 * * MON", "timezone": "Europe/Berlin"}
CREDITS = {"capacity": 500, "kind": "total"}


def wanted() -> LimitsManifest:
    return manifest(resources={"gpt-4": {"limits": {"credits": CREDITS, "seats": SEATS, "usd": USD}}})


def test_an_apply_stores_them_and_an_export_has_them(world: World) -> None:
    world.apply(wanted())
    assert world.repository().get_resource_defaults("gpt-4") == [
        Limit.total("credits", 500),
        Limit.quota("seats", 3, cron="0 6 * * MON", timezone="Europe/Berlin"),
        Limit.per_month("usd", 250, timezone="Europe/Berlin", starts_on=15, carry_over=100),
    ]
    assert world.live() == wanted()
    assert world.apply(wanted()).plan.changes == ()  # type: ignore[union-attr]


def test_a_window_that_is_changed_by_hand_is_drift_and_the_apply_restores_it(world: World) -> None:
    world.apply(wanted())
    world.repository().set_resource_defaults("gpt-4", [Limit.per_month("usd", 250, carry_over=100)])
    plan = world.ask("diff", wanted()).plan
    assert plan
    assert [(str(change.address), change.drift) for change in plan.changes] == [("resource gpt-4", True)]
    world.apply(wanted())
    assert world.live() == wanted()


def test_a_stack_has_them(stack: Stack, world: World) -> None:
    assert stack.do("Create", wanted())["Status"] == "SUCCESS"
    assert world.live() == wanted()
