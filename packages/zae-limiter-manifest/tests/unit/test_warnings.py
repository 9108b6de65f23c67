"""The named warnings of a manifest, their places, and what silences them."""

import pytest

from zae_limiter_manifest import ManifestError, json_schema, load
from zae_limiter_manifest.warned import NAMES, Warned
from zae_limiter_manifest.warnings import find_warnings, load_with_warnings

HEAD = "namespace: n\n"


def found(text: str) -> list[Warned]:
    ((_, warnings),) = load_with_warnings([("limits.yaml", HEAD + text)])
    return [*warnings]


def told(text: str) -> list[str]:
    return [f"{each.name} {each.path}" for each in found(text)]


def family(child: str, parent: str = "rpm: 100/min", *, cascade: str = "true", more: str = "") -> str:
    return f"""entities:
  org: {{resources: {{_default_: {{limits: {{{parent}}}}}}}}}
  key:
    parent: org
    cascade: {cascade}
    {more}
    resources: {{_default_: {{limits: {{{child}}}}}}}
"""


ABOVE = "child-above-parent entities.key.resources._default_.limits.rpm"


@pytest.mark.parametrize(
    ("child", "parent"),
    [
        ("rpm: 200/min", "rpm: 100/min"),
        ("rpm: 200/sec", "rpm: 100/min"),
        ("rpm: 200/day UTC", "rpm: 100/day UTC"),
        ("rpm: 5 concurrent", "rpm: 4 concurrent"),
    ],
)
def test_a_child_above_its_parent_is_told(child: str, parent: str) -> None:
    assert told(family(child, parent)) == [ABOVE]
    assert told(family(parent, child)) == told(family(parent, parent)) == []


@pytest.mark.parametrize(
    "parent",
    [
        "tpm: 1/min",
        "rpm: 1/min shadow",
        "rpm: 0/min",
        "rpm: $1/1min",
        "rpm: 1 concurrent",
        "rpm: 100/day UTC",
        "rpm: 1 total",
    ],
)
def test_limits_that_do_not_compare_raise_no_alarm(parent: str) -> None:
    assert told(family("rpm: 200/min", parent)) == []


def test_a_child_without_cascade_is_compared_with_nothing() -> None:
    silent = family("rpm: 200/min", cascade="false")
    assert told(silent) == []  # it says so
    assert told(silent.replace("    cascade: false\n", "")) == ["parent-without-cascade entities.key"]


@pytest.mark.parametrize(
    "off",
    [
        ("_default_: {limits: {rpm: 200", "_default_: {cascade: off, limits: {rpm: 200"),
        ("entities:\n", "system: {cascade: off, limits: {rpm: 1/min}}\nentities:\n"),
        ("entities:\n", "resources: {'*': {cascade: off}}\nentities:\n"),
    ],
)
def test_a_child_whose_switch_is_off_is_compared_with_nothing(off: tuple[str, str]) -> None:
    above = family("rpm: 200/min")
    assert told(above) == [ABOVE]
    assert told(above.replace(*off)) == []


def test_a_switch_of_one_resource_leaves_the_others() -> None:
    off = "gpt-4: {cascade: off}, _default_: {limits: {rpm: 200"
    assert told(family("rpm: 200/min").replace("_default_: {limits: {rpm: 200", off)) == [ABOVE]
    on = "gpt-4: {cascade: on}, _default_: {cascade: off, limits: {rpm: 200"
    above = "child-above-parent entities.key.resources._default_.limits.rpm"
    assert told(family("rpm: 200/min").replace("_default_: {limits: {rpm: 200", on)) == [above]


def test_children_whose_switch_is_off_are_not_added_up() -> None:
    assert told(many(21).replace("{r: {limits: {rpm: 50", "{r: {cascade: off, limits: {rpm: 50")) == []


def test_money_above_its_parent_is_told_as_money() -> None:
    (warned,) = found(family("usd: $50.50/day UTC", "usd: $50/day UTC"))
    assert warned.text.startswith("is $50.50/day UTC, above the $50/day UTC of its parent org")


def test_levels_that_extend_or_are_unlimited_are_resolved() -> None:
    more = "_default_: {limits: {tpm: 9/min}}, "
    above = family("rpm: 200/min").replace(
        "resources: {_default_: {limits: {rpm: 200", "resources: {" + more + "r: {extends: true, limits: {rpm: 200"
    )
    assert told(above) == ["child-above-parent entities.key.resources.r.limits.rpm"]
    free = family("rpm: 200/min").replace("_default_: {limits: {rpm: 100/min}}", "_default_: {limits: unlimited}")
    assert told(f"system: {{limits: {{rpm: 1/min}}}}\n{free}") == []


def test_a_tier_above_several_parents_is_told_once_each() -> None:
    text = """tiers: {gold: {resources: {_default_: {limits: {rpm: 200/min}}}}}
entities:
  a: {resources: {_default_: {limits: {rpm: 100/min}}}}
  b: {resources: {_default_: {limits: {rpm: 150/min}}}}
  k1: {parent: a, cascade: true, tier: gold}
  k2: {parent: a, cascade: true, tier: gold}
  k3: {parent: b, cascade: true, tier: gold}
"""
    above = "child-above-parent tiers.gold.resources._default_.limits.rpm"
    assert told(text) == [above, above]


@pytest.mark.parametrize("default", ["resources: {r: {limits: {rpm: 200/min}}}", "system: {limits: {rpm: 200/min}}"])
def test_a_default_above_a_parent_is_told_once_at_the_parent(default: str) -> None:
    text = f"""{default}
entities:
  org: {{resources: {{r: {{limits: {{rpm: 100/min}}}}}}}}
  key-1: {{parent: org, cascade: true}}
  key-2: {{parent: org, cascade: true}}
  key-3: {{parent: org, cascade: true, resources: {{other: {{limits: {{rpm: 5/min}}}}}}}}
"""
    (warned,) = found(text)
    assert (warned.name, warned.path) == ("child-above-parent", "entities.org.resources.r.limits.rpm")
    assert warned.text.startswith("is 100/min, below the 200/min that key-1, a child of org, has by default (")
    assert warned.place is not None
    assert warned.place.line == 4
    assert told(text.replace("200", "100")) == []


def many(count: int, head: str = "") -> str:
    keys = "".join(f"  k{each}: {{parent: org, cascade: true}}\n" for each in range(count))
    org = "  org: {resources: {r: {limits: {rpm: 100/min}}}}\n"
    return f"{head}resources: {{r: {{limits: {{rpm: 50/min}}}}}}\nentities:\n{org}{keys}"


def test_children_together_above_the_factor_are_told() -> None:
    assert told(many(20)) == []
    (warned,) = found(many(21))
    assert (warned.name, warned.path) == ("oversubscribed", "entities.org.resources.r.limits.rpm")
    assert "21 children of org may take 10.5 times" in warned.text
    assert told(many(21, "oversubscribe: 10.5\n")) == []
    assert told(many(3, "oversubscribe: 1\n")) == ["oversubscribed entities.org.resources.r.limits.rpm"]


def test_a_parent_without_limits_is_told_if_there_are_defaults() -> None:
    families = "entities:\n  org: {}\n  key: {parent: org, cascade: true}\n"
    assert told(families) == []
    assert told(f"system: {{limits: {{rpm: 1/min}}}}\n{families}") == ["parent-without-limits entities.org"]


def test_an_unused_tier_is_told_beside_used_ones() -> None:
    level = "{resources: {_default_: {limits: {rpm: 1/min}}}}"
    tiers = f"tiers: {{free: {level}, gold: {level}}}\n"
    assert told(tiers) == told(f"{tiers}entities: {{ann: {{}}}}\n") == []
    assert told(f"{tiers}entities: {{ann: {{tier: gold}}}}\n") == ["unused-tier tiers.free"]
    assert told(f"{tiers}entities: {{ann: {{tier: gold}}, bob: {{tier: free}}}}\n") == []


def test_a_resource_that_nothing_else_names_is_told() -> None:
    level = "{limits: {rpm: 1/min}}"
    resources = f"resources: {{gpt-4: {level}, gpt-4o: {level}}}\n"
    for name, count in {"gpt4": 1, "gtp-4": 1, "gpt-4": 0, "gpt-4.1": 0, "budget": 0}.items():
        text = f"{resources}entities: {{ann: {{resources: {{{name}: {level}}}}}}}\n"
        assert told(text) == ["unnamed-resource entities.ann.resources." + name] * count, name
    over = "resources: {a: {limits: {rpm: 1/min}, on_refused: {overflow: zzz}}}\n"
    assert told(over) == ["unnamed-resource resources.a.on_refused.overflow"]
    assert told(f"system: {level}\n{over}") == []


def test_a_level_that_extends_has_the_limits_below() -> None:
    tiers = "tiers: {gold: {resources: {api: {limits: {rps: 9/sec, calls: 9/min}}}}}\n"
    entity = "entities: {ann: {tier: gold, resources: {api: {EXTENDS limits: {calls: 5/min}}}}}\n"
    assert told(tiers + entity.replace("EXTENDS", "extends: true,")) == []
    assert "lone-limit tiers.gold.resources.api.limits.rps" in told(tiers + entity.replace("EXTENDS ", ""))


def test_a_limit_that_one_level_alone_has_is_told() -> None:
    own = "{gpt-4: {limits: {rpm: 1/min, NAME: 1/min}}, budget: {limits: {usd: $5/day UTC}}}"
    entities = f"entities: {{ann: {{resources: {own}}}}}\n"
    text = f"resources: {{gpt-4: {{limits: {{rpm: 1/min}}}}}}\n{entities}"
    assert told(text.replace("NAME", "images")) == ["lone-limit entities.ann.resources.gpt-4.limits.images"]
    assert told(text.replace("NAME: 1/min", "")) == []
    assert (
        told(
            text.replace("NAME", "images").replace(
                "{gpt-4: {limits: {rpm: 1/min, ", "{gpt-4: {extends: true, limits: {"
            )
        )
        == []
    )
    assert told("resources: {a: {limits: {tokens-1: 1/min}}, b: {limits: {tokens-2: 1/min}}}\n") == []
    assert "did you mean `rpm`" in found(text.replace("NAME", "rpmm"))[0].text


def test_ignore_silences_by_name_and_refuses_others() -> None:
    text = family("rpm: 200/min")
    assert told(f"ignore: [look-alike]\n{text}") == [ABOVE]
    assert told(f"ignore: [child-above-parent]\n{text}") == []
    with pytest.raises(
        ManifestError, match=r'ignore\[0\]: "child-above" is not known here, did you mean `child-above-p'
    ):
        load(f"{HEAD}ignore: [child-above]\n{text}")
    with pytest.raises(ManifestError, match="is there already"):
        load(f"{HEAD}ignore: [lone-limit, lone-limit]\n{text}")
    assert json_schema()["properties"]["ignore"]["items"] == {"enum": [*NAMES]}


def test_a_warning_has_its_line_with_a_caret() -> None:
    (warned,) = found(family("rpm: 200/min"))
    assert warned.place is not None
    line, caret = warned.place.excerpt.splitlines()
    assert line.endswith("8 |     resources: {_default_: {limits: {rpm: 200/min}}}")
    assert line[caret.index("^") :].startswith("rpm: 200/min")
    assert str(warned).startswith("limits.yaml:8:38: n: entities.key")
    assert str(warned).endswith("[child-above-parent]")
    (placeless,) = find_warnings(load(HEAD + family("rpm: 200/min")))
    assert (placeless, placeless.place) == (warned, None)


def test_a_mistake_has_its_line_with_a_caret() -> None:
    with pytest.raises(ManifestError) as caught:
        load("namespace: n\nsystem:\n  limits: {rpm: ten/min}\n", "limits.yaml")
    told, line, caret = caught.value.with_excerpts().splitlines()
    assert told == str(caught.value)
    assert (line, line[caret.index("^") :]) == ("    3 |   limits: {rpm: ten/min}", "ten/min}")


@pytest.mark.parametrize("text", ["password: secret\n", "secret: [\n", "secret\n"])
def test_another_file_is_not_shown(text: str) -> None:
    with pytest.raises(ManifestError) as caught:
        load(text)
    assert " | " not in caught.value.with_excerpts()


@pytest.mark.parametrize(("window", "days"), [("month", "30d"), ("year", "365d")])
def test_money_of_a_window_without_a_zone_is_told_once_for_a_namespace(window: str, days: str) -> None:
    text = f"""resources:
  r: {{limits: {{usd: $250/{window}}}}}
  s: {{limits: {{usd: $250/{window}}}}}
"""
    (warned,) = found(text)
    assert (warned.name, warned.path) == ("open-day", "resources.r.limits.usd")
    assert f"write its zone (`{window} UTC`), or `{days}`" in warned.text
    assert (
        told(text.replace(window, f"{window} UTC")) == told(f"resources: {{r: {{limits: {{rpm: 9/{window}}}}}}}") == []
    )
