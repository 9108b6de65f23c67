import pickle

import pytest

from zae_limiter_manifest import LimitDecl, LimitsManifest, ManifestError, Problem, ResourceDecl, compute_diff
from zae_limiter_manifest.problems import Path, describe, format_path, printable, show
from zae_limiter_manifest.render import as_markdown, as_text


def _nested(levels: int) -> object:
    value: object = []
    for _ in range(levels):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ((), "(document)"),
        (("resources", "gpt-4", "limits"), "resources.gpt-4.limits"),
        (("entities", "a.b", "resources"), 'entities["a.b"].resources'),
        (("resources", "openai/gpt-4"), 'resources["openai/gpt-4"]'),
        (("a\nb",), r'["a\nb"]'),
        ((7, "a", 0), "[7].a[0]"),
        (("",), '[""]'),
    ],
)
def test_a_path_reads_back_without_doubt(path: Path, text: str) -> None:
    assert format_path(path) == text


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (None, "null"),
        (True, "the boolean true"),
        (-3, "the integer -3"),
        (1.5, "the float 1.5"),
        ("ten", 'the string "ten"'),
        ({}, "a map"),
        ([], "a list"),
        pytest.param(10**9999, "the integer (very large)", id="large"),
        pytest.param(-(10**9999), "the integer (very small)", id="small"),
    ],
)
def test_a_value_is_described(value: object, words: str) -> None:
    assert describe(value) == words


def test_a_long_text_is_shortened_and_stays_on_one_line() -> None:
    assert show("a\n" * 100) == '"' + r"a\n" * 30 + '…"'


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ("\x7f\u202e\ud800", '"\\x7f\\u202e\\ud800"'),
        (("\x7f", 1), "('\\x7f', 1)"),
        ({"k": "x" * 5000}, "{'k': '" + "x" * 53 + "…"),
        ([10**9999], "list"),
        (_nested(100_000), "list"),
    ],
    ids=["controls", "tuple", "long map", "large number inside", "deep"],
)
def test_any_value_is_shown_shortly_in_printable_characters(value: object, shown: str) -> None:
    assert show(value) == shown


def test_the_error_lists_every_problem_and_survives_a_pickle() -> None:
    placed = Problem("f.yaml", 3, 5, "system", "must be a map, not null")
    placeless = Problem("<manifest>", None, None, "namespace", "is odd")
    error = pickle.loads(pickle.dumps(ManifestError([placed, placeless])))
    assert issubclass(ManifestError, ValueError)
    assert error.problems == (placed, placeless)
    assert str(error) == "f.yaml:3:5: system: must be a map, not null\n<manifest>: namespace: is odd"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a é 日本", "a é 日本"),
        ("a\x1b[31m\n\x7f", r"a\x1b[31m\x0a\x7f"),
        ("\x9b\u2028\u202e\ud800", r"\x9b\u2028\u202e\ud800"),
    ],
)
def test_what_a_terminal_would_obey_is_spelled_out(text: str, shown: str) -> None:
    assert printable(text) == shown
    assert str(Problem(text, 1, 1, "p", text)) == f"{shown}:1:1: p: {shown}"


@pytest.mark.parametrize("character", ["\ufe0f", "\u3164", "\u115f", "\u2800", "\u2d7f", "\U0001d159", "\U000e0100"])
def test_an_invisible_character_is_shown_wherever_a_person_compares_names(character: str) -> None:
    escaped = f"gpt-4{character.encode('unicode_escape').decode()}"
    assert show(f"gpt-4{character}") == f'"{escaped}"'
    manifest = LimitsManifest("a", resources={f"gpt-4{character}": ResourceDecl({"rpm": LimitDecl(1)})})
    plan = compute_diff(manifest, {})
    for render in (as_text, as_markdown):
        assert escaped in render.render_plan(plan)
        assert character not in render.render_plan(plan)
