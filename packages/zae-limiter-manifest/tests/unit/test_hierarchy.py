"""Entities in a manifest: which of them are declared themselves, what a tree may be, and how it is written."""

from typing import Any

import pytest

from zae_limiter_manifest import (
    Address,
    Change,
    EntityDecl,
    LimitsManifest,
    LiveItem,
    ManagedSet,
    ManifestError,
    RecordDecl,
    StackProperties,
    compute_diff,
    dump,
    fingerprint,
    load,
)
from zae_limiter_manifest.metadata import Metadata
from zae_limiter_manifest.render import as_json, as_markdown, as_text

TREE = """\
namespace: tenant-alpha
entities:
  acme: {}
  globex:
    name: "Globex, Inc."
    metadata: {"n": 1.0, "seats": 5, "tier": "gold"}
  key-1:
    parent: acme
    cascade: true
    resources:
      gpt-4:
        limits:
          rpm: 10/min
  key-2:
    parent: acme
"""


def entities(text: str) -> LimitsManifest:
    return load(f"namespace: a\nentities:\n{text}", "limits.yaml")


def chain(length: int) -> str:
    return "\n".join(f"  e{depth}: {{{f'parent: e{depth - 1}' if depth else ''}}}" for depth in range(length))


def declared_records(manifest: LimitsManifest, *managed: str) -> list[str]:
    known = ManagedSet(records=frozenset(managed))
    return [str(address.entity) for address, _ in manifest.declared(known) if address.is_record]


def test_a_tree_is_read_as_it_is_written_and_written_as_it_is_read() -> None:
    manifest = load(TREE)
    assert dump(manifest) == TREE
    assert manifest.entities["key-1"].record == RecordDecl("acme", cascade=True)
    assert manifest.entities["globex"].metadata == Metadata.of({"tier": "gold", "n": 1.0, "seats": 5})
    assert LimitsManifest.from_dict(manifest.to_dict()) == manifest
    assert LimitsManifest.of("tenant-alpha", dict(manifest.declared())) == manifest
    assert hash(manifest) == hash(load(TREE))


def test_parents_are_the_same_as_a_list_of_one() -> None:
    assert load(TREE.replace("parent: acme", "parents: [acme]")) == load(TREE)


def test_a_tree_has_several_parents_and_depth() -> None:
    both = "  both:\n    parents: [e6, other]\n    cascade: true\n"
    text = f"namespace: a\nentities:\n{both}{dumped_chain(7)}  other: {{}}\n"
    with pytest.raises(ManifestError, match="at most 8"):
        load(text)
    manifest = load(text.replace("[e6,", "[e5,"))
    assert dump(manifest) == text.replace("[e6,", "[e5,")
    assert manifest.entities["both"].record == RecordDecl(("e5", "other"), cascade=True)
    assert LimitsManifest.from_dict(manifest.to_dict()) == manifest
    assert manifest.to_dict()["entities"]["both"]["parents"] == ["e5", "other"]
    assert LimitsManifest.of("a", dict(manifest.declared())) == manifest
    turned = load(dump(manifest).replace("[e5, other]", "[other, e5]"))
    assert turned.canonical_hash() != manifest.canonical_hash()  # the first parent is another one


def dumped_chain(length: int) -> str:
    return "  e0: {}\n" + "".join(f"  e{depth}:\n    parent: e{depth - 1}\n" for depth in range(1, length))


def test_a_mistake_in_a_large_tree_is_told_once() -> None:
    many = "\n".join(f"  k{number}: {{parent: e8}}" for number in range(50))
    with pytest.raises(ManifestError) as caught:
        entities(f"{chain(9)}\n{many}")
    assert len(caught.value.problems) == 1
    circle = "\n".join(f"  e{number}: {{parent: e{(number + 1) % 20}}}" for number in range(20))
    with pytest.raises(ManifestError) as caught:
        entities(f"{circle}\n  low: {{parent: e3}}")
    (problem,) = caught.value.problems
    assert problem.message == (
        'goes in a circle: "e0" -> "e1" -> "e2" -> "e3" -> "e4" -> "e5" -> "e6" -> "e7" -> "e8" -> 11 more -> "e0"'
    )


def test_an_entity_that_has_only_limits_stays_as_it_is() -> None:
    limits = "{resources: {r: {limits: {rpm: 1/min}}}}"
    assert declared_records(entities(f"  a: {limits}")) == []
    assert declared_records(entities("  a: {}")) == ["a"]
    assert declared_records(entities("  a: {cascade: false, resources: {r: {limits: {rpm: 1/min}}}}")) == ["a"]
    assert declared_records(entities(f"  a: {limits}\n  b: {{parent: a}}")) == ["a", "b"]


def test_a_section_that_has_lost_its_parent_moves_the_entity_to_the_top() -> None:
    limits = entities("  a: {resources: {r: {limits: {rpm: 1/min}}}}")
    assert declared_records(limits, "a", "gone") == ["a"]
    before = RecordDecl("p", cascade=True)
    plan = compute_diff(
        limits,
        {Address(None, "a"): LiveItem(before, fingerprint(before))},
        managed=ManagedSet(records=frozenset({"a"})),
    )
    assert [str(change.address) for change in plan.changes] == ["entity a", "entity a/r"]
    assert plan.changes[0] == Change(Address(None, "a"), before, RecordDecl())


def test_a_hash_tells_trees_apart() -> None:
    texts = [TREE, TREE.replace("acme: {}", "acme: {name: x}"), TREE.replace("cascade: true", "cascade: false")]
    texts.append(TREE.replace('"n": 1.0', '"n": 1'))
    assert len({load(text).canonical_hash() for text in texts}) == len(texts)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (
            "  a: {parent: b}",
            '3:15: entities.a.parent: "b" is not an entity of this manifest: declare it, by `"b": {}` at least',
        ),
        ("  a: {parents: [b]}", '3:17: entities.a.parents[0]: "b" is not an entity of this manifest'),
        ("  a: {parent: a}", '3:15: entities.a.parent: an entity cannot be its own parent: "a"'),
        ("  a: {parent: b}\n  b: {parent: a}", '3:15: entities.a.parent: goes in a circle: "a" -> "b" -> "a"'),
        (
            "  k: {parent: a}\n  a: {parents: [t, b]}\n  b: {parent: c}\n  c: {parent: a}\n  t: {}",
            '4:20: entities.a.parents[1]: goes in a circle: "a" -> "b" -> "c" -> "a"',
        ),
        (
            "  a: {parents: [b, c]}\n  b: {parent: a}\n  c: {parent: b}",
            '3:17: entities.a.parents[0]: goes in a circle: "a" -> "b" -> "a"',
        ),
        (
            chain(9),
            '"e2", "e1", "e0" are above it, and its acquire would draw on 9 buckets: at most 8',
        ),
        (
            f"{chain(6)}\n  a: {{}}\n  b: {{}}\n  c: {{parents: [a, e5, b]}}",
            '11:16: entities.c.parents: "a", "e5", "b", "e4", "e3", "e2", "e1", "e0" are above it',
        ),
        ("  a: {cascade: true}", "3:16: entities.a.cascade: needs a `parent` to take from: add one, or leave it out"),
        ("  a: {parents: [b, c, d, e, f]}", "3:16: entities.a.parents: must have 1 to 4 of them, not 5"),
        ("  a: {parents: []}", "3:16: entities.a.parents: must have 1 to 4 of them, not 0"),
        ("  a: {parents: [b, b]}\n  b: {}", '3:20: entities.a.parents[1]: "b" is there already: leave one out'),
        (
            '  a: {parents: ["e\u0301", "\u00e9"]}\n  "\u00e9": {}',
            'entities.a.parents[1]: "\u00e9" is there already: leave one out',
        ),
        ("  a: {parents: [b, a]}\n  b: {}", '3:20: entities.a.parents[1]: an entity cannot be its own parent: "a"'),
        ("  a: {parents: b}\n  b: {}", "3:16: entities.a.parents: must be a list of names, not the string"),
        ("  a: {parents: [5]}", "entities.a.parents[0]: must be a string, not the integer 5"),
        ("  a: {parent: b, parents: [b]}\n  b: {}", "3:18: entities.a.parents: is the same as `parent`"),
        ("  a: {parent: null}", "3:15: entities.a.parent: must be a string"),
        ("  a:", "must be a map"),
        ("  a: {name: 5}", "3:13: entities.a.name: must be a string, not the integer 5"),
        (f"  a: {{name: {'x' * 257}}}", "entities.a.name: must have at most 256 characters, not 257"),
        ("  a: {metadata: [1]}", "entities.a.metadata: must be a map"),
        ("  a: {metadata: {x: 2024-01-01}}", "3:21: entities.a.metadata.x: must be text, a number, a boolean"),
        ("  a: {metadata: {1: x}}", "entities.a.metadata[1]: a key must be a string: put it in quotes"),
        ("  a: {metadata: {x: .inf}}", "3:21: entities.a.metadata.x: must be a finite number"),
        ("  a: {metadata: {x: {y: .nan}}}", "3:25: entities.a.metadata.x.y: must be a finite number"),
        ("  a: {metadata: {x: 9223372036854775808}}", "entities.a.metadata.x: must be an integer of 64 bits"),
        (f"  a: {{metadata: {{x: {'y' * 1025}}}}}", "entities.a.metadata.x: must have at most 1024 characters"),
        (f"  a: {{metadata: {{{', '.join(f'k{n}: 1' for n in range(51))}}}}}", "must have at most 50 keys, not 51"),
        ("  a: {metadata: {x: 1, x: 2}}", 'entities.a.metadata.x: duplicate key "x", first in line 3'),
        ("  a: {mother: b}", 'unknown key "mother"'),
    ],
)
def test_a_mistake_is_told_at_its_place(text: str, problem: str) -> None:
    with pytest.raises(ManifestError) as caught:
        entities(text)
    assert problem in str(caught.value)


def test_a_manifest_made_in_python_obeys_the_same_rules() -> None:
    for tree in ({"a": EntityDecl(parents=("b",))}, {"a": EntityDecl(cascade=True)}, {"a": EntityDecl(parents=("a",))}):
        with pytest.raises(ManifestError):
            LimitsManifest("x", entities=tree)


def test_names_in_another_spelling_of_unicode_are_one_entity() -> None:
    assert entities("  e\u0301: {}\n  b: {parent: \u00e9}").entities["b"].parents == ("\u00e9",)


@pytest.mark.parametrize(
    "values",
    [
        {
            "a": '\u2028\x7f\x85\t\n"\\',
            "b": [1e22, -0.0, 1e-7, True, None, {"c": []}],
            "\U0001f600\ue000": "\U0001f600",
        },
        {"yes": "no", "1": "0x10", "k: v": "- #", "n": 2**63 - 1},
    ],
)
def test_metadata_survive_yaml(values: dict[str, Any]) -> None:
    manifest = LimitsManifest("x", entities={"a": EntityDecl(name="\u2028: #\x1f", metadata=Metadata.of(values))})
    assert load(dump(manifest)) == manifest
    assert load(dump(manifest)).entities["a"].metadata.to_dict() == values


@pytest.mark.parametrize(("written", "meant"), [("010", "8 or 10"), ("0x10", "16"), ("+5", "5"), ("[0b1]", "1")])
def test_a_number_of_metadata_in_odd_digits_is_a_mistake(written: str, meant: str) -> None:
    with pytest.raises(ManifestError, match=f"must be in decimal digits, not .*: write {meant}, or put it in quotes"):
        entities(f"  a: {{metadata: {{k: {written}}}}}")
    assert entities(f"  a: {{metadata: {{k: '{written}', n: 1_000}}}}").entities["a"].metadata.to_dict()["n"] == 1000


def test_a_stack_has_the_tree_in_its_own_spelling() -> None:
    properties = StackProperties(load(TREE)).to_dict()
    assert properties["Entities"]["key-1"]["Parent"] == "acme"
    assert properties["Entities"]["globex"]["Metadata"] == '{"n":1.0,"seats":5,"tier":"gold"}'
    assert StackProperties.from_dict(properties).manifest == load(TREE)
    properties["Entities"]["key-1"]["Cascade"] = "true"
    properties["Entities"]["globex"]["Metadata"] = {"n": 1.0, "seats": 5, "tier": "gold"}
    assert StackProperties.from_dict(properties).manifest == load(TREE)
    for bad in ("{", "[1]", "tier=gold", '{"a": NaN}', "[" * 100_000):
        properties["Entities"]["acme"] = {"Metadata": bad}
        with pytest.raises(ManifestError, match=r"Entities.acme.Metadata(.a)?: must be"):
            StackProperties.from_dict(properties)
    properties["Entities"]["acme"] = {}
    properties["Entities"]["key-1"] = {"Parents": ["globex", "acme"], "Cascade": "true"}
    found = StackProperties.from_dict(properties).manifest.entities["key-1"]
    assert found.record == RecordDecl(("globex", "acme"), cascade=True)
    properties["Entities"]["key-1"] = {"Parent": "nobody"}
    with pytest.raises(ManifestError, match=r'Entities.key-1.Parent: "nobody" is not an entity of this manifest'):
        StackProperties.from_dict(properties)


def test_a_plan_shows_what_becomes_of_an_entity() -> None:
    before = {Address(None, "a"): RecordDecl("p", cascade=True, name="A|"), Address(None, "b"): RecordDecl("p")}
    live = {address: LiveItem(decl, fingerprint(decl)) for address, decl in before.items()}
    wanted = entities('  a: {parent: q, name: "A|", metadata: {t: 1}}\n  q: {}')
    plan = compute_diff(wanted, live, managed=ManagedSet(records=frozenset("ab")))
    assert as_text.render_plan(plan).splitlines() == [
        "Namespace a",
        "  ~ entity a",
        "      ~ parent: p -> q",
        "      - cascade: true",
        '      + metadata: {"t": 1}',
        "  - entity b",
        "      - parent: p",
        "  + entity q",
        "Plan: 1 to create, 1 to update, 1 to delete.",
    ]
    assert "| `~` | entity `a` | `parent` | `p -> q` |" in as_markdown.render_plan(plan)
    assert '"fields": [{"limit": null, "field": "parent", "before": "p", "after": "q"}' in as_json.render_plan(plan)
    assert [Change.from_dict(change.to_dict()) for change in plan.changes] == list(plan.changes)
    assert type(plan).from_dict(plan.to_dict()) == plan


def test_a_plan_compares_one_parent_with_several() -> None:
    before = {
        Address(None, "a"): RecordDecl("p"),
        Address(None, "b"): RecordDecl(("p", "q")),
        Address(None, "c"): RecordDecl(("q", "p")),
    }
    live = {address: LiveItem(decl, fingerprint(decl)) for address, decl in before.items()}
    live |= {Address(None, each): LiveItem(RecordDecl(), fingerprint(RecordDecl())) for each in "pq"}
    wanted = entities("  a: {parents: [p, q]}\n  b: {parents: [q]}\n  p: {}\n  q: {}\n  d: {parents: [q, p]}")
    plan = compute_diff(wanted, live, managed=ManagedSet(records=frozenset("abcpq")))
    assert as_text.render_plan(plan).splitlines()[1:-1] == [
        "  ~ entity a",
        "      ~ parents: p -> p, q",
        "  ~ entity b",
        "      ~ parents: p, q -> q",
        "  - entity c",
        "      - parents: q, p",
        "  + entity d",
        "      + parents: q, p",
    ]
    assert [Change.from_dict(change.to_dict()) for change in plan.changes] == list(plan.changes)
    (first, *_) = plan.to_dict()["changes"]
    assert (first["before_record"], first["record"]) == ({"parent": "p"}, {"parents": ["p", "q"]})


def test_an_entity_is_adopted_as_limits_are() -> None:
    plan = compute_diff(entities("  a: {}"), {Address(None, "a"): LiveItem(RecordDecl())})
    (change,) = plan.changes
    assert (change.action, change.adopted, change.fields()) == ("update", True, ())
    assert "  ~ entity a (adopted)\n      stays as it is\n" in as_text.render_plan(plan)
