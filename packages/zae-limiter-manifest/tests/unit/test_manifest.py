import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings

from support.manifest.manifests import DESIGN, manifests, resource
from zae_limiter_manifest import (
    Address,
    EntityDecl,
    LimitDecl,
    LimitsManifest,
    ManagedSet,
    ManifestError,
    ResourceDecl,
    SystemDecl,
    dump,
    load,
    load_all,
)
from zae_limiter_manifest.manifest import MANIFEST, MOST_ENTITIES


def test_the_manifest_of_the_design_loads() -> None:
    assert load(DESIGN) == LimitsManifest(
        "tenant-alpha",
        system=SystemDecl(on_unavailable="allow", limits={"rpm": LimitDecl(10_000), "tpm": LimitDecl(100_000)}),
        resources={"gpt-4": ResourceDecl({"rpm": LimitDecl(1000), "tpm": LimitDecl(50_000, burst=75_000)})},
        entities={
            "user-123": EntityDecl(
                {"gpt-4": ResourceDecl({"rpm": LimitDecl(500)}), "_default_": ResourceDecl({"rpm": LimitDecl(200)})}
            )
        },
    )


def test_the_example_loads() -> None:
    example = Path(__file__).parents[4] / "examples" / "tenant-alpha.limits.yaml"
    assert load(example.read_text("utf-8"), example.name).namespace == "tenant-alpha"


def test_aliases_share_limits() -> None:
    manifest = load("namespace: a\nresources:\n  r1: &r {limits: {rpm: {capacity: 5}}}\n  r2: *r\n")
    assert manifest.resources["r2"] == ResourceDecl({"rpm": LimitDecl(5)})


def test_from_dict_tells_every_mistake_without_a_place() -> None:
    with pytest.raises(ManifestError) as caught:
        LimitsManifest.from_dict(
            {"namespace": "a", "systems": {}, "system": {"limits": {"rpm": {"capacity": -1}}}}, "event"
        )
    assert str(caught.value).splitlines() == [
        'event: systems: unknown key "systems", did you mean `system`?',
        "event: system.limits.rpm.capacity: must be at least 0, not -1",
    ]


@pytest.mark.parametrize("raw", [None, [], "x", 5, {1: 2}, {"namespace": {}}])
def test_from_dict_refuses_what_is_no_manifest(raw: Any) -> None:
    with pytest.raises(ManifestError):
        LimitsManifest.from_dict(raw)


def test_a_system_that_says_nothing_is_none() -> None:
    assert load("namespace: a\nsystem: {}\nresources: {}\nentities: {}\n") == LimitsManifest("a")
    assert LimitsManifest("a", system=SystemDecl()).system is None


@given(manifests)
@settings(max_examples=60, deadline=None)
def test_plain_values_come_back_as_an_equal_manifest(manifest: LimitsManifest) -> None:
    assert LimitsManifest.from_dict(json.loads(json.dumps(manifest.to_dict()))) == manifest


@given(manifests)
@settings(max_examples=60, deadline=None)
def test_what_is_declared_by_address_makes_the_manifest_again(manifest: LimitsManifest) -> None:
    declared = dict(manifest.declared())
    assert LimitsManifest.of(manifest.namespace, declared) == manifest
    assert set(declared) == set(manifest.managed_set())
    assert list(declared) == sorted(declared, key=lambda address: address.rank)


def test_what_cannot_stand_at_an_address_makes_no_manifest() -> None:
    with pytest.raises(TypeError, match="does not belong at system"):
        LimitsManifest.of("a", {Address(): resource(rpm=1)})
    with pytest.raises(TypeError, match="does not belong at resource gpt-4"):
        LimitsManifest.of("a", {Address("gpt-4"): SystemDecl(limits={"rpm": LimitDecl(1)})})


def test_bytes_are_read_as_utf_8() -> None:
    assert load(DESIGN.encode()) == load(DESIGN)
    with pytest.raises(ManifestError) as caught:
        load("namespace: a\n# é\xff".encode("latin-1"), "f.yaml")
    assert str(caught.value) == "f.yaml:2:3: (document): not UTF-8 text: the byte 0xe9"


def test_files_of_several_namespaces_load_at_once_in_their_order() -> None:
    beta = load_all([("b.yaml", "namespace: beta"), ("a.yaml", b"namespace: alpha")])
    assert [manifest.namespace for manifest in beta] == ["beta", "alpha"]
    assert load_all([]) == ()


def test_mistakes_of_all_files_are_told_at_once_also_of_one_namespace() -> None:
    with pytest.raises(ManifestError) as caught:
        load_all([("a.yaml", "namespace: x\nsystems: {}"), ("b.yaml", "["), ("c.yaml", "namespace: x\nsystem: 1")])
    assert [problem.file for problem in caught.value.problems] == ["a.yaml", "b.yaml", "c.yaml"]


def test_to_dict_leaves_out_what_equals_its_default() -> None:
    assert load(DESIGN).to_dict()["resources"] == {
        "gpt-4": {"limits": {"rpm": {"capacity": 1000}, "tpm": {"capacity": 50000, "burst": 75000}}}
    }
    assert LimitsManifest("a").to_dict() == {"namespace": "a"}


def _shuffled(value: Any) -> Any:
    return {key: _shuffled(value[key]) for key in reversed(value)} if isinstance(value, dict) else value


def _spelled_out(raw: dict[str, Any]) -> dict[str, Any]:
    raw["resources"]["gpt-4"]["limits"]["rpm"] |= {"burst": 1000, "refill_amount": 1000, "refill_period": 60}
    return raw


@pytest.mark.parametrize("rewrite", [_shuffled, _spelled_out])
def test_the_hash_is_blind_to_order_and_to_defaults_spelled_out(rewrite: Callable[[Any], Any]) -> None:
    assert LimitsManifest.from_dict(rewrite(yaml.safe_load(DESIGN))).canonical_hash() == load(DESIGN).canonical_hash()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("tenant-alpha", "tenant-beta"),
        ("allow  ", "block  "),
        ("75000", "75001"),
        ("{capacity: 500}", "{capacity: 501}"),
        ("_default_", "other"),
        ("user-123", "user-124"),
        ("refill_period: 60", "refill_period: 61"),
    ],
)
def test_the_hash_sees_every_change(old: str, new: str) -> None:
    assert load(DESIGN.replace(old, new)).canonical_hash() != load(DESIGN).canonical_hash()


def test_the_hash_stays_the_same_from_release_to_release() -> None:
    # Stored in the provisioner's state: another digest would make every apply look changed.
    assert load(DESIGN).canonical_hash() == "sha256:b8d15a717223528dfa6f8430ddb9950e9c2f9372d47364b28130afee7947c145"


def test_the_managed_set_names_levels_resources_and_entities() -> None:
    assert load(DESIGN).managed_set() == ManagedSet(
        system=True, resources=frozenset({"gpt-4"}), entities={"user-123": frozenset({"gpt-4", "_default_"})}
    )
    assert LimitsManifest("a").managed_set() == ManagedSet()


def test_the_constructor_refuses_bad_names_and_wrong_classes() -> None:
    with pytest.raises(ManifestError, match="namespace"):
        LimitsManifest("_")
    with pytest.raises(ManifestError, match="reserved"):
        LimitsManifest("a", resources={"_default_": ResourceDecl({"rpm": LimitDecl(1)})})
    with pytest.raises(TypeError):
        LimitsManifest("a", system={"limits": {}})  # type: ignore[arg-type]


def test_all_spellings_of_a_name_are_one() -> None:
    raw = {
        "namespace": "a",
        "resources": {"n\u0303": _limits()},
        "entities": {"e\u0301": {"resources": {"n\u0303": _limits()}}},
    }
    manifest = LimitsManifest.from_dict(raw)
    assert manifest.to_dict() == {
        "namespace": "a",
        "resources": {"ñ": _limits()},
        "entities": {"é": {"resources": {"ñ": _limits()}}},
    }
    assert manifest == load(dump(manifest))


def test_two_spellings_of_one_name_are_a_mistake() -> None:
    text = (
        'namespace: a\nresources:\n  "é": {limits: {rpm: {capacity: 1}}}\n  "e\u0301": {limits: {rpm: {capacity: 2}}}\n'
    )
    problem = "is there already, in another spelling of Unicode: leave one out"
    with pytest.raises(ManifestError) as caught:
        load(text, "a.yaml")
    assert [str(each) for each in caught.value.problems] == [f'a.yaml:4:3: resources["e\u0301"]: "e\u0301" {problem}']
    limits = ResourceDecl({"rpm": LimitDecl(1)})
    with pytest.raises(ManifestError, match=problem):
        LimitsManifest("a", resources={"é": limits, "e\u0301": limits})
    with pytest.raises(ManifestError, match=problem):
        LimitsManifest.from_dict({"namespace": "a", "resources": {"K": _limits(), "\u212a": _limits()}})


def test_manifests_that_differ_in_where_an_id_ends_have_other_hashes() -> None:
    one, other = (
        LimitsManifest.from_dict({"namespace": "a", "entities": {entity: {"resources": {resource: _limits()}}}})
        for entity, resource in (("a/b", "c"), ("a", "b/c"))
    )
    assert one.canonical_hash() != other.canonical_hash()


def _limits() -> dict[str, object]:
    return {"limits": {"rpm": {"capacity": 1}}}


@pytest.fixture
def at_most_three() -> Iterator[None]:
    """A bound of three entities in place of 75,000."""
    shape = MANIFEST.members["entities"].shape
    object.__setattr__(shape, "most", 3)
    yield
    object.__setattr__(shape, "most", MOST_ENTITIES)


TOO_MANY = "entities: must have at most 3 entries, not 4: divide the entities among several namespaces"


@pytest.mark.usefixtures("at_most_three")
def test_more_entities_than_an_apply_has_memory_for_are_one_mistake_that_says_what_to_do() -> None:
    head = "namespace: a\nentities:\n"
    assert len(load(f"{head}  e1: {{}}\n  e2: {{}}\n  e3: {{}}\n").entities) == 3
    with pytest.raises(ManifestError) as caught:
        load(f"{head}  e1: {{x: 1}}\n  e2: {{}}\n  e3: {{}}\n  e4: {{}}\n", "big.yaml")
    assert str(caught.value) == f"big.yaml:3:3: {TOO_MANY}"
    with pytest.raises(ManifestError, match=TOO_MANY):
        load_all([("1.yaml", f"{head}  e1: {{}}\n  e2: {{}}\n"), ("2.yaml", f"{head}  e3: {{}}\n  e4: {{}}\n")])
    with pytest.raises(ManifestError, match=TOO_MANY):
        LimitsManifest.from_dict({"namespace": "a", "entities": {f"e{number}": {} for number in range(4)}})


def test_loading_reports_what_it_is_at() -> None:
    said: list[str] = []
    text = "namespace: a\nentities: {ann: {resources: {api: {limits: {rpm: 1/min}}}}}\n"
    load_all([("a.yaml", text)], said.append)
    assert said == ["checking a.yaml", "making the declarations"]


def test_reading_reports_its_share_of_a_large_file() -> None:
    said: list[str] = []
    entities = "".join(f"  {number}a: {{}}\n" for number in range(4_096))
    load_all([("a.yaml", f"namespace: a\nentities:\n{entities}")], said.append)
    assert said[0].startswith("reading a.yaml: ")
    assert said[0].endswith("%")


@pytest.mark.parametrize("odd", [True, 1.0])
def test_a_limit_that_equals_a_valid_one_only_to_python_is_refused(odd: object) -> None:
    plain = {name: {"limits": {"rpm": {"capacity": capacity}}} for name, capacity in (("a", 1), ("b", odd))}
    for read in (LimitsManifest.from_dict, lambda raw: load(yaml.safe_dump(raw))):
        with pytest.raises(ManifestError) as caught:
            read({"namespace": "n", "resources": plain})
        assert [problem.path for problem in caught.value.problems] == ["resources.b.limits.rpm.capacity"]


def test_equal_limits_of_entities_are_one_value() -> None:
    manifest = load("namespace: n\nentities:\n  a: &x {resources: {r: {limits: {rpm: 7/min}}}}\n  b: *x\n")
    first, second = (decl.resources["r"] for decl in manifest.entities.values())
    assert first is second
