"""The mark of shadow limits: on a limit, on its level, and what is not a mark."""

from typing import Any

import pytest
from hypothesis import given, settings

from support.manifest.manifests import manifests
from zae_limiter_manifest import (
    Address,
    LimitDecl,
    LimitsManifest,
    LiveOverride,
    ManifestError,
    ResourceDecl,
    dump,
    load,
)
from zae_limiter_manifest.render.words import override_limits

SHADOWS = LimitDecl(5, shadow=True)

MARKED_LEVEL = """\
namespace: a
system: {on_unavailable: allow, shadow: true, limits: {rpm: {capacity: 5}}}
resources: {gpt-4: {shadow: true, limits: {rpm: {capacity: 5, shadow: true}, tpm: {capacity: 5}}}}
entities: {u: {resources: {_default_: {shadow: true, limits: {rpm: {capacity: 5}}}}}}
"""
MARKED_LIMITS = """\
namespace: a
system:
  on_unavailable: allow
  limits:
    rpm: {capacity: 5, shadow: true}
resources:
  gpt-4:
    limits:
      rpm: {capacity: 5, shadow: true}
      tpm: {capacity: 5, shadow: true}
entities:
  u:
    resources:
      _default_:
        limits:
          rpm: {capacity: 5, shadow: true}
"""


def test_a_limit_is_enforced_unless_it_is_marked() -> None:
    limits = "{a: {capacity: 5}, b: {capacity: 5, shadow: false}, c: {capacity: 5, shadow: true}}"
    system = load(f"namespace: a\nsystem: {{limits: {limits}}}").system
    assert system is not None
    assert system.limits == {"a": LimitDecl(5), "b": LimitDecl(5), "c": SHADOWS}


def test_the_mark_of_a_level_is_that_of_each_of_its_limits() -> None:
    assert load(MARKED_LEVEL) == load(MARKED_LIMITS)
    assert load(MARKED_LEVEL).canonical_hash() == load(MARKED_LIMITS).canonical_hash()
    assert dump(load(MARKED_LEVEL)) == MARKED_LIMITS.replace("{capacity: 5, shadow: true}", "5/min shadow")


def test_a_false_mark_of_a_level_says_no_more_than_none() -> None:
    assert load(MARKED_LIMITS.replace("shadow: true", "shadow: false")) == load(
        MARKED_LIMITS.replace(", shadow: true", "")
    )
    assert load(MARKED_LEVEL.replace("shadow: true", "shadow: false")) == load(
        MARKED_LIMITS.replace(", shadow: true", "")
    )


@pytest.mark.parametrize(
    ("level", "limit"), [("true", "false"), ("false", "true")], ids=["enforced below shadow", "shadow below enforced"]
)
def test_a_limit_may_not_contradict_its_level(level: str, limit: str) -> None:
    limits = f"{{rpm: {{capacity: 5, shadow: {limit}}}, tpm: {{capacity: 1}}}}"
    text = f"namespace: a\nsystem:\n  shadow: {level}\n  limits: {limits}"
    with pytest.raises(ManifestError) as caught:
        load(text, "limits.yaml")
    assert str(caught.value) == (
        f"limits.yaml:4:39: system.limits.rpm.shadow: must not be {limit}: the level has `shadow: {level}`, "
        "which is for all of its `limits`; leave one of them out"
    )


def test_a_mark_needs_limits() -> None:
    with pytest.raises(ManifestError, match=r"2:10: system\.shadow: is for the `limits` of this level, which has none"):
        load("namespace: a\nsystem: {shadow: true, on_unavailable: allow}")


@pytest.mark.parametrize("mark", ["yes-ish", '"true"', "1", "0", "1.0", "null", "~", "", "[true]", "{true: true}", "y"])
def test_what_is_no_boolean_is_refused_on_limits_and_levels(mark: str) -> None:
    text = f"namespace: a\nsystem:\n  shadow: {mark}\n  limits:\n    rpm:\n      capacity: 5\n      shadow: {mark}\n"
    with pytest.raises(ManifestError) as caught:
        load(text)
    found = [each for each in caught.value.problems if "must be true or false, not " in each.message]
    assert [each.path for each in found] == ["system.shadow", "system.limits.rpm.shadow"]


@pytest.mark.parametrize(
    "raw", [{"shadow": "true"}, {"shadow": 1}, {"shadow": None}, {"shadows": True}, {"Shadow": True}]
)
def test_plain_values_are_checked_as_strictly(raw: dict[str, Any]) -> None:
    with pytest.raises(ManifestError, match="hadow"):
        LimitsManifest.from_dict({"namespace": "a", "system": {"limits": {"rpm": {"capacity": 5, **raw}}}})
    with pytest.raises(ManifestError, match="shadow"):
        LimitDecl(5, shadow="true")  # type: ignore[arg-type]


def test_the_hash_of_a_manifest_without_shadow_limits_stays_the_same_from_release_to_release() -> None:
    # Stored as the hash of the last apply.
    manifest = load(
        "namespace: a\nsystem: {limits: {rpm: {capacity: 5, burst: 7}}}\nresources: {r: {limits: {tpm: {capacity: 1}}}}"
    )
    assert manifest.canonical_hash() == "sha256:559b51a4a99ff731e4744f8faf2c9e7101391c14de193c75c8a04da48885a8bf"


@given(manifests)
@settings(max_examples=60, deadline=None)
def test_marks_come_back_from_yaml_and_plain_values(manifest: LimitsManifest) -> None:
    assert load(dump(manifest)) == manifest
    assert LimitsManifest.from_dict(manifest.to_dict()) == manifest


def test_an_override_by_shadow_limits_is_shown_with_the_mark() -> None:
    override = LiveOverride(Address("gpt-4", "user-1"), "2026-11-27T18:00:00Z", ResourceDecl({"rpm": SHADOWS}))
    assert [(part.name, part.text) for part in override_limits(override)] == [("rpm", "5/min shadow")]
