"""What holds for any manifests and any limits made by hand."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from support.provisioner.provisions import World, limits, rpm
from zae_limiter_manifest import Address, LimitsManifest

few = settings(max_examples=40, deadline=None)
RESOURCES = ("gpt-4", "gpt-5", "openai/o1")
ENTITIES = ("user-1", "user-2")
amounts = st.integers(1, 5)
capacities = st.builds(limits, amounts)
systems = st.fixed_dictionaries(
    {},
    optional={
        "on_unavailable": st.sampled_from(["allow", "block", "share"]),
        "limits": capacities.map(lambda it: it["limits"]),
    },
)
manifests = st.fixed_dictionaries(
    {"namespace": st.just("tenant-alpha")},
    optional={
        "system": systems,
        "resources": st.dictionaries(st.sampled_from(RESOURCES), capacities),
        "entities": st.dictionaries(
            st.sampled_from(ENTITIES),
            st.fixed_dictionaries(
                {"resources": st.dictionaries(st.sampled_from((*RESOURCES, "_default_")), capacities, min_size=1)}
            ),
        ),
    },
).map(LimitsManifest.from_dict)
places = st.one_of(
    st.builds(Address, st.sampled_from(RESOURCES)),
    st.builds(Address, st.sampled_from((*RESOURCES, "_default_")), st.sampled_from(ENTITIES)),
)
hands = st.dictionaries(places, st.one_of(st.none(), amounts), max_size=4)


def by_hand(world: World, changes: dict[Address, int | None]) -> None:
    repository = world.repository()
    for at, capacity in changes.items():
        entity, resource = at.entity, str(at.resource)
        if entity is None and capacity is None:
            repository.delete_resource_defaults(resource)
        elif entity is None:
            repository.set_resource_defaults(resource, rpm(capacity or 0))
        elif capacity is None:
            repository.delete_limits(entity, resource)
        else:
            repository.set_limits(entity, rpm(capacity), resource)


@few
@given(before=manifests, hand=hands, wanted=manifests)
def test_managed_items_end_as_declared_and_others_never_change(
    before: LimitsManifest, hand: dict[Address, int | None], wanted: LimitsManifest
) -> None:
    world = World()
    world.apply(before)
    by_hand(world, hand)
    live = dict(world.live().declared())
    others = {
        at: decl for at, decl in live.items() if at not in wanted.managed_set() and at not in before.managed_set()
    }
    world.apply(wanted)
    assert dict(world.live().declared()) == {**others, **dict(wanted.declared())}


@few
@given(before=manifests, hand=hands, wanted=manifests)
def test_what_was_planned_is_what_is_applied_and_a_second_plan_is_empty(
    before: LimitsManifest, hand: dict[Address, int | None], wanted: LimitsManifest
) -> None:
    world = World()
    world.apply(before)
    by_hand(world, hand)
    plan: Any = world.ask("plan", wanted).plan
    done: Any = world.apply(wanted, expected_serial=plan.serial, expected_plan=plan.changes_hash()).plan
    assert done.changes == plan.changes
    assert world.ask("plan", wanted).plan.changes == ()  # type: ignore[union-attr]
    assert world.ask("diff", wanted).plan.changes == ()  # type: ignore[union-attr]
