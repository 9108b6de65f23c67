"""The switches of a level: how a manifest spells them, what is not a switch, and what a plan says of a change."""

import json
from typing import Any

import pytest
import yaml
from hypothesis import given

from support.manifest.manifests import manifests
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
from zae_limiter_manifest.cuts import largest_cut
from zae_limiter_manifest.render.views import cut_note
from zae_limiter_manifest.render.words import parts

EVERY_LEVEL = """\
namespace: a
system:
  cascade: off
resources:
  gpt-4:
    limits:
      rpm: 5/min
    disabled: true
    reason: "down for repair"
entities:
  u:
    resources:
      _default_:
        bypass: true
      gpt-4:
        disabled: false
        cascade: on
"""


def test_every_level_may_have_switches_with_limits_or_alone() -> None:
    found = load(EVERY_LEVEL)
    assert found.system == SystemDecl(cascade=False)
    assert found.resources["gpt-4"] == ResourceDecl({"rpm": LimitDecl(5)}, disabled=True, reason="down for repair")
    assert found.entities["u"].resources["gpt-4"] == ResourceDecl(disabled=False, cascade=True)
    assert dump(found) == EVERY_LEVEL


@given(manifests)
def test_what_is_written_is_read_back_in_every_form(manifest: LimitsManifest) -> None:
    assert load(dump(manifest)) == manifest
    assert LimitsManifest.from_dict(json.loads(json.dumps(manifest.to_dict()))) == manifest
    properties = StackProperties(manifest)
    assert StackProperties.from_dict(properties.to_dict()) == properties
    for address, decl in manifest.declared():
        change = Change(address, None, decl)
        assert Change.from_dict(json.loads(json.dumps(change.to_dict()))) == change


@pytest.mark.parametrize("written", ["on", '"on"', "true", "yes", "On"])
def test_on_is_read_as_yaml_1_1_and_1_2_read_it(written: str) -> None:
    assert load(f"namespace: a\nsystem: {{cascade: {written}}}").system == SystemDecl(cascade=True)


def test_inherit_says_as_much_as_no_key() -> None:
    limits = "limits: {rpm: 5/min}"
    without, inherits = (
        load(f"namespace: a\nresources: {{r: {{{more}{limits}}}}}") for more in ("", "cascade: inherit, ")
    )
    assert without == inherits
    assert without.canonical_hash() == inherits.canonical_hash()


def test_cloudformation_passes_every_value_as_text() -> None:
    raw: dict[str, Any] = {
        "Namespace": "a",
        "Resources": {"r": {"Disabled": "true", "Cascade": "off", "Reason": "unpaid"}, "s": {"Cascade": "true"}},
    }
    found = StackProperties.from_dict(raw).manifest.resources
    assert found["r"] == ResourceDecl(disabled=True, cascade=False, reason="unpaid")
    assert found["s"] == ResourceDecl(cascade=True)


def test_a_level_without_switches_has_the_fingerprint_of_earlier_releases() -> None:
    assert fingerprint(ResourceDecl({"rpm": LimitDecl(5)})) == "8c68bd249ce39b8097045722c5091ba0"
    assert fingerprint(ResourceDecl({"rpm": LimitDecl(5)}, bypass=False)) != fingerprint(
        ResourceDecl({"rpm": LimitDecl(5)})
    )


@pytest.mark.parametrize(
    ("level", "problem"),
    [
        ("{}", "`limits` is missing"),
        ("{cascade: inherit}", "limits"),
        ("{reason: x, limits: {rpm: 5/min}}", "resources.r.reason"),
        ("{disabled: 1}", "must be true or false"),
        ("{disabled: true, bypass: true}", "contradicts `disabled: true`"),
        ("{cascade: 1}", "must be on, off or inherit"),
        ("{cascade: maybe}", "must be on, off or inherit"),
        ('{disabled: true, reason: ""}', "one line of printable characters"),
        ('{disabled: true, reason: "a\\nb"}', "one line of printable characters"),
        (f"{{disabled: true, reason: {'x' * 201}}}", "at most 200 characters"),
        ("{disabled: true, shadow: true}", "is for the `limits` of this level, which has none"),
        ("{disable: true, limits: {rpm: 5/min}}", "did you mean `disabled`?"),
    ],
)
def test_what_is_no_switch_is_refused_with_its_place(level: str, problem: str) -> None:
    text = f"namespace: a\nresources: {{r: {level}}}"
    with pytest.raises(ManifestError) as caught:
        load(text, "a.yaml")
    assert problem in str(caught.value)
    with pytest.raises(ManifestError):
        LimitsManifest.from_dict(yaml.safe_load(text))


def test_an_entity_has_its_switches_on_a_resource_and_its_own_cascade_beside() -> None:
    found = load(
        "namespace: a\nentities: {p: {}, u: {parent: p, cascade: true, resources: {r: {cascade: off}}}}"
    ).entities["u"]
    assert (found.cascade, found.resources["r"].cascade) == (True, False)


LIMITS = {"rpm": LimitDecl(5)}


@pytest.mark.parametrize(
    ("before", "after", "lines", "note"),
    [
        (
            ResourceDecl(LIMITS),
            ResourceDecl(LIMITS, disabled=True, reason="unpaid"),
            ["~ disabled inherit -> yes", "+ reason unpaid"],
            " (refuses every acquire)",
        ),
        (ResourceDecl(LIMITS, disabled=False), ResourceDecl(LIMITS), ["~ disabled no -> inherit"], ""),
        (None, ResourceDecl(disabled=True), ["+ disabled yes"], " (refuses every acquire)"),
        (ResourceDecl(LIMITS, bypass=True), ResourceDecl(LIMITS), ["~ bypass yes -> inherit"], " (ends a bypass)"),
        (ResourceDecl(bypass=True), None, ["- bypass yes"], " (ends a bypass)"),
        (
            ResourceDecl(LIMITS, cascade=False),
            ResourceDecl(LIMITS, cascade=True),
            ["~ cascade off -> on"],
            "",
        ),
    ],
)
def test_a_plan_names_each_switch_and_what_it_takes_away(
    before: ResourceDecl | None, after: ResourceDecl | None, lines: list[str], note: str
) -> None:
    change = Change(Address("gpt-4"), before, after)
    assert [f"{part.mark} {part.name} {part.text}" for part in parts(change)] == lines
    assert cut_note(change) == note
    assert bool(largest_cut(change)) is bool(note)
