import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from zae_limiter_manifest import LimitDecl, ManifestError, ResourceDecl, StackProperties, json_schema
from zae_limiter_manifest.checks import find_problems
from zae_limiter_manifest.limit_declarations import LIMIT
from zae_limiter_manifest.manifest import MANIFEST
from zae_limiter_manifest.problems import format_path

LIMITS = json.loads((Path(__file__).parents[4] / "testdata" / "limits.json").read_text("utf-8"))
COUNTS = json.loads((Path(__file__).parents[4] / "testdata" / "counts.json").read_text("utf-8"))
VALIDATOR = jsonschema.Draft202012Validator(json_schema())


def found(raw: object) -> list[str]:
    return [f"{format_path(finding.path)}: {finding.message}" for finding in find_problems(MANIFEST, raw)]


@pytest.mark.parametrize("row", LIMITS, ids=lambda row: row["why"])
def test_the_shared_table_of_limits_holds(row: dict[str, Any]) -> None:
    assert (not list(find_problems(LIMIT, row["limit"]))) is row["ok"]


@pytest.mark.parametrize("row", LIMITS, ids=lambda row: row["why"])
def test_the_constructor_obeys_the_same_table(row: dict[str, Any]) -> None:
    if row["ok"]:
        assert LimitDecl(**row["limit"]).capacity == row["limit"]["capacity"]
    else:
        with pytest.raises(ManifestError):
            LimitDecl(**row["limit"])


def named(count: int) -> dict[str, Any]:
    return {f"limit-{number}": {"capacity": 5} for number in range(count)}


@pytest.mark.parametrize("row", COUNTS, ids=lambda row: str(row["limits"]))
def test_the_shared_table_of_counts_holds_at_every_level(row: dict[str, Any]) -> None:
    limits = {"limits": named(row["limits"])}
    for level in ({"system": limits}, {"resources": {"r": limits}}, {"entities": {"e": {"resources": {"r": limits}}}}):
        raw = {"namespace": "a", **level}
        assert (not found(raw)) is VALIDATOR.is_valid(raw) is row["ok"]


@pytest.mark.parametrize("row", COUNTS, ids=lambda row: str(row["limits"]))
def test_the_constructors_and_a_stack_obey_it_too(row: dict[str, Any]) -> None:
    names = named(row["limits"])
    properties = {"Namespace": "a", "Resources": {"r": {"Limits": {name: {"Capacity": "5"} for name in names}}}}
    asks = (
        lambda: ResourceDecl({name: LimitDecl(5) for name in names}),
        lambda: StackProperties.from_dict(properties),
    )
    for ask in asks:
        if row["ok"]:
            assert ask()
        else:
            with pytest.raises(
                ManifestError, match="must not be empty" if not row["limits"] else "must have at most 32"
            ):
                ask()


def test_too_many_limits_are_one_finding_that_names_the_place_their_number_and_the_way_out() -> None:
    (finding,) = found({"namespace": "a", "resources": {"r": {"limits": named(200)}}})
    number, advice = finding.split(": leave ")
    assert number == "resources.r.limits: must have at most 32 entries, not 200"
    assert advice == "some out, or put them on a resource of their own"


@pytest.mark.parametrize("field", ["capacity", "burst", "refill_amount", "refill_period"])
def test_each_bad_field_of_a_limit_is_one_finding_at_that_field(field: str) -> None:
    (finding,) = find_problems(LIMIT, {"capacity": 1, field: -1})
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
            "system.on_unavailable: must be `allow`, `block` or `share`, not the boolean true",
        ),
        ({"resources": None}, "resources: must be a map, not null"),
        ({"resources": {"gpt-4": {}}}, "resources.gpt-4: `limits` is missing"),
        ({"resources": {"gpt-4": {"limits": None}}}, "resources.gpt-4.limits: must be a map, not null"),
        ({"resources": {"gpt-4": {"limits": {}}}}, "resources.gpt-4.limits: must not be empty"),
        (
            {"resources": {"gpt-4": {"limits": {"rpm": 5}}}},
            "resources.gpt-4.limits.rpm: must be a limit, not the integer 5: a text such as 100/min, or a map",
        ),
        ({"resources": {"gpt-4": {"limits": {"rpm": {}}}}}, "resources.gpt-4.limits.rpm: `capacity` is missing"),
        ({"entities": {"u": {"resources": {}}}}, "entities.u.resources: must not be empty"),
        (
            {"entities": {7: {"resources": {}}}},
            "entities[7]: a key must be a string, not the integer 7: put it in quotes",
        ),
        ({True: 1}, "[True]: a key must be a string, not the boolean true: put it in quotes"),
        ({"resource": {}}, 'resource: unknown key "resource", did you mean `resources`?'),
        (
            {"zzz": {}},
            (
                'zzz: unknown key "zzz"; known here: '
                "`namespace`, `ignore`, `oversubscribe`, `system`, `resources`, `tiers`, `entities`"
            ),
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
    paths = [f.path for f in find_problems(LIMIT, {"capacity": 10, "burst": 9, "refill_period": 0, "brust": 1})]
    assert sorted(paths) == [("brust",), ("burst",), ("refill_period",)]
