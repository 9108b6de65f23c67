import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from zae_limiter_manifest import (
    EntityDecl,
    LimitDecl,
    LimitsManifest,
    ManagedSet,
    ManifestError,
    ResourceDecl,
    SystemDecl,
    dump,
    load,
)

DESIGN = """\
namespace: tenant-alpha
system:
  on_unavailable: allow          # allow | block
  limits:
    rpm: {capacity: 10000}
    tpm: {capacity: 100000}
resources:
  gpt-4:
    limits:
      rpm: {capacity: 1000}
      tpm: {capacity: 50000, burst: 75000, refill_amount: 50000, refill_period: 60}
entities:
  user-123:
    resources:
      gpt-4:
        limits: {rpm: {capacity: 500}}
      _default_:
        limits: {rpm: {capacity: 200}}
"""

short_names = st.from_regex(r"\A[A-Za-z][A-Za-z0-9_.-]{0,9}\Z").filter(lambda name: name not in ("name", "version"))
limits = st.builds(
    lambda capacity, more, refill, period: LimitDecl(
        capacity, burst=capacity + more, refill_amount=refill, refill_period=period
    ),
    st.integers(1, 1000),
    st.integers(0, 3),
    st.integers(1, 10**15),
    st.integers(1, 3_153_600_000),
) | st.builds(LimitDecl, st.integers(1, 10**15))
limit_maps = st.dictionaries(st.sampled_from(["rpm", "tpm", "on", "null", "a.b"]), limits, min_size=1)
systems = st.builds(
    SystemDecl, on_unavailable=st.sampled_from([None, "allow", "block"]), limits=st.just({}) | limit_maps
)
resources = st.builds(ResourceDecl, limit_maps)
entities = st.builds(
    EntityDecl, st.dictionaries(st.sampled_from(["_default_", "gpt-4", "a/b:1"]), resources, min_size=1)
)
manifests = st.builds(
    LimitsManifest,
    short_names,
    system=st.none() | systems,
    resources=st.dictionaries(short_names, resources, max_size=3),
    entities=st.dictionaries(st.sampled_from(["1", "0x1f", "2024-01-01", "1:30", "u@x"]), entities, max_size=3),
)


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
    example = Path(__file__).parents[3] / "examples" / "tenant-alpha.limits.yaml"
    assert load(example.read_text("utf-8"), example.name).namespace == "tenant-alpha"


def test_aliases_share_limits() -> None:
    manifest = load("namespace: a\nresources:\n  r1: &r {limits: {rpm: {capacity: 5}}}\n  r2: *r\n")
    assert manifest.resources["r2"] == ResourceDecl({"rpm": LimitDecl(5)})


def test_from_dict_tells_every_mistake_without_a_place() -> None:
    with pytest.raises(ManifestError) as caught:
        LimitsManifest.from_dict(
            {"namespace": "a", "systems": {}, "system": {"limits": {"rpm": {"capacity": 0}}}}, "event"
        )
    assert str(caught.value).splitlines() == [
        'event: systems: unknown key "systems", did you mean `system`?',
        "event: system.limits.rpm.capacity: must be at least 1, not 0",
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
def test_what_is_dumped_loads_as_an_equal_manifest(manifest: LimitsManifest) -> None:
    assert load(dump(manifest)) == manifest
    assert LimitsManifest.from_dict(json.loads(json.dumps(manifest.to_dict()))) == manifest
    assert load(dump(manifest)).canonical_hash() == manifest.canonical_hash()


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
    assert load(DESIGN).canonical_hash() == "sha256:90bc92352aa01ad42a1d458a1e3d16105bedc661032c3cc83309a37056d7357d"


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
