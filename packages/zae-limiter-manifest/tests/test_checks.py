import json
from pathlib import Path
from typing import Any

import pytest

from zae_limiter_manifest import LimitDecl, ManifestError
from zae_limiter_manifest.checks import find_in
from zae_limiter_manifest.declarations import LIMIT
from zae_limiter_manifest.manifest import MANIFEST
from zae_limiter_manifest.problems import format_path

LIMITS = json.loads((Path(__file__).parents[3] / "testdata" / "limits.json").read_text("utf-8"))


def found(raw: object) -> list[str]:
    return [f"{format_path(finding.path)}: {finding.message}" for finding in find_in(MANIFEST, raw)]


@pytest.mark.parametrize("row", LIMITS, ids=lambda row: row["why"])
def test_the_shared_table_of_limits_holds(row: dict[str, Any]) -> None:
    assert (not list(find_in(LIMIT, row["limit"]))) is row["ok"]


@pytest.mark.parametrize("row", LIMITS, ids=lambda row: row["why"])
def test_the_constructor_obeys_the_same_table(row: dict[str, Any]) -> None:
    if row["ok"]:
        assert LimitDecl(**row["limit"]).capacity == row["limit"]["capacity"]
    else:
        with pytest.raises(ManifestError):
            LimitDecl(**row["limit"])


@pytest.mark.parametrize("field", ["capacity", "burst", "refill_amount", "refill_period"])
def test_each_bad_field_of_a_limit_is_one_finding_at_that_field(field: str) -> None:
    (finding,) = find_in(LIMIT, {"capacity": 1, field: -1})
    assert finding.path == (field,)


@pytest.mark.parametrize("empty", [{}, {"system": {}}, {"resources": {}}, {"entities": {}}])
def test_an_empty_map_is_the_same_as_none(empty: dict[str, object]) -> None:
    assert found({"namespace": "a", **empty}) == []


@pytest.mark.parametrize("system", [{"on_unavailable": "block"}, {"limits": {"rpm": {"capacity": 1}}}])
def test_the_system_may_have_either_key(system: dict[str, object]) -> None:
    assert found({"namespace": "a", "system": system}) == []


@pytest.mark.parametrize(
    ("rest", "finding"),
    [
        ({"system": None}, "system: must be a map, not null"),
        ({"system": []}, "system: must be a map, not a list"),
        ({"system": {"limits": {}}}, "system.limits: must not be empty"),
        (
            {"system": {"on_unavailable": True}},
            "system.on_unavailable: must be `allow` or `block`, not the boolean true",
        ),
        ({"resources": None}, "resources: must be a map, not null"),
        ({"resources": {"gpt-4": {}}}, "resources.gpt-4: `limits` is missing"),
        ({"resources": {"gpt-4": {"limits": None}}}, "resources.gpt-4.limits: must be a map, not null"),
        ({"resources": {"gpt-4": {"limits": {}}}}, "resources.gpt-4.limits: must not be empty"),
        (
            {"resources": {"gpt-4": {"limits": {"rpm": 5}}}},
            "resources.gpt-4.limits.rpm: must be a map, not the integer 5",
        ),
        ({"resources": {"gpt-4": {"limits": {"rpm": {}}}}}, "resources.gpt-4.limits.rpm: `capacity` is missing"),
        ({"entities": {"u": {}}}, "entities.u: `resources` is missing"),
        ({"entities": {"u": {"resources": {}}}}, "entities.u.resources: must not be empty"),
        (
            {"entities": {7: {"resources": {}}}},
            "entities[7]: a key must be a string, not the integer 7: put it in quotes",
        ),
        ({True: 1}, "[True]: a key must be a string, not the boolean true: put it in quotes"),
        ({"resource": {}}, 'resource: unknown key "resource", did you mean `resources`?'),
        (
            {"zzz": {}},
            'zzz: unknown key "zzz"; known here: `namespace`, `system`, `resources`, `entities`',
        ),
    ],
)
def test_a_mistake_is_found_where_it_is(rest: dict[Any, object], finding: str) -> None:
    assert finding in found({"namespace": "a", **rest})


def test_the_namespace_is_required_and_a_name() -> None:
    assert found({}) == ["(document): `namespace` is missing"]
    assert found({"namespace": 5}) == ["namespace: must be a string, not the integer 5"]
    assert "must be a letter" in found({"namespace": "_"})[0]


def test_the_default_resource_is_for_entities_only() -> None:
    resources = {"_default_": {"limits": {"rpm": {"capacity": 1}}}}
    assert found({"namespace": "a", "entities": {"u": {"resources": resources}}}) == []
    assert len(found({"namespace": "a", "resources": resources})) == 1


def test_a_burst_below_capacity_is_found_beside_other_mistakes_of_the_limit() -> None:
    paths = [f.path for f in find_in(LIMIT, {"capacity": 10, "burst": 9, "refill_period": 0, "brust": 1})]
    assert sorted(paths) == [("brust",), ("burst",), ("refill_period",)]
