"""A limit as one text in a manifest: what it means, what is refused and where, and that dumps are exact."""

import json
from pathlib import Path
from typing import Any

import pytest
from attrs import evolve
from hypothesis import given, settings

from support.manifest.manifests import calendar_limits, limits
from zae_limiter_manifest import LimitDecl, LimitsManifest, ManifestError, StackProperties, dump, json_schema, load

SHARED = json.loads((Path(__file__).parents[4] / "testdata" / "limit_texts.json").read_text("utf-8"))


def system(text: str, level: str = "") -> str:
    return f"namespace: a\nsystem:\n  {level}\n  limits:\n    rpm: {text}\n"


def limit_in(text: str) -> LimitDecl:
    found = load(text).system
    assert found
    return found.limits["rpm"]


@given(limits | calendar_limits)
@settings(max_examples=200, deadline=None)
def test_the_text_of_any_limit_gives_an_equal_limit(limit: LimitDecl) -> None:
    plain = evolve(limit, weights=None)
    assert plain.text
    assert limit_in(system(plain.text)) == plain
    assert limit_in(dump(load(system(plain.text)))) == plain


@pytest.mark.parametrize("more", [{"weights": {"output": 4}}, {"schedule": ["night: 00:00-06:00 9/min"]}], ids=str)
def test_weights_and_schedules_have_no_text(more: dict[str, Any]) -> None:
    assert LimitDecl(5, **more).text is None


@pytest.mark.parametrize(("text", "fields"), SHARED["texts"].items())
def test_a_text_means_what_the_map_of_its_fields_means(text: str, fields: dict[str, Any]) -> None:
    assert load(system(text)) == load(system(json.dumps(fields)))
    assert load(system(text)).canonical_hash() == load(system(json.dumps(fields))).canonical_hash()


@pytest.mark.parametrize(("text", "problem"), SHARED["mistakes"].items())
def test_a_mistake_names_the_text_and_its_place_and_has_examples(text: str, problem: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load(system(json.dumps(text, ensure_ascii=False)), "limits.yaml")
    (found,) = caught.value.problems
    assert (found.line, found.column, found.path) == (5, 10, "system.limits.rpm")
    assert found.message.startswith(json.dumps(text, ensure_ascii=False))
    assert problem in found.message
    assert found.message.endswith("; examples: 100/min or 10k/min burst 20k or $250/month Europe/Berlin")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "100",
            "must be a limit, not the integer 100: a text such as 100/min, or a map",
        ),
        ("10/min burst 9", "below the capacity of 10: for 9 at once write `capacity 9`"),
        ("0/min burst 9", "must be 0, not 9: a capacity of 0 blocks"),
        ("5/min prefetch 59s", "leaves no token of the burst of 5"),
        ("1/99999d", "must be at most 3153600000"),
    ],
)
def test_a_text_obeys_the_rules_of_the_map(text: str, message: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load(system(text), "limits.yaml")
    (found,) = caught.value.problems
    assert (found.line, found.column) == (5, 10)
    assert message in found.message


def test_a_level_spreads_to_texts_too() -> None:
    assert limit_in(system("600/min", "shadow: true")).shadow
    assert limit_in(system("600/min", "prefetch: 1")).prefetch == 1
    assert limit_in(system("600/min prefetch 0s", "prefetch: 1")).prefetch == 0
    with pytest.raises(ManifestError, match="must not be true: the level has `shadow: false`"):
        load(system("600/min shadow", "shadow: false"))
    with pytest.raises(ManifestError, match="has the `prefetch` of its level, which leaves no token"):
        load(system("5/min", "prefetch: 59"))


def test_a_stack_may_have_texts_too() -> None:
    plain = {"Namespace": "a", "System": {"Limits": {"rpm": "10k/min burst 20k"}}}
    assert StackProperties.from_dict(plain).manifest == load(system("10k/min burst 20k"))
    with pytest.raises(ManifestError, match=r"System.Limits.rpm: \"1/m\" is not a limit"):
        StackProperties.from_dict({"Namespace": "a", "System": {"Limits": {"rpm": "1/m"}}})
    with pytest.raises(ManifestError, match=r"System.Limits.rpm: .* is below the capacity of 5"):
        StackProperties.from_dict({"Namespace": "a", "System": {"Limits": {"rpm": "5/min burst 1"}}})


def test_the_schema_admits_every_text() -> None:
    jsonschema = pytest.importorskip("jsonschema")
    validator = jsonschema.Draft202012Validator(json_schema())
    for text in SHARED["texts"]:
        plain = {"namespace": "a", "system": {"limits": {"rpm": text}}}
        assert LimitsManifest.from_dict(plain)
        validator.validate(plain)
    for text in ("", "100", "burst 5", "5 parallel"):
        assert not validator.is_valid({"namespace": "a", "system": {"limits": {"rpm": text}}})
