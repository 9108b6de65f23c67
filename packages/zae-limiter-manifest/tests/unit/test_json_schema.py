from typing import Any

import jsonschema
import pytest
import yaml
from hypothesis import given, settings

from support.manifest.manifests import DESIGN, manifests
from zae_limiter_manifest import LimitsManifest, json_schema, load

VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def test_it_is_a_schema() -> None:
    jsonschema.Draft202012Validator.check_schema(json_schema())


@given(manifests)
@settings(max_examples=60, deadline=None)
def test_it_accepts_what_load_accepts(manifest: LimitsManifest) -> None:
    VALIDATOR.validate(manifest.to_dict())


@pytest.mark.parametrize("text", [DESIGN, "namespace: a", "namespace: a\nsystem: {}\nresources: {}\nentities: {}"])
def test_it_accepts_what_people_write(text: str) -> None:
    assert load(text)
    VALIDATOR.validate(yaml.safe_load(text))


def resource_with(limit: Any, name: str = "rpm") -> dict[str, Any]:
    return {"namespace": "a", "resources": {"gpt-4": {"limits": {name: limit}}}}


@pytest.mark.parametrize(
    "raw",
    [
        {},
        [],
        None,
        {"namespace": "1"},
        {"namespace": 5},
        {"namespace": "a", "resource": {}},
        {"namespace": "a", "system": None},
        {"namespace": "a", "system": {"on_unavailable": "maybe"}},
        {"namespace": "a", "system": {"limits": {}}},
        {"namespace": "a", "resources": {"gpt-4": {}}},
        {"namespace": "a", "resources": {"gpt-4": {"limits": {}}}},
        {"namespace": "a", "resources": {"_default_": {"limits": {"rpm": {"capacity": 1}}}}},
        {"namespace": "a", "entities": {"u 1": {"resources": {"gpt-4": {"limits": {"rpm": {"capacity": 1}}}}}}},
        {"namespace": "a", "entities": {"u": {"resources": {}}}},
        resource_with({}),
        resource_with(5),
        resource_with({"capacity": -1}),
        resource_with({"capacity": "10"}),
        resource_with({"capacity": 1.5}),
        resource_with({"capacity": True}),
        resource_with({"capacity": 10**15 + 1}),
        resource_with({"capacity": 1, "brust": 1}),
        resource_with({"capacity": 1, "shadow": "true"}),
        resource_with({"capacity": 1, "shadow": 1}),
        resource_with({"capacity": 1, "shadow": None}),
        resource_with({"capacity": 100, "prefetch": "1"}),
        resource_with({"capacity": 100, "prefetch": True}),
        resource_with({"capacity": 100, "prefetch": -1}),
        resource_with({"capacity": 100, "prefetch": 3601}),
        {"namespace": "a", "system": {"prefetch": None, "limits": {"rpm": {"capacity": 100}}}},
        {"namespace": "a", "system": {"shadow": "yes", "limits": {"rpm": {"capacity": 1}}}},
        resource_with({"capacity": 1}, name="wcu"),
        resource_with({"capacity": 1}, name="total_events"),
        resource_with({"capacity": 1}, name="a#b"),
    ],
    ids=str,
)
def test_it_rejects_typical_mistakes(raw: Any) -> None:
    assert not VALIDATOR.is_valid(raw)
    with pytest.raises(ValueError, match="<manifest>"):
        LimitsManifest.from_dict(raw)


def test_every_key_is_described_and_defaults_are_said() -> None:
    schema = json_schema()
    objects = [schema, *(each if "properties" in each else each["anyOf"][-1] for each in schema["$defs"].values())]
    assert all(member["description"] for each in objects for member in each["properties"].values())
    assert schema["$defs"]["LimitDecl"]["anyOf"][1]["properties"]["refill_period"]["default"] == 60


def test_each_call_gives_a_schema_of_its_own() -> None:
    json_schema()["properties"].clear()
    assert json_schema()["properties"]
