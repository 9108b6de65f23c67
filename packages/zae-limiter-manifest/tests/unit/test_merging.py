"""Several files of one namespace, and parts that are there to be shared."""

import pytest

from zae_limiter_manifest import LimitsManifest, ManifestError, json_schema, load, load_all

SHARED = """\
namespace: x
x-limits: &limits {rpm: 10/min, tpm: 1k/min}
resources:
  gpt-4: {limits: *limits}
  gpt-5: {limits: {<<: *limits, rpm: 20/min}}
"""


def refused(*files: str) -> list[str]:
    with pytest.raises(ManifestError) as caught:
        load_all((f"{place}.yaml", f"namespace: x\n{text}") for place, text in enumerate(files))
    return [str(each) for each in caught.value.problems]


def test_the_files_of_a_namespace_are_one_manifest() -> None:
    parts = [
        ("a.yaml", "namespace: x\nsystem: {limits: {rpm: 9/min}}\nentities: {key: {parent: acme}}"),
        ("b.yaml", "namespace: y"),
        ("c.yaml", "namespace: x\nresources: {gpt-4: {limits: {rpm: 5/min}}}\nentities: {acme: {}}"),
    ]
    first, other = load_all(parts)
    whole = "system: {limits: {rpm: 9/min}}\nresources: {gpt-4: {limits: {rpm: 5/min}}}"
    assert first == load(f"namespace: x\n{whole}\nentities: {{acme: {{}}, key: {{parent: acme}}}}")
    assert other == LimitsManifest("y")
    assert load_all(reversed(parts))[0] == first


@pytest.mark.parametrize(
    ("first", "second", "problem"),
    [
        (
            "system: {limits: {a: 1/s}}",
            "\nsystem: {limits: {b: 1/s}}",
            '1.yaml:3:1: system: "system" is declared in 0.yaml:2 too: leave one of them out',
        ),
        (
            "resources: {r: {limits: {a: 1/s}}}",
            "resources: {r: {limits: {b: 1/s}}}",
            '1.yaml:2:13: resources.r: "r" is declared in 0.yaml:2 too: leave one of them out',
        ),
        (
            "entities: {é: {}}",
            "entities: {e\u0301: {}}",
            '1.yaml:2:12: entities["e\u0301"]: "e\u0301" is declared in 0.yaml:2 too: leave one of them out',
        ),
    ],
)
def test_what_two_files_declare_is_a_mistake_that_names_both(first: str, second: str, problem: str) -> None:
    assert refused(first, second) == [problem]


def test_mistakes_between_files_are_told_in_the_file_that_has_them() -> None:
    found = refused("entities: {a: {}}", "entities: {b: {parent: nobody}}", "entities: {c: {parents: [b, none]}}")
    assert [each.split(": ")[:2] for each in found] == [
        ["1.yaml:2:24", "entities.b.parent"],
        ["2.yaml:2:29", "entities.c.parents[1]"],
    ]


def test_a_file_without_a_namespace_is_no_part_of_another() -> None:
    with pytest.raises(ManifestError) as caught:
        load_all([("a.yaml", "namespace: x"), ("b.yaml", "entities: {a: {}}"), ("c.yaml", "[]")])
    assert [(each.file, each.message) for each in caught.value.problems] == [
        ("b.yaml", "`namespace` is missing"),
        ("c.yaml", "must be a map, not a list"),
    ]


SHARED_TIERS = ("tiers.yaml", "x-a: &a {rpm: 1/min}\ntiers: {free: {resources: {_default_: {limits: *a}}}}")


def test_a_file_with_tiers_alone_is_part_of_each_namespace() -> None:
    acme = ("acme.yaml", "namespace: acme\nentities: {a: {tier: free}}")
    other = ("other.yaml", "namespace: other\ntiers: {gold: {resources: {r: {limits: {rpm: 9/min}}}}}")
    first, second = load_all([SHARED_TIERS, acme, other])
    free = "{resources: {_default_: {limits: {rpm: 1/min}}}}"
    assert first == load(f"namespace: acme\ntiers: {{free: {free}}}\nentities: {{a: {{tier: free}}}}")
    assert (second.namespace, list(second.tiers)) == ("other", ["free", "gold"])
    assert load_all([other, acme, SHARED_TIERS]) == (second, first)


def test_tiers_without_a_namespace_need_another_file_that_names_it() -> None:
    way_out = "`namespace` is missing: add it, or pass a file that has it beside these tiers"
    for files in ([SHARED_TIERS], [SHARED_TIERS, ("b.yaml", SHARED_TIERS[1])]):
        with pytest.raises(ManifestError) as caught:
            load_all(files)
        assert [(each.file, each.message) for each in caught.value.problems] == [(name, way_out) for name, _ in files]
    with pytest.raises(ManifestError, match=way_out):
        load(SHARED_TIERS[1])
    with pytest.raises(ManifestError, match="`namespace` is missing"):
        LimitsManifest.from_dict({"tiers": {}})


@pytest.mark.parametrize(
    ("tiers", "of_acme", "problems"),
    [
        (SHARED_TIERS[1], "tiers: {free: {resources: {r: {limits: {rpm: 9/min}}}}}", [("acme.yaml", 2, "tiers.free")]),
        ("tiers: {free: {}}", "", [("tiers.yaml", 1, "tiers.free")]),
        ("tiers: []", "", [("tiers.yaml", 1, "tiers")]),
        ("tiers: {}\nresources: {}", "", [("tiers.yaml", 1, "(document)")]),
        (SHARED_TIERS[1], "entities: {a: {tier: fre}}", [("acme.yaml", 2, "entities.a.tier")]),
        ("tiers: {}", "namespace: again", [("acme.yaml", 2, "namespace")]),
    ],
    ids=["twice", "no-tier", "no-map", "more-than-tiers", "unknown", "other-mistake"],
)
def test_a_mistake_in_shared_tiers_is_told_once_in_its_file(
    tiers: str, of_acme: str, problems: list[tuple[str, int, str]]
) -> None:
    files = [("acme.yaml", f"namespace: acme\n{of_acme}"), ("other.yaml", "namespace: other"), ("tiers.yaml", tiers)]
    with pytest.raises(ManifestError) as caught:
        load_all(files)
    assert [(each.file, each.line, each.path) for each in caught.value.problems] == problems


def test_keys_that_begin_with_x_hold_what_is_shared() -> None:
    manifest = load(SHARED)
    assert manifest == load(
        "namespace: x\nresources:\n  gpt-4: {limits: {rpm: 10/min, tpm: 1k/min}}\n"
        "  gpt-5: {limits: {rpm: 20/min, tpm: 1k/min}}"
    )
    assert json_schema()["patternProperties"] == {"^x-": {}}


def test_only_a_text_has_them_and_only_at_its_top() -> None:
    with pytest.raises(ManifestError, match='unknown key "x-limits"'):
        LimitsManifest.from_dict({"namespace": "x", "x-limits": {}})
    assert refused("system: {x-limits: {}, limits: {a: 1/s}}")[0].startswith(
        '0.yaml:2:10: system.x-limits: unknown key "x-limits"'
    )
