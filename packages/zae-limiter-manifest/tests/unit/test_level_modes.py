"""`limits: unlimited` and `extends: true`: how they are written, refused, compared and planned."""

import json

import pytest

from zae_limiter_manifest import (
    Address,
    Change,
    LimitDecl,
    LimitsManifest,
    ManifestError,
    ResourceDecl,
    SystemDecl,
    dump,
    fingerprint,
    load,
)
from zae_limiter_manifest.cloudformation import StackProperties
from zae_limiter_manifest.cuts import switched_off
from zae_limiter_manifest.json_schema import json_schema
from zae_limiter_manifest.left_out import find_left_out

EVERY_LEVEL = """\
namespace: a
system:
  limits: unlimited
resources:
  gpt-4:
    limits:
      rpm: 5/min
      tpm: 9/min
tiers:
  gold:
    resources:
      gpt-4:
        extends: true
        limits:
          rpm: 7/min
entities:
  team:
    resources:
      _default_:
        limits: unlimited
"""


def test_every_level_says_it_and_reads_back() -> None:
    found = load(EVERY_LEVEL)
    assert found.system == SystemDecl(unlimited=True)
    assert found.tiers["gold"].resources["gpt-4"] == ResourceDecl({"rpm": LimitDecl(7)}, extends=True)
    assert dump(found) == EVERY_LEVEL
    assert LimitsManifest.from_dict(json.loads(json.dumps(found.to_dict()))) == found
    assert StackProperties.from_dict(json.loads(json.dumps(StackProperties(found).to_dict()))).manifest == found


@pytest.mark.parametrize(
    ("level", "problem"),
    [
        ("{limits: none}", "must be a map or `unlimited`"),
        ("{limits: unlimited, extends: true}", "give `limits` with it"),
        ("{limits: {rpm: 1/min}, extends: 5}", "must be true or false"),
        ("{unlimited: true}", 'unknown key "unlimited"'),
    ],
)
def test_what_says_nothing_is_refused(level: str, problem: str) -> None:
    with pytest.raises(ManifestError, match=problem):
        load(f"namespace: a\nresources: {{g: {level}}}")


def test_the_system_has_nothing_to_extend() -> None:
    with pytest.raises(ManifestError, match='unknown key "extends"'):
        load("namespace: a\nsystem: {limits: {rpm: 1/min}, extends: true}")


def test_a_change_says_the_mode_and_keeps_it() -> None:
    before, after = ResourceDecl({"rpm": LimitDecl(5)}), ResourceDecl(unlimited=True)
    adds = ResourceDecl({"rpm": LimitDecl(5)}, extends=True)
    for old, new, field in ((before, after, "unlimited"), (before, adds, "extends"), (after, adds, "extends")):
        change = Change(Address("gpt-4"), old, new)
        assert Change.from_dict(json.loads(json.dumps(change.to_dict()))) == change
        assert (field, "no", "yes") in [each[1:] for each in change.fields()]
    assert len({fingerprint(each) for each in (before, after, adds)}) == 3
    assert switched_off(Change(Address("gpt-4"), after, before)) == "ends `limits: unlimited`"
    assert not switched_off(Change(Address("gpt-4"), before, after))


def test_a_level_that_extends_leaves_nothing_out() -> None:
    assert not [*find_left_out(load(EVERY_LEVEL))]
    assert [each.path for each in find_left_out(load(EVERY_LEVEL.replace("        extends: true\n", "")))]


def test_the_schema_knows_both() -> None:
    level = json_schema()["$defs"]["ResourceDecl"]["properties"]
    assert level["limits"]["anyOf"][0] == {"const": "unlimited"}
    assert level["extends"]["type"] == "boolean"
    assert "extends" not in json_schema()["$defs"]["SystemDecl"]["properties"]


@pytest.mark.parametrize(
    "tier",
    ["{extends: pro, resources: {r: {limits: {n: 1/min}}}}", "{resources: {r: {extends: pro, limits: {n: 1/min}}}}"],
)
def test_a_tier_does_not_extend_another_one(tier: str) -> None:
    with pytest.raises(ManifestError, match="not of another tier; tiers share them by an anchor of `x-…`"):
        load(f"namespace: shop\ntiers: {{max: {tier}}}\n", "limits.yaml")
