"""The weights of a limit: in a manifest, in CloudFormation's spelling, in plans, and what is not a weight."""

import json
from typing import Any

import pytest

from zae_limiter_manifest import (
    Address,
    Change,
    LimitDecl,
    LimitsManifest,
    LiveOverride,
    ManifestError,
    ResourceDecl,
    WeightsDecl,
    dump,
    fingerprint,
    load,
)
from zae_limiter_manifest.cloudformation import StackProperties
from zae_limiter_manifest.json_schema import json_schema
from zae_limiter_manifest.render.words import live_and_declared, override_limits, parts

PLAIN = LimitDecl(1000)
WEIGHTED = LimitDecl(1000, weights=WeightsDecl(input=1, cached=0.1, output=4))
TEXT = """\
namespace: a
resources:
  gpt-4:
    limits:
      tpm:
        capacity: 1000
        weights:
          input: 1
          cached: 0.1
          output: 4
"""


def limit_of(manifest: LimitsManifest) -> LimitDecl:
    return manifest.resources["gpt-4"].limits["tpm"]


def change(before: LimitDecl | None, after: LimitDecl | None) -> Change:
    old, new = (ResourceDecl({"tpm": each}) if each else None for each in (before, after))
    return Change(Address("gpt-4"), old, new)


def problems(weights: str) -> str:
    with pytest.raises(ManifestError) as caught:
        load(f"namespace: a\nsystem: {{limits: {{tpm: {{capacity: 5, weights: {weights}}}}}}}\n", "limits.yaml")
    return str(caught.value)


def test_a_manifest_is_loaded_and_dumped_with_its_weights() -> None:
    manifest = load(TEXT, "limits.yaml")
    assert limit_of(manifest) == WEIGHTED
    assert load(dump(manifest), "limits.yaml") == manifest
    assert LimitsManifest.from_dict(json.loads(json.dumps(manifest.to_dict())), "m") == manifest


def test_no_weights_are_the_same_as_none() -> None:
    assert LimitDecl(1000, weights=WeightsDecl()) == PLAIN
    assert limit_of(load(TEXT.replace("input: 1", "input: 1").split("        weights")[0], "limits.yaml")) == PLAIN
    assert fingerprint(ResourceDecl({"tpm": PLAIN})) != fingerprint(ResourceDecl({"tpm": WEIGHTED}))


def test_cloudformation_passes_weights_as_text() -> None:
    properties = StackProperties(load(TEXT, "limits.yaml"))
    plain: dict[str, Any] = json.loads(json.dumps(properties.to_dict()))
    weights = plain["Resources"]["gpt-4"]["Limits"]["tpm"]["Weights"]
    assert weights == {"Input": 1, "Cached": 0.1, "Output": 4}
    weights.update({"Input": "1", "Cached": "0.1", "Output": "4.0"})
    assert limit_of(StackProperties.from_dict(plain).manifest) == WEIGHTED
    weights["Cached"] = "much"
    with pytest.raises(ManifestError, match=r'Cached: must be a number, not the string "much"'):
        StackProperties.from_dict(plain)


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (PLAIN, WEIGHTED, "weights none -> input=1,cached=0.1,output=4"),
        (WEIGHTED, PLAIN, "weights input=1,cached=0.1,output=4 -> none"),
        (None, WEIGHTED, "1k/min, weights input=1,cached=0.1,output=4"),
        (WEIGHTED, None, "1k/min, weights input=1,cached=0.1,output=4"),
    ],
)
def test_a_plan_shows_changed_weights(before: LimitDecl | None, after: LimitDecl | None, said: str) -> None:
    each = change(before, after)
    assert [part.text for part in parts(each)] == [said]
    assert Change.from_dict(json.loads(json.dumps(each.to_dict()))) == each


def test_drift_and_overrides_show_weights() -> None:
    assert live_and_declared(change(PLAIN, WEIGHTED)) == ["tpm: weights is none, declared input=1,cached=0.1,output=4"]
    override = LiveOverride(Address("gpt-4", "user-1"), "2026-11-27T18:00:00Z", ResourceDecl({"tpm": WEIGHTED}))
    assert [part.text for part in override_limits(override)] == ["1k/min, weights input=1,cached=0.1,output=4"]


@pytest.mark.parametrize(
    ("weights", "problem"),
    [
        ("{input: -1}", "weights.input: must be from 0 to 1000000, not -1"),
        ("{input: 1000001}", "weights.input: must be from 0 to 1000000"),
        ("{input: 0.0000001}", "weights.input: must have at most six decimals"),
        ("{input: .nan}", "weights.input: must be"),
        ("{input: true}", "weights.input: must be a number"),
        ("{input: '1'}", "weights.input: must be a number"),
        ("{outputs: 1}", "did you mean `output`?"),
        ("4", "weights: must be a map"),
    ],
)
def test_what_is_no_weight_is_refused_by_its_place(weights: str, problem: str) -> None:
    assert problem in problems(weights)


def test_the_schema_has_the_kinds() -> None:
    definition = json_schema()["$defs"]["WeightsDecl"]
    assert [*definition["properties"]] == ["input", "cached", "cache_write", "output", "reasoning"]
    assert definition["properties"]["cached"]["maximum"] == 1_000_000
