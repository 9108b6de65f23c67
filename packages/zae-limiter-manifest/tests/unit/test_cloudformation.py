from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from support.manifest.hostile import FUNCTIONS, REFERENCES, as_deployed, hostile_manifests, says_functions
from support.manifest.manifests import DESIGN, manifests
from zae_limiter_manifest import LimitsManifest, ManifestError, StackProperties, load, render_template

ALPHA = StackProperties(load(DESIGN))


def as_cloudformation_hands_over(value: Any) -> Any:
    match value:
        case dict():
            return {key: as_cloudformation_hands_over(item) for key, item in value.items()}
        case bool():
            return str(value).lower()
        case int():
            return str(value)
        case _:
            return value


def test_fields_are_in_pascal_case_and_names_keep_their_spelling() -> None:
    assert ALPHA.to_dict() == {
        "Namespace": "tenant-alpha",
        "System": {"OnUnavailable": "allow", "Limits": {"rpm": {"Capacity": 10000}, "tpm": {"Capacity": 100000}}},
        "Resources": {
            "gpt-4": {"Limits": {"rpm": {"Capacity": 1000}, "tpm": {"Capacity": 50000, "Burst": 75000}}},
        },
        "Entities": {
            "user-123": {
                "Resources": {
                    "_default_": {"Limits": {"rpm": {"Capacity": 200}}},
                    "gpt-4": {"Limits": {"rpm": {"Capacity": 500}}},
                }
            }
        },
    }


@given(manifests, st.booleans())
@settings(max_examples=60, deadline=None)
def test_properties_come_back_as_numbers_and_as_text(manifest: LimitsManifest, take_over: bool) -> None:  # noqa: FBT001
    asked = StackProperties(manifest, take_over=take_over)
    assert StackProperties.from_dict(asked.to_dict()) == asked
    assert StackProperties.from_dict(as_cloudformation_hands_over(asked.to_dict())) == asked


def with_limit(**fields: Any) -> dict[str, Any]:
    return {"Namespace": "a", "Resources": {"gpt-4": {"Limits": {"rpm": {"Capacity": 5, **fields}}}}}


@pytest.mark.parametrize("capacity", [500_000_000, "500000000", "5.0E8", "5e8"])
def test_a_number_may_be_text_as_cloudformation_writes_it(capacity: Any) -> None:
    manifest = StackProperties.from_dict(with_limit(Capacity=capacity)).manifest
    assert manifest.resources["gpt-4"].limits["rpm"].capacity == 500_000_000


@pytest.mark.parametrize(
    "capacity", ["", "ten", "1.5", "5.0", "1.5E0", " 5", "5\n", "\u0665", "0x5", "1e99", "+5", True, 5.0]
)
def test_what_is_no_whole_number_is_refused(capacity: Any) -> None:
    with pytest.raises(ManifestError, match=r"Resources\.gpt-4\.Limits\.rpm\.Capacity: must be "):
        StackProperties.from_dict(with_limit(Capacity=capacity))


@pytest.mark.parametrize(("said", "take_over"), [(True, True), ("true", True), (False, False), ("false", False)])
def test_to_take_over_may_be_text(said: object, *, take_over: bool) -> None:
    assert StackProperties.from_dict({"Namespace": "a", "TakeOver": said}).take_over is take_over


@pytest.mark.parametrize(("said", "shadow"), [(True, True), ("true", True), (False, False), ("false", False)])
def test_a_shadow_limit_may_be_text_on_the_limit_and_on_its_level(said: object, *, shadow: bool) -> None:
    on_limit = with_limit(Shadow=said)
    on_level = {"Namespace": "a", "Resources": {"gpt-4": {"Shadow": said, "Limits": {"rpm": {"Capacity": 5}}}}}
    for raw in (on_limit, on_level):
        assert StackProperties.from_dict(raw).manifest.resources["gpt-4"].limits["rpm"].shadow is shadow


@pytest.mark.parametrize("said", ["yes-ish", "True", "1", 1, 0, "", None, [], {}])
def test_what_is_no_flag_is_refused(said: object) -> None:
    with pytest.raises(ManifestError, match=r"Resources\.gpt-4\.Limits\.rpm\.Shadow: must be true or false, not "):
        StackProperties.from_dict(with_limit(Shadow=said))


def test_a_contradiction_in_text_is_told_in_the_spelling_of_properties() -> None:
    raw = {"Namespace": "a", "System": {"Shadow": "true", "Limits": {"rpm": {"Capacity": "5", "Shadow": "false"}}}}
    with pytest.raises(
        ManifestError, match=r"System\.Limits\.rpm\.Shadow: must not be false: the level has `Shadow: true`"
    ):
        StackProperties.from_dict(raw)


def test_what_is_cloudformations_own_is_passed_over() -> None:
    raw = {**ALPHA.to_dict(), "ServiceToken": "arn:aws:lambda:us-east-1:1:function:x", "ServiceTimeout": "60"}
    assert StackProperties.from_dict(raw) == ALPHA


def test_every_mistake_is_told_with_the_path_of_its_property() -> None:
    raw = {
        "Namespace": "1",
        "Systems": {},
        "TakeOver": "maybe",
        "System": {"OnUnavailable": "allowed", "limits": {}},
        "Resources": {
            "gpt-4": {"Limits": {"rpm": {"Capacity": "5", "Burst": "4"}, "wcu": {"Capacity": "-1"}, "x": {}}}
        },
        "Entities": {"u 1": {"Resources": {}}},
    }
    with pytest.raises(ManifestError) as caught:
        StackProperties.from_dict(raw)
    paths = {problem.path: problem.message for problem in caught.value.problems}
    assert paths["Systems"] == 'unknown key "Systems", did you mean `System`?'
    assert paths["System.limits"] == 'unknown key "limits", did you mean `Limits`?'
    assert paths["TakeOver"] == 'must be true or false, not the string "maybe"'
    assert paths["Resources.gpt-4.Limits.rpm.Burst"] == "must be at least the capacity: 4 < 5"
    assert paths["Resources.gpt-4.Limits.x"] == "`Capacity` is missing"
    assert set(paths) >= {
        "Namespace",
        "System.OnUnavailable",
        "Resources.gpt-4.Limits.wcu",
        "Resources.gpt-4.Limits.wcu.Capacity",
        'Entities["u 1"]',
        'Entities["u 1"].Resources',
    }
    assert str(caught.value).startswith("ResourceProperties: Namespace: ")


class _Loader(yaml.SafeLoader):
    """Reads `!ImportValue`."""


def _import_value(loader: _Loader, node: yaml.ScalarNode) -> dict[str, Any]:
    return {"Fn::ImportValue": loader.construct_scalar(node)}


_Loader.add_constructor("!ImportValue", _import_value)


def read(template: str) -> Any:
    return yaml.load(template, Loader=_Loader)


def test_the_template_is_one_resource_of_the_provisioner_of_that_name() -> None:
    template = read(render_template(ALPHA, "my-app"))
    assert template["AWSTemplateFormatVersion"] == "2010-09-09"
    assert "tenant-alpha" in template["Description"]
    assert template["Resources"] == {
        "TenantLimits": {
            "Type": "Custom::ZaeLimiterLimits",
            "Properties": {
                "ServiceToken": {"Fn::ImportValue": "my-app-LimitsProvisionerArn"},
                **ALPHA.to_dict(),
            },
        }
    }


@given(manifests, st.booleans())
@settings(max_examples=60, deadline=None)
def test_the_properties_of_a_template_are_those_it_was_made_of(manifest: LimitsManifest, take_over: bool) -> None:  # noqa: FBT001
    asked = StackProperties(manifest, take_over=take_over)
    properties = read(render_template(asked, "my-app"))["Resources"]["TenantLimits"]["Properties"]
    assert StackProperties.from_dict(properties) == asked


@pytest.mark.parametrize("name", ["", "1a", "my_app", "a" * 129, "a\n", "${x}"])
def test_what_cannot_be_a_stacks_name_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not a valid stack name"):
        render_template(ALPHA, name)


def test_properties_of_older_templates_are_accepted_and_named() -> None:
    said = StackProperties.from_dict({"Namespace": "tenant-alpha", "NamespaceId": ["x"], "TableName": "t"})
    assert said.ignored == ("TableName", "NamespaceId")
    assert said == StackProperties.from_dict({"Namespace": "tenant-alpha"})
    assert said.to_dict() == {"Namespace": "tenant-alpha"}


TIERS = """
namespace: a
tiers:
  gold-2:
    resources:
      _default_: {limits: {rpm: 600/min}, on_refused: {wait: 2}}
      gpt-4: {limits: {rpm: {capacity: 60, burst: 90, shadow: true}}}
entities:
  acme: {tier: gold-2}
  tiny: {tier: gold-2, resources: {gpt-4: {limits: {rpm: 5/min}}}}
"""


def test_tiers_go_through_a_template_and_come_back() -> None:
    manifest = load(TIERS)
    text = render_template(StackProperties(manifest), "prod")
    properties = yaml.safe_load(text.replace("!ImportValue", ""))["Resources"]["TenantLimits"]["Properties"]
    assert properties["Tiers"] == {
        "gold-2": {
            "Resources": {
                "_default_": {"Limits": {"rpm": {"Capacity": 600}}, "OnRefused": {"Wait": 2}},
                "gpt-4": {"Limits": {"rpm": {"Capacity": 60, "Burst": 90, "Shadow": True}}},
            }
        }
    }
    assert properties["Entities"]["acme"] == {"Tier": "gold-2"}
    assert StackProperties.from_dict(as_cloudformation_hands_over(properties)).manifest == manifest


@pytest.mark.parametrize(
    ("entities", "path", "message"),
    [
        ({"acme": {"Tier": "gold"}}, "Entities.acme.Tier", '"gold" is not a tier of this manifest, did you mean `golf'),
        ({"acme": {"Parents": ["b"]}}, "Entities.acme.Parents[0]", '"b" is not an entity of this manifest'),
    ],
)
def test_what_an_entity_names_is_told_with_the_path_of_its_property(
    entities: dict[str, Any], path: str, message: str
) -> None:
    tiers = {"golf": {"Resources": {"r": {"Limits": {"rpm": {"Capacity": "1"}}}}}}
    with pytest.raises(ManifestError) as caught:
        StackProperties.from_dict({"Namespace": "a", "Tiers": tiers, "Entities": entities})
    (problem,) = caught.value.problems
    assert problem.path == path
    assert problem.message.startswith(message)


@pytest.mark.long
@given(hostile_manifests(), st.booleans())
@settings(max_examples=400, deadline=None)
def test_cloudformation_evaluates_nothing_of_a_manifest(manifest: LimitsManifest, doubles: bool) -> None:  # noqa: FBT001
    """Names, texts, metadata and numbers arrive as they were declared, or the template is not written."""
    if says_functions(manifest):
        with pytest.raises(ManifestError, match="CloudFormation would") as refused:
            StackProperties(manifest)
        assert all("CloudFormation would" in each.message for each in refused.value.problems)
        return
    template = render_template(StackProperties(manifest), "my-app")
    assert "{{resolve:" not in template
    assert StackProperties.from_dict(as_deployed(template, doubles=doubles)).manifest == manifest


@pytest.mark.long
@given(manifests, st.booleans())
@settings(max_examples=60, deadline=None)
def test_any_manifest_arrives_as_it_was_declared(manifest: LimitsManifest, doubles: bool) -> None:  # noqa: FBT001
    template = render_template(StackProperties(manifest), "my-app")
    assert StackProperties.from_dict(as_deployed(template, doubles=doubles)).manifest == manifest


SECRETS = {"Fn::ImportValue": "platform-secrets"}


@pytest.mark.parametrize(
    "metadata",
    [SECRETS, {"note": SECRETS}, {"note": [SECRETS]}, {"Fn::Sub": "${AWS::AccountId}"}, {"Ref": "AWS::Region"}]
    + [{each: each} for each in REFERENCES],
)
def test_metadata_are_one_text_that_calls_no_function(metadata: dict[str, Any]) -> None:
    manifest = LimitsManifest.from_dict({"namespace": "a", "entities": {"acme": {"metadata": metadata}}})
    template = render_template(StackProperties(manifest), "my-app")
    properties = as_deployed(template, doubles=False)
    text = properties["Entities"]["acme"]["Metadata"]
    assert isinstance(text, str)
    assert "{{" not in text
    assert "${" not in text
    assert StackProperties.from_dict(properties).manifest.entities["acme"].metadata.to_dict() == metadata


SMALL = {"limits": {"rpm": "1/min"}}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize(
    ("path", "levels"),
    [
        ("Entities", lambda name: {"entities": {name: {"resources": {"gpt-4": SMALL}}}}),
        ("Resources", lambda name: {"resources": {name: SMALL}}),
        ("Entities.acme.Resources", lambda name: {"entities": {"acme": {"resources": {name: SMALL}}}}),
        ("Resources.gpt-4.Limits", lambda name: {"resources": {"gpt-4": {"limits": {name: "1/min"}}}}),
        ("Tiers", lambda name: {"tiers": {name: {"resources": {"gpt-4": SMALL}}}}),
    ],
    ids=["entity", "resource", "own resource", "limit", "tier"],
)
def test_a_name_that_is_a_function_of_cloudformation_is_refused(name: str, path: str, levels: Any) -> None:
    try:
        manifest = LimitsManifest.from_dict({"namespace": "a", **levels(name)})
    except ManifestError:  # names of limits and tiers have no `:`
        assert ":" in name
        return
    with pytest.raises(ManifestError, match=r"CloudFormation would evaluate it") as refused:
        StackProperties(manifest)
    (problem,) = refused.value.problems
    assert problem.file == "ResourceProperties of a"
    assert problem.path.startswith(path)


@pytest.mark.parametrize("text", REFERENCES)
@pytest.mark.parametrize(
    ("path", "levels"),
    [
        ("Entities.acme.Name", lambda text: {"entities": {"acme": {"name": text}}}),
        ("Resources.gpt-4.Reason", lambda text: {"resources": {"gpt-4": {"disabled": True, "reason": text}}}),
        (
            "Resources.gpt-4.OnRefused.Overflow",
            lambda text: {"resources": {"gpt-4": {**SMALL, "on_refused": {"overflow": text}}}},
        ),
    ],
    ids=["name", "reason", "overflow"],
)
def test_a_text_that_cloudformation_would_replace_is_refused(text: str, path: str, levels: Any) -> None:
    manifest = LimitsManifest.from_dict({"namespace": "a", **levels(text)})
    with pytest.raises(ManifestError, match="CloudFormation would replace it") as refused:
        StackProperties(manifest)
    assert [each.path for each in refused.value.problems] == [path]


def test_metadata_as_a_map_are_read_as_templates_by_hand_have_them() -> None:
    raw = {"Namespace": "a", "Entities": {"acme": {"Metadata": {"tier": "gold"}}}}
    assert StackProperties.from_dict(raw).manifest.entities["acme"].metadata.to_dict() == {"tier": "gold"}
