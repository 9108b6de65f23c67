"""What follows a refusal: in a manifest, in CloudFormation's spelling, in plans, and what is not a policy."""

import json
from typing import Any

import pytest

from zae_limiter_manifest import (
    Change,
    EntityDecl,
    LimitDecl,
    LimitsManifest,
    ManifestError,
    OnRefusedDecl,
    ResourceDecl,
    SystemDecl,
    dump,
    fingerprint,
    load,
)
from zae_limiter_manifest.addresses import Address
from zae_limiter_manifest.cloudformation import StackProperties
from zae_limiter_manifest.declarations import TierDecl
from zae_limiter_manifest.json_schema import json_schema
from zae_limiter_manifest.render.words import live_and_declared, parts

TEXT = """\
namespace: a
system:
  on_refused: {wait: 0.5}
resources:
  gpt-4:
    limits:
      rpm: 10/min
    on_refused: {wait: 2, at: 80%, overflow: credits}
entities:
  acme:
    resources:
      gpt-4:
        limits:
          rpm: 20/min
        on_refused: {}
"""
LIMITS = {"rpm": LimitDecl(10)}
PLAIN = ResourceDecl(LIMITS)
POLICY = OnRefusedDecl(wait=2, overflow="credits", at="80%")
WITH = ResourceDecl(LIMITS, POLICY)


def problems(on_refused: str) -> str:
    with pytest.raises(ManifestError) as error:
        load(f"namespace: a\nsystem: {{on_refused: {on_refused}}}\n", "limits.yaml")
    return str(error.value)


def change(before: ResourceDecl | None, after: ResourceDecl | None) -> Change:
    return Change(Address("gpt-4", None), before, after)


def test_a_manifest_is_loaded_and_dumped_with_its_policies() -> None:
    manifest = load(TEXT, "limits.yaml")
    assert manifest.system == SystemDecl(on_refused=OnRefusedDecl(wait=0.5))
    assert manifest.resources["gpt-4"] == WITH
    assert manifest.entities["acme"].resources["gpt-4"].on_refused == OnRefusedDecl()
    assert dump(manifest) == TEXT
    odd = LimitsManifest("a", resources={"r": ResourceDecl(LIMITS, OnRefusedDecl(overflow="auth0|ü#:x"))})
    assert load(dump(odd), "limits.yaml") == odd


def test_cloudformation_passes_the_wait_as_text() -> None:
    manifest = load(TEXT, "limits.yaml")
    plain: Any = json.loads(json.dumps(StackProperties(manifest).to_dict()))
    policy = plain["Resources"]["gpt-4"]["OnRefused"]
    assert policy == {"Wait": 2, "Overflow": "credits", "At": "80%"}
    policy["Wait"] = "2.0"
    assert StackProperties.from_dict(plain).manifest == manifest


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (PLAIN, WITH, [("+", "on_refused", "wait=2,at=80%,overflow=credits")]),
        (WITH, PLAIN, [("-", "on_refused", "wait=2,at=80%,overflow=credits")]),
        (
            WITH,
            ResourceDecl(LIMITS, OnRefusedDecl()),
            [("~", "on_refused", "wait=2,at=80%,overflow=credits -> refuse")],
        ),
        (None, WITH, [("+", "on_refused", "wait=2,at=80%,overflow=credits"), ("+", "rpm", "10/min")]),
    ],
)
def test_a_plan_shows_a_changed_policy_and_reads_it_back(
    before: ResourceDecl | None, after: ResourceDecl | None, said: list[tuple[str, str, str]]
) -> None:
    made = change(before, after)
    assert [tuple(part) for part in parts(made)] == said
    assert Change.from_dict(made.to_dict()) == made


def test_the_system_may_have_a_policy_alone_and_reads_it_back() -> None:
    made = Change(Address(None, None), None, SystemDecl("allow", on_refused=POLICY))
    assert made.to_dict()["on_refused"] == {"wait": 2.0, "overflow": "credits", "at": "80%"}
    assert Change.from_dict(made.to_dict()) == made


def test_drift_shows_a_policy() -> None:
    assert live_and_declared(change(PLAIN, WITH)) == ["on_refused is absent, declared wait=2,at=80%,overflow=credits"]


def test_only_a_policy_changes_the_fingerprint() -> None:
    of_old = OnRefusedDecl(wait=2, overflow="credits")
    policies = [None, OnRefusedDecl(), OnRefusedDecl(wait=1), of_old, POLICY]
    assert len({fingerprint(ResourceDecl(LIMITS, each)) for each in policies}) == 5


@pytest.mark.parametrize(
    ("on_refused", "problem"),
    [
        ("{wait: -1}", "system.on_refused.wait: must be from 0 to 86400"),
        ("{wait: 86401}", "system.on_refused.wait: must be from 0 to 86400"),
        ("{wait: .inf}", "system.on_refused.wait"),
        ("{wait: 0.0001}", "system.on_refused.wait"),
        ("{overflow: a b}", 'system.on_refused.overflow: "a b" must be 1 to 128'),
        ("{overflow: _default_}", "system.on_refused.overflow"),
        ("{over: credits}", "system.on_refused.over"),
        (
            "{overflow: c, at: 0.8}",
            "system.on_refused.at: must be a whole percentage from 1% to 99%, like 80%, not the float 0.8",
        ),
        ("{overflow: c, at: 80}", "1% to 99%, like 80%, not the integer 80"),
        ("{overflow: c, at: 100%}", "system.on_refused.at: must be a whole percentage"),
        ("{wait: 2, at: 80%}", "system.on_refused.at: says when the overflow comes first: name an overflow, too"),
        ("credits", "system.on_refused: must be"),
        ("[]", "system.on_refused: must be"),
    ],
)
def test_a_mistake_is_named_with_its_place(on_refused: str, problem: str) -> None:
    assert problem in problems(on_refused)


LEVEL = "{limits: {rpm: 1/min}, on_refused: {overflow: gpt-4}}"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (f"resources: {{gpt-4: {LEVEL}}}", "resources.gpt-4"),
        (f"tiers: {{gold: {{resources: {{gpt-4: {LEVEL}}}}}}}", "tiers.gold.resources.gpt-4"),
        (f"entities: {{acme: {{resources: {{_default_: {LEVEL}, gpt-4: {LEVEL}}}}}}}", "entities.acme.resources.gpt-4"),
    ],
)
def test_no_level_overflows_to_its_own_resource(text: str, path: str) -> None:
    with pytest.raises(ManifestError) as error:
        load(f"namespace: a\n{text}\n", "limits.yaml")
    (problem,) = error.value.problems
    assert problem.path == f"{path}.on_refused.overflow"
    assert problem.message == '"gpt-4" is the resource of this level, which has refused: name another one'


def test_neither_does_a_level_that_is_made_of_values() -> None:
    own = {"gpt-4": WITH, "credits": WITH}
    for sections in ({"resources": own}, {"entities": {"acme": EntityDecl(own)}}, {"tiers": {"gold": TierDecl(own)}}):
        with pytest.raises(ManifestError, match=r"credits\.on_refused\.overflow"):
            LimitsManifest("a", **sections)


def test_a_property_of_cloudformation_overflows_to_another_resource_and_is_told_by_its_path() -> None:
    level = {"Limits": {"rpm": {"Capacity": "1"}}, "OnRefused": {"Overflow": "my_model"}}
    with pytest.raises(ManifestError) as error:
        StackProperties.from_dict({"Namespace": "a", "Entities": {"acme": {"Resources": {"my_model": level}}}})
    (problem,) = error.value.problems
    assert problem.path == "Entities.acme.Resources.my_model.OnRefused.Overflow"


def test_the_schema_describes_it() -> None:
    steps = json_schema()["$defs"]["OnRefusedDecl"]["properties"]
    assert steps["at"]["pattern"] == "^[1-9][0-9]?%$"
    assert "before one is refused" in steps["at"]["description"]


def test_cloudformation_names_a_part_without_an_overflow_by_its_path() -> None:
    level = {"Limits": {"rpm": {"Capacity": "1"}}, "OnRefused": {"At": "80%"}}
    with pytest.raises(ManifestError) as error:
        StackProperties.from_dict({"Namespace": "a", "Resources": {"gpt-4": level}})
    (problem,) = error.value.problems
    assert (problem.path, problem.message) == (
        "Resources.gpt-4.OnRefused.At",
        "says when the overflow comes first: name an overflow, too",
    )


def test_an_overflow_may_be_named_almost_like_its_level() -> None:
    levels = "  gpt-4: {limits: {rpm: 1/min}, on_refused: {overflow: gpt-5}}\n  gpt-5: {limits: {rpm: 9/min}}\n"
    manifest = load(f"namespace: n\nresources:\n{levels}")
    assert str(manifest.resources["gpt-4"].on_refused) == "overflow=gpt-5"
