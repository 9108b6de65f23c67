"""Ids of one manifest that look alike."""

import json
import time
from typing import Any

import pytest

from zae_limiter_manifest import load
from zae_limiter_manifest.look_alikes import find_look_alikes
from zae_limiter_manifest.warnings import find_warnings


def told(*ids: str, section: str = "entities") -> list[str]:
    level = {"limits": {"rpm": "1/min"}}
    given = {each: {} if section == "entities" else level for each in ids}
    return [
        each.message for each in find_warnings(load(json.dumps({"namespace": "n", section: given}, ensure_ascii=False)))
    ]


@pytest.mark.parametrize(
    ("other", "difference"),
    [
        ("Acme", " in case"),
        ("\u0430cme", " by U+0430 CYRILLIC SMALL LETTER A"),
        ("AC\u041cE", " by U+041C CYRILLIC CAPITAL LETTER EM"),
        ("acm\uff45", " by U+FF45 FULLWIDTH LATIN SMALL LETTER E"),
        ("\u0391cme", " by U+0391 GREEK CAPITAL LETTER ALPHA"),
        ("ac\ufe0fme", " by U+FE0F VARIATION SELECTOR-16"),
    ],
)
@pytest.mark.parametrize("section", ["entities", "resources"])
def test_ids_that_look_alike_are_told_once(section: str, other: str, difference: str) -> None:
    (found,) = told("acme", other, "bob", section=section)
    assert f"looks like {section}" in found
    assert f"differs{difference}: two buckets" in found


@pytest.mark.parametrize(
    ("id_", "other"),
    [
        *(
            ("c", "\u03f2"),
            ("C", "\u03f9"),
            ("g", "\u050c"),
            ("3", "\u0417"),
            ("b", "\u044c"),
            ("i", "\u0131"),
            ("a", "\u0251"),
            ("g", "\u0261"),
        ),
        *(
            ("o", "\u0585"),
            ("h", "\u0570"),
            ("n", "\u0578"),
            ("-", "\u2010"),
            ("-", "\u2011"),
            ("-", "\u2212"),
            ("/", "\u2215"),
        ),
        *((":", "\u2236"), (":", "\u02d0"), ("", "\U0001d159"), ("", "\u2d7f")),
    ],
)
def test_letters_and_signs_of_other_scripts_are_alike(id_: str, other: str) -> None:
    (found,) = told(f"x{id_}z", f"x{other}z")
    assert f"U+{ord(other):04X}" in found


def test_tiers_are_compared_too() -> None:
    tier = "{resources: {r: {limits: {rpm: 1/min}}}}"
    (found,) = find_warnings(load(f"{{namespace: n, tiers: {{gold: {tier}, Gold: {tier}}}}}"))
    assert found.message == "n: tiers.gold looks like tiers.Gold, but differs in case: two tiers"


@pytest.mark.parametrize(
    "place", ["system", "resources.other", "tiers.gold.resources.other", "entities.ann.resources.other"]
)
def test_a_resource_that_only_an_overflow_names_is_compared_too(place: str) -> None:
    manifest: dict[str, Any] = {"namespace": "n", "resources": {"gpt-4": {"limits": {"rpm": "1/min"}}}}
    level = manifest
    for each in place.split("."):
        level = level.setdefault(each, {})
    level |= {"limits": {"rpm": "1/min"}, "on_refused": {"overflow": "GPT-4"}}
    (found,) = find_look_alikes(load(json.dumps(manifest)))
    assert f"n: {place}.on_refused.overflow looks like resources.gpt-4, but differs in case" in str(found)


@pytest.mark.parametrize(
    "ids",
    [
        ("user-1", "user-l", "user-10", "user-lo"),
        ("москва", "moskva-2", "αθήνα", "東京", "naïve", "naive"),
        ("\u0430cme", "москва-prod"),  # alone, or of several scripts: nothing else looks like it
        ("rn", "m", "vv", "w"),
        ("gpt-4", "gpt-4o", "gpt-4.1", "gpt_4"),
    ],
)
def test_ids_that_only_resemble_each_other_raise_no_alarm(ids: tuple[str, ...]) -> None:
    assert told(*ids) == []


def test_an_entity_and_a_resource_may_look_alike() -> None:
    text = '{"namespace": "n", "entities": {"acme": {}}, "resources": {"Acme": {"limits": {"rpm": "1/min"}}}}'
    assert [*find_warnings(load(text))] == []


def test_a_resource_that_only_an_entity_names_is_compared_too() -> None:
    level = "{limits: {rpm: 1/min}}"
    text = f"{{namespace: n, resources: {{gpt-4: {level}}}, entities: {{ann: {{resources: {{GPT-4: {level}}}}}}}}}"
    (found,) = find_warnings(load(text))
    assert found.to_dict() == {
        "name": "look-alike",
        "namespace": "n",
        "path": "entities.ann.resources.GPT-4",
        "names": {"resources.gpt-4": []},
        "message": "n: entities.ann.resources.GPT-4 looks like resources.gpt-4, but differs in case: two buckets",
        "file": None,
        "line": None,
        "column": None,
    }


def test_many_ids_are_compared_in_a_moment() -> None:
    manifest = load(json.dumps({"namespace": "n", "entities": {f"user-{number}\u0430": {} for number in range(5_000)}}))
    begun = time.process_time()
    assert [*find_warnings(manifest)] == []
    assert time.process_time() - begun < 2
