import pytest

from support.provisioner.provisions import EVERY_LEVEL, NAMESPACE, World, limits, manifest, rpm
from zae_limiter_manifest import Address, LimitsManifest


@pytest.mark.parametrize("action", ["plan", "diff"])
@pytest.mark.parametrize("registered", [False, True])
def test_a_plan_and_a_diff_of_a_new_namespace_create_everything_and_write_nothing(
    world: World, action: str, *, registered: bool
) -> None:
    if registered:
        world.repository()
    before, store = world.items(), world.store()
    plan = world.ask(action, EVERY_LEVEL, store=store).plan
    assert plan
    assert (plan.created, plan.updated, plan.serial) == (4, 0, 0)
    assert store.written == []
    assert world.items() == before


@pytest.mark.parametrize("action", ["export", "state"])
def test_an_export_and_a_state_write_nothing(world: World, action: str) -> None:
    world.apply(EVERY_LEVEL)
    before, store = world.items(), world.store()
    answer = world.ask(action, store=store)
    assert (answer.status, store.written) == ("planned", [])
    assert world.items() == before
    assert answer.plan
    assert answer.plan.managed == 4


@pytest.mark.parametrize(
    "options", [("export", {}), ("state", {}), ("unlock", {"lock_id": "abc"})], ids=lambda it: it[0]
)
def test_a_namespace_that_nobody_registered_is_refused_by_name_and_not_registered(
    world: World, options: tuple[str, dict[str, str]]
) -> None:
    world.apply(EVERY_LEVEL)
    before = world.items()
    refused = world.ask(options[0], "tenant-aplha", **options[1])
    (failure,) = refused.errors
    assert (refused.status, refused.namespace, failure.code) == ("failed", "tenant-aplha", "namespace_not_found")
    assert failure.message.startswith("there is no namespace tenant-aplha in stack: ")
    assert world.items() == before


def test_a_plan_never_touches_the_table_of_one_that_stands(world: World) -> None:
    world.apply(EVERY_LEVEL)
    before, store = world.items(), world.store()
    plan = world.ask("plan", manifest(), store=store).plan
    assert plan
    assert plan.deleted == 4
    assert (store.written, world.items()) == ([], before)


def test_a_diff_counts_what_nobody_manages(world: World) -> None:
    world.apply(EVERY_LEVEL)
    world.repository().set_limits("user-9", rpm(9))
    world.repository().set_resource_defaults("by-hand", rpm(7))
    plan = world.ask("diff", EVERY_LEVEL).plan
    assert plan
    assert plan.changes == ()
    assert plan.unmanaged == (Address("by-hand"), Address("_default_", "user-9"))


def test_what_was_exported_and_is_applied_changes_no_limit_and_is_owned_then(world: World) -> None:
    repository = world.repository()
    repository.set_system_defaults(rpm(100), "allow")
    repository.set_resource_defaults("openai/gpt-4", rpm(50))
    repository.set_limits("user-1", rpm(5))
    exported = world.ask("export").manifest
    assert exported
    world.apply(exported)
    assert world.live() == exported
    assert world.ask("export").manifest == exported
    assert world.apply(exported).plan.changes == ()  # type: ignore[union-attr]
    assert world.ask("state").state.managed == exported.managed_set()  # type: ignore[union-attr]


def test_a_saved_plan_is_applied_as_it_was_planned(world: World) -> None:
    plan = world.ask("plan", EVERY_LEVEL).plan
    assert plan
    world.apply(EVERY_LEVEL, expected_serial=plan.serial, expected_plan=plan.changes_hash())


def test_a_saved_plan_is_refused_after_anybody_applied(world: World) -> None:
    plan = world.ask("plan", EVERY_LEVEL).plan
    assert plan
    world.apply(manifest(resources={"gpt-4": limits(1)}))
    refused = world.ask("apply", EVERY_LEVEL, expected_serial=plan.serial, expected_plan=plan.changes_hash())
    (failure,) = refused.errors
    assert (refused.status, failure.code) == ("failed", "stale")


def test_a_saved_plan_is_refused_where_limits_have_changed(world: World) -> None:
    world.apply(EVERY_LEVEL)
    plan = world.ask("plan", manifest()).plan
    assert plan
    world.repository().set_resource_defaults("gpt-4", rpm(3))
    refused = world.ask("apply", manifest(), expected_serial=plan.serial, expected_plan=plan.changes_hash())
    (failure,) = refused.errors
    assert failure.code == "different_plan"
    assert world.repository().get_resource_defaults("gpt-4") == rpm(3)


def test_limits_of_another_namespace_are_not_seen(world: World) -> None:
    world.apply(EVERY_LEVEL)
    other = LimitsManifest.from_dict({**EVERY_LEVEL.to_dict(), "namespace": "tenant-beta"})
    assert world.ask("plan", other).plan.created == 4  # type: ignore[union-attr]
    assert world.ask("export", NAMESPACE).manifest == EVERY_LEVEL
