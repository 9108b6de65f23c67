import pytest
import yaml

from zae_limiter_manifest.checks import ALREADY_CHECKED, Finding, Repeated
from zae_limiter_manifest.problems import Occurrence
from zae_limiter_manifest.source import MAX_BYTES, MAX_DEPTH, read_source


@pytest.fixture(params=["libyaml", "python"], autouse=True)
def parser(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        monkeypatch.delattr(yaml, "CSafeLoader", raising=False)
    elif not hasattr(yaml, "CSafeLoader"):
        pytest.skip("this PyYAML was built without libyaml")


def problems_of(text: str | bytes) -> list[str]:
    return [str(problem) for problem in read_source(text, "f").problems]


def test_values_are_those_of_safe_load() -> None:
    text = "a: {b: [1, 'x', null], c: &c {d: yes}}\ne: *c\n\"f\": |\n  two\n  lines\n"
    assert read_source(text, "f").value == yaml.safe_load(text)


def test_a_finding_is_located_at_the_value_or_at_its_key() -> None:
    source = read_source("a:\n  é日本: {b: [1, 22]}\n", "f")
    path = ("a", "é日本", "b")
    value, key = source.locate(Finding(path, "m")), source.locate(Finding(path, "m", on_key=True))
    assert ((value.line, value.column), (key.line, key.column)) == ((2, 12), (2, 9))
    item = source.locate(Finding((*path, 1), "m"))
    assert (item.line, item.column) == (2, 16)


def test_a_finding_below_what_was_read_is_located_at_the_nearest() -> None:
    problem = read_source("a:\n  b: 1\n", "f").locate(Finding(("a", "b", "c"), "m"))
    assert str(problem) == "f:2:6: a.b.c: m"


def test_an_aliased_value_is_located_where_it_is_written_and_its_key_where_it_is_used() -> None:
    source = read_source("a: &x {b: 1}\nc: *x\n", "f")
    assert source.locate(Finding(("c", "b"), "m")).line == 1
    assert source.locate(Finding(("c",), "m", on_key=True)).line == 2


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "f:1:1: (document): is empty"),
        ("# nothing\n", "f:1:1: (document): is empty"),
        ("a: 1\n---\nb: 1\n", "f:2:1: (document): a second document: a manifest is one document"),
        ("a: 1\nb: 2\na: 3\n", 'f:3:1: a: duplicate key "a", first in line 1'),
        ("a: {b: 1, b: 2}\n", 'f:1:11: a.b: duplicate key "b", first in line 1'),
        (
            "a: 1\n<<: [{b: 1}, 2]\n",
            'f:2:1: ["<<"]: a merge key takes a map, or a list of maps: alias the map to be shared',
        ),
        ("? [a]\n: 1\n", "f:1:3: (document): a key must be a string, not a list"),
        ("? {a: b}\n: 1\n", "f:1:3: (document): a key must be a string, not a map"),
        ("a: &x 1\nb: &x 2\n", 'f:2:4: b: duplicate anchor "x"'),
        ("a: *b\n", 'f:1:4: a: the alias "b" has no anchor above it'),
        ("a: &a [*a]\n", 'f:1:8: a[0]: the alias "a" is inside the value that it repeats'),
        ("a: !!set {b}\n", 'f:1:4: a: the tag "tag:yaml.org,2002:set" is not supported'),
        ("a: !x [b]\n", 'f:1:4: a: the tag "!x" is not supported'),
        ("a: [1, !y z]\n", 'f:1:8: a[1]: the tag "!y" is not supported'),
        ("a: 2024-99-99\n", 'f:1:4: a: cannot be read as timestamp: "2024-99-99"'),
        (
            "a: {b: 1:30:00}\n",
            'f:1:8: a.b: "1:30:00" is an integer in base 60 for YAML: write 5400, or put it in quotes',
        ),
        (
            "a: {1:30: b}\n",
            'f:1:5: a: "1:30" is an integer in base 60 for YAML: write 90, or put it in quotes',
        ),
        ("é: \x07\n", "f:1:4: (document): not valid YAML: the character U+0007"),
        ("a: 1\nb: \ud800\n", "f:2:4: (document): not valid YAML: the character U+D800"),
    ],
)
def test_a_mistake_in_the_yaml_is_one_problem_at_its_place(text: str, problem: str) -> None:
    assert problems_of(text) == [problem]


@pytest.mark.parametrize(
    ("text", "place"),
    [("a: b: c\n", "f:1:5"), ("a: 1\n  b: 2\n", "f:2:4"), ("a:\n\t- b\n", "f:2:1"), ("a: 'x\n", "f:2:1")],
)
def test_a_syntax_error_is_a_problem_at_its_place(text: str, place: str) -> None:
    (problem,) = problems_of(text)
    assert problem.startswith(f"{place}: (document): not valid YAML: ")


@pytest.mark.parametrize("text", ["x" * (MAX_BYTES + 1), b"[" * (MAX_BYTES + 1)])
def test_a_text_that_is_too_large_is_refused_unread(text: str | bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml, "parse", None)
    (problem,) = problems_of(text)
    assert problem.startswith("f: (document): is larger than 10 MB: ")


def test_800_kb_of_an_integer_in_base_60_are_one_problem() -> None:
    (problem,) = problems_of("a: " + ":".join(["1"] * 400_000))
    assert problem.startswith('f:1:4: a: "1:1:')
    assert problem.endswith("is an integer in base 60 for YAML: write it in decimal digits, or put it in quotes")


def test_the_escape_of_a_lone_surrogate_is_one_problem_at_its_line() -> None:
    (problem,) = problems_of('a: 1\nb: "x\\ud800"\n')
    assert problem.startswith("f:2:")
    assert "surrogate" in problem or "Unicode" in problem


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "? ", "{"])
def test_deep_nesting_is_refused_before_it_costs_anything(opening: str) -> None:
    (problem,) = problems_of(opening * 200_000)
    assert problem.endswith(f"nested more than {MAX_DEPTH} deep")


def test_anchors_that_explode_are_refused() -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 10)}]" for n in range(20)]
    (problem,) = problems_of("\n".join(lines))
    assert problem.endswith("aliases repeat more than 1000000 values")


def test_what_comes_after_a_mistake_is_read_too() -> None:
    source = read_source("a: !x 1\na: 2\nb: 3\n", "f")
    assert len(source.problems) == 2
    assert isinstance(source.value, dict)
    assert source.value["b"] == 3


def test_an_alias_that_means_nothing_stands_for_a_value_that_is_good() -> None:
    source = read_source("a: *b\n? *b\n: 1\nc: &c [*c, 2]\nd: 3\n", "f")
    assert [problem.line for problem in source.problems] == [1, 2, 4]
    assert source.value == {"a": ALREADY_CHECKED, "c": [ALREADY_CHECKED, 2], "d": 3}


def test_of_several_documents_the_first_is_the_value() -> None:
    source = read_source("a: 1\n---\nb: 1\n---\n[\n", "f")
    assert (len(source.problems), source.value) == (1, {"a": 1})


def test_a_finding_in_any_value_of_a_repeated_key_is_located_in_that_one() -> None:
    source = read_source("a: {b: 1}\na: 2\na:\n  b: 4\n", "f")
    assert source.value == {"a": Repeated([{"b": 1}, 2, {"b": 4}])}
    places = [source.locate(Finding(("a", Occurrence(n), "b"), "m")) for n in range(3)]
    assert [(place.line, place.column, place.path) for place in places] == [(1, 8, "a.b"), (2, 4, "a.b"), (4, 6, "a.b")]
    keys = [source.locate(Finding(("a", Occurrence(n)), "m", on_key=True)).line for n in range(3)]
    assert (keys, source.locate(Finding(("a",), "m", on_key=True)).line) == ([1, 2, 3], 1)


@pytest.mark.parametrize("first", ["x", "*a0"])
def test_values_of_repeated_keys_explode_no_better_than_others(first: str) -> None:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n + 1}: &a{n + 1} {{x: {first}{f', x: *a{n}' * 10}}}" for n in range(20)]
    assert problems_of("\n".join(lines))[-1].endswith("aliases repeat more than 1000000 values")


def test_a_byte_order_mark_is_no_part_of_the_first_key() -> None:
    assert read_source("\ufeffa: 1", "f").value == {"a": 1}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("a: 1\n<<: {a: 2, b: 3}\n", {"a": 1, "b": 3}),
        ("<<: {a: 2, b: 3}\na: 1\n", {"a": 1, "b": 3}),
        ("x: &x {a: 1}\ny: {<<: *x}\nz: {<<: {}, b: 2}\n", {"x": {"a": 1}, "y": {"a": 1}, "z": {"b": 2}}),
        ("<<: [{a: 1}, {}, {a: 2, b: 2}]\n", {"a": 1, "b": 2}),
        ("<<: {<<: {a: 1}, b: 2}\n", {"a": 1, "b": 2}),
        ("<<: []\n", {}),
        ('"<<": 1\n', {"<<": 1}),
    ],
)
def test_a_merge_key_adds_the_keys_that_a_map_does_not_have(text: str, value: object) -> None:
    source = read_source(text, "f")
    assert (source.value, source.problems) == (value, ())
    assert source.value == yaml.safe_load(text)


def test_a_merged_value_is_located_where_it_is_written() -> None:
    source = read_source("x: &x\n  b: {c: 1}\ny:\n  <<: *x\n", "f")
    assert source.locate(Finding(("y", "b", "c"), "m")).line == 2


def test_merge_keys_repeat_no_more_values_than_aliases_do() -> None:
    many = "".join(f"a{number}: 1\n  " for number in range(1000))
    text = f"x: &x\n  {many}\nl:\n" + "  - {<<: *x}\n" * 1_100
    assert "aliases repeat more than" in read_source(text, "f").problems[-1].message
