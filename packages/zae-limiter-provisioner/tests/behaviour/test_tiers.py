"""Tiers, declared: written before their entities, changed by one write, exported, guarded, and told from by hand."""

import pytest

from support.provisioner.provisions import NAMESPACE, World, manifest, rpm
from support.provisioner.stack_sender import Stack
from zae_limiter_manifest import LimitsManifest, ManifestError, dump, load
from zae_limiter_manifest.render.as_text import render_plan

GOLD = """
namespace: {namespace}
tiers:
  gold: {{resources: {{_default_: {{limits: {{rpm: {rpm}/min}}}}, gpt-4: {{limits: {{rpm: 5/min}}}}}}}}
  free: {{resources: {{_default_: {{limits: {{rpm: 1/min}}}}}}}}
entities:
  acme: {{tier: gold}}
  tiny: {{tier: free, resources: {{gpt-4: {{limits: {{rpm: 7/min}}}}}}}}
"""


def declared(amount: int = 100) -> LimitsManifest:
    return load(GOLD.format(namespace=NAMESPACE, rpm=amount))


def test_tiers_are_applied_and_a_second_apply_changes_nothing(world: World) -> None:
    answer = world.apply(declared())
    assert answer.status == "applied"
    repository = world.repository()
    assert repository.list_tiers() == {"free": ["_default_"], "gold": ["_default_", "gpt-4"]}
    assert repository.resolve_limits("acme", "r") == (rpm(100), None, "tier_default")
    assert repository.resolve_limits("acme", "gpt-4") == (rpm(5), None, "tier")
    assert repository.resolve_limits("tiny", "gpt-4") == (rpm(7), None, "entity")
    plan = world.ask("plan", declared()).plan
    assert plan is not None
    assert plan.changes == ()


def test_one_change_of_a_tier_is_one_line_and_two_writes_beside_the_state(world: World) -> None:
    entities = "".join(f"  e{number}: {{tier: gold}}\n" for number in range(300))
    before = load(GOLD.format(namespace=NAMESPACE, rpm=100) + entities)
    after = load(GOLD.format(namespace=NAMESPACE, rpm=200) + entities)
    world.apply(before)
    plan = world.ask("plan", after).plan
    assert plan is not None
    assert render_plan(plan).splitlines()[1:3] == [
        "  ~ tier gold/_default_ (reaches 301 entities)",
        "      ~ rpm: capacity 100 -> 200",
    ]
    assert len(plan.changes) == 1
    untouched = [item for item in world.items() if "/TIER#" not in item["PK"]]
    assert world.apply(after).status == "applied"
    new = [item for item in world.items() if item not in untouched and "SYSTEM#" not in item["PK"]]
    kinds = sorted(item["PK"].partition("/")[2] for item in new if "APPLIES#" not in item["PK"])
    changed = [kind for kind in kinds if not kind.startswith("TIER#")]
    assert changed == ["AUDIT#$TIER:gold"]
    assert world.repository().resolve_limits("e7", "r") == (rpm(200), None, "tier_default")


def test_an_export_reads_back_and_plans_nothing(world: World) -> None:
    world.repository().set_tier_limits("gold", rpm(9), "gpt-4")
    world.repository().create_entity("acme", tier="gold")
    exported = world.ask("export").manifest
    assert exported is not None
    assert exported.to_dict()["entities"] == {"acme": {"tier": "gold"}}
    assert load(dump(exported)) == exported
    adopted = world.ask("plan", exported).plan
    assert adopted is not None
    assert [(str(change.address), change.fields(), change.adopted) for change in adopted.changes] == [
        ("tier gold/gpt-4", (), True),
        ("entity acme", (), True),
    ]
    world.apply(exported)
    plan = world.ask("plan", exported).plan
    assert plan is not None
    assert plan.changes == ()


def test_what_is_changed_by_hand_is_drift(world: World) -> None:
    world.apply(declared())
    repository = world.repository()
    repository.set_tier_limits("gold", rpm(3))
    repository.update_entity("acme", tier="free")
    plan = world.ask("diff", declared()).plan
    assert plan is not None
    assert [(str(change.address), change.drift) for change in plan.changes] == [
        ("tier gold/_default_", True),
        ("entity acme", True),
    ]
    world.apply(declared())
    assert world.repository().resolve_limits("acme", "r") == (rpm(100), None, "tier_default")


def test_a_tier_that_others_keep_does_not_go(world: World) -> None:
    world.apply(declared())
    world.repository().create_entity("by-hand", tier="free")
    without = load(f"namespace: {NAMESPACE}\nentities: {{acme: {{}}, tiny: {{}}}}\n")
    (failure,) = world.ask("plan", without).errors
    assert failure.code == "tier_in_use"
    assert failure.message == (
        "tier free would go, and by-hand would keep it: declare it, or give them another tier first"
    )
    world.repository().update_entity("by-hand", tier=None)
    assert world.apply(without).status == "applied"
    assert world.repository().list_tiers() == {}


def test_tiers_set_by_hand_disturb_nobody_and_are_counted(world: World) -> None:
    world.repository().set_tier_limits("silver", rpm(9))
    plan = world.ask("diff", declared()).plan
    assert plan is not None
    assert [str(address) for address in plan.unmanaged] == ["tier silver/_default_"]
    assert world.apply(declared()).status == "applied"
    assert world.repository().get_tier_limits("silver") == rpm(9)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("entities: {acme: {tier: gold}}", '"gold" is not a tier of this manifest: declare it in `tiers`'),
        (
            "tiers: {gold: {resources: {r: {limits: {rpm: 1/min}}}}}\nentities: {acme: {tier: golf}}",
            '"golf" is not a tier of this manifest, did you mean `gold`?',
        ),
        ("tiers: {gold: {resources: {r: {disabled: true}}}}", 'unknown key "disabled"'),
        ("tiers: {gold: {}}", "`resources` is missing"),
        ("tiers: {1st: {resources: {r: {limits: {rpm: 1/min}}}}}", '"1st" must be a letter'),
    ],
)
def test_mistakes_are_named(text: str, problem: str) -> None:
    with pytest.raises(ManifestError) as found:
        load(f"namespace: n\n{text}\n")
    assert problem in str(found.value)


def test_a_stack_creates_tiers_changes_them_and_takes_them_away(stack: Stack, world: World) -> None:
    assert stack.do("Create", declared())["Data"]["Created"] == 6
    assert world.live() == declared()
    assert stack.do("Update", declared(200))["Data"]["Updated"] == 1
    assert world.repository().resolve_limits("acme", "r") == (rpm(200), None, "tier_default")
    assert stack.do("Delete", declared(200))["Status"] == "SUCCESS"
    assert (world.live(), world.repository().list_tiers()) == (manifest(), {})
