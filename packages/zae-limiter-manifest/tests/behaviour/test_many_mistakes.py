"""Many cheap mistakes: the first are told, the others counted, and reading stops at a bound."""

from typing import Any

import pytest

from zae_limiter_manifest import LimitsManifest, ManifestError, Problem, load, load_all, unpack
from zae_limiter_manifest.formats import FormatError
from zae_limiter_manifest.packing import MOST_VALUES
from zae_limiter_manifest.problems import MOST_PROBLEMS
from zae_limiter_manifest.source import MAX_NODES

MANY = 5 * MOST_PROBLEMS


def problems_of(read: Any, value: Any) -> tuple[Problem, ...]:
    with pytest.raises(ManifestError) as caught:
        read(value)
    return caught.value.problems


@pytest.mark.parametrize(
    ("text", "first"),
    [
        ("namespace: a\nentities: {" + ", ".join(f"e{n}: 1" for n in range(MANY)) + "}\n", "must be a map"),
        ("namespace: a\n" + "namespace: a\n" * MANY, "duplicate key"),
        ("namespace: a\n" + "".join(f"k{n}: 1\n" for n in range(MANY)), "unknown key"),
        ("namespace: a\nentities:\n" + "".join(f"  e{n}: !x 1\n" for n in range(MANY)), "the tag"),
    ],
    ids=["entities", "repeated", "unknown", "tags"],
)
def test_the_first_mistakes_of_a_text_are_told_and_the_others_counted(text: str, first: str) -> None:
    *told, last = problems_of(load, text)
    assert (len(told), last.message) == (MOST_PROBLEMS, f"and {MANY - MOST_PROBLEMS:,} more mistakes")
    assert (last.line, last.path) == (None, "(document)")
    assert all(first in each.message for each in told)
    assert [each.line for each in told] == sorted(each.line or 0 for each in told)


def test_the_first_mistakes_of_plain_values_are_told_and_the_others_counted() -> None:
    raw = {"namespace": "a", "entities": {f"e{n}": n for n in range(MANY)}}
    *told, last = problems_of(LimitsManifest.from_dict, raw)
    assert (len(told), last.message) == (MOST_PROBLEMS, f"and {MANY - MOST_PROBLEMS:,} more mistakes")
    assert told[0].path == "entities.e0"


def test_all_files_together_have_the_bound_of_one() -> None:
    files = [(name, f"namespace: a\nentities: {{{', '.join(f'{name}{n}: 1' for n in range(800))}}}\n") for name in "ef"]
    *told, last = problems_of(load_all, files)
    assert (len(told), last.message) == (MOST_PROBLEMS, f"and {2 * 800 - MOST_PROBLEMS:,} more mistakes")


def test_a_mistake_that_many_aliases_repeat_is_one() -> None:
    aliases = "".join(f"  e{n}: *e\n" for n in range(MANY))
    (told,) = problems_of(load, f"namespace: a\nentities:\n  e: &e {{resources: 1}}\n{aliases}")
    assert (told.line, told.path) == (3, "entities.e.resources")


@pytest.mark.parametrize("part", ["a: 1\n", "[1]: 1\n"], ids=["keys", "lists"])
def test_a_text_of_too_many_values_is_read_up_to_the_bound(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    most = MAX_NODES // 50
    monkeypatch.setattr("zae_limiter_manifest.source.MAX_NODES", most)
    *_, last = problems_of(load, part * (most // 2))
    assert "more mistakes" in last.message
    told = problems_of(load, "a: [" + "1, " * most + "1]\n")
    assert [each.message for each in told] == [f"has more than {most:,} keys and values: {ADVICE}"]


ADVICE = "move limits that many entities share into a resource"


def test_all_files_together_have_the_values_of_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zae_limiter_manifest.source.MAX_NODES", 13)
    text = "namespace: {}\nresources: {{r: {{limits: {{rpm: {{capacity: 1}}}}}}}}\n"
    assert load(text.format("a")).namespace == "a"
    told = problems_of(load_all, [(name, text.format(name)) for name in "ab"])
    assert [each.file for each in told if "more than 13 keys and values" in each.message] == ["b"]


def test_files_that_are_too_large_together_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zae_limiter_manifest.source.MAX_BYTES", 100)
    text = "namespace: {}\n# " + 40 * "x"
    assert len(load_all([("a", text.format("a"))])) == 1
    told = problems_of(load_all, [(name, text.format(name)) for name in "ab"])
    assert [(each.file, "larger than" in each.message) for each in told] == [("b", True)]


def test_packed_values_are_counted_before_they_are_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    import base64
    import zlib

    def of(text: str) -> dict[str, str]:
        return {"packed": base64.b64encode(zlib.compress(text.encode())).decode()}

    monkeypatch.setattr("zae_limiter_manifest.packing.MOST_VALUES", 50)
    assert unpack([of('{"a": [' + "[], " * 20 + "1]}")], largest=1000)["a"][0] == []
    with pytest.raises(FormatError, match="more than 50 keys and values"):
        unpack([of('{"a": [' + "[], " * 30 + "1]}")], largest=1000)
    assert MOST_VALUES > 50


@pytest.mark.parametrize("text", ["hunter2 is the password", "- hunter2", "12345678"])
def test_a_document_that_is_no_map_is_named_and_not_shown(text: str) -> None:
    told = "\n".join(map(str, problems_of(load, text)))
    assert "12345678" not in told
    assert "hunter2" not in told

    assert told.startswith("<manifest>:1:1: (document): must be a map, not a")
