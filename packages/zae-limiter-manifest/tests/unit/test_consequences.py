"""What callers have after a plan: of levels that extend one another, and of what they used of quotas."""

from collections.abc import Mapping

import pytest

from zae_limiter_manifest import Address, LimitsManifest, Plan, compute_diff, load
from zae_limiter_manifest.consequences import Consequences, consequences_of
from zae_limiter_manifest.diff import LiveItem
from zae_limiter_manifest.render import as_json, as_markdown, as_text
from zae_limiter_manifest.render.views import View

HEAD = "namespace: n\n"
KEY = Address("gpt-4", "key")


def planned(before: str, after: str) -> tuple[LimitsManifest, Plan]:
    old, new = (load(HEAD + text) for text in (before, after))
    live = {at: LiveItem(decl) for at, decl in old.declared()}
    return new, compute_diff(new, live, managed=old.managed_set())


def told(before: str, after: str) -> Consequences:
    return consequences_of(*planned(before, after))


def used(before: str, after: str) -> str:
    """What a plan says of a quota that changes from one text to another."""
    text = "resources: {{r: {{limits: {{q: {}}}}}}}"
    (lines,) = told(text.format(before), text.format(after)).used.values() or [("",)]
    return "; ".join(lines)


def keys(
    limits: str, *, resource: str = "rpm: 100/min, tpm: 9k/min", key: str = "{extends: true, limits: {%s}}"
) -> str:
    own = key % limits if "%s" in key else key
    return f"resources: {{gpt-4: {{limits: {{{resource}}}}}}}\nentities: {{key: {{resources: {{gpt-4: {own}}}}}}}\n"


@pytest.mark.parametrize(
    ("before", "after", "line"),
    [
        ("100/month UTC", "1000/month UTC", "q: what was used stays used: 900 more at once"),
        ("100/month UTC", "40/month UTC", "q: what was used stays used: 60 less at once"),
        ("$1.50/day UTC", "$15/day UTC", "q: what was used stays used: $13.50 more at once"),
        ("100/month UTC", "100/day UTC", "q: the new window begins with what was used"),
        ("100 total", "150/day UTC", "q: the new window begins with what was used: 50 more at once"),
        ("100/month UTC", "100/month Europe/Berlin", "q: the new window begins with what was used"),
        ("100/min", "100/month UTC", "q: what its bucket lacks counts as used"),
        ("100/month UTC", "9/min", "q: begins with what is left; what comes back no longer counts as used"),
        ("100/month UTC", "5 concurrent", "q: what was used is forgotten: all slots are free"),
        ("5 concurrent", "100/month UTC", "q: begins its window with what slots are free"),
        ("100/month UTC", "$100/month UTC", "q: what was used stays used; its number counts as millionths of usd now"),
        ("100/month UTC", "100/month UTC alert 80", ""),
        ("100/min", "200/min", ""),
        ("5 concurrent", "6 concurrent", ""),
        ("5 concurrent", "6/min", ""),
    ],
)
def test_what_becomes_of_what_was_used(before: str, after: str, line: str) -> None:
    assert used(before, after) == line


def test_a_quota_that_comes_from_another_level_is_told_at_the_level_that_changes() -> None:
    base = "resources: {r: {limits: {q: 100/day UTC}}}\n"
    own = base + "entities: {e: {resources: {r: {limits: {q: 1000/day UTC}}}}}\n"
    at = Address("r", "e")
    assert told(base, own).used == {at: ("q: what was used stays used: 900 more at once",)}
    assert told(own, base).used == {at: ("q: what was used stays used: 900 less at once",)}
    assert told(base, "system: {limits: {rpm: 1/min}}").used == {
        Address("r"): ("q: limits no call; if it comes back, what was used counts until its window ends",)
    }


def test_an_entity_that_moves_to_another_tier_keeps_what_it_used() -> None:
    text = """tiers:
  free: {resources: {r: {limits: {q: 10/day UTC}}}}
  gold: {resources: {r: {limits: {q: 500/day UTC}}}}
entities: {e: {tier: %s}}
"""
    assert told(text % "free", text % "gold").used == {
        Address(None, "e"): ("r: q: what was used stays used: 490 more at once",)
    }


def test_a_level_that_extends_shows_what_it_gives_together_with_those_below() -> None:
    (line,) = told(keys("rpm: 5/min"), keys("rpm: 7/min")).together[KEY]
    assert line == "together: rpm 7/min; tpm 9k/min of resource gpt-4"
    alone = keys("", key="{limits: {rpm: 7/min}}")
    assert told(keys("rpm: 7/min"), alone).together[KEY] == ("together: rpm 7/min; tpm no longer",)
    assert told(alone, alone.replace("7/min", "8/min")).together == {}


def test_a_level_that_is_extended_names_those_that_extend_it() -> None:
    lines = told(keys("rpm: 5/min"), keys("rpm: 5/min", resource="rpm: 200/min, tpm: 8k/min")).together
    assert lines == {Address("gpt-4"): ("entity key/gpt-4, which extends it: tpm 9k/min -> 8k/min",)}
    assert told(keys("rpm: 5/min"), keys("rpm: 5/min", resource="rpm: 200/min, tpm: 9k/min")).together == {}


def test_a_default_of_an_entity_that_extends_reaches_the_resources_that_change() -> None:
    def of(tpm: str) -> str:
        keys = ", ".join(
            f"k{each}: {{resources: {{_default_: {{extends: true, limits: {{rpm: 1/min}}}}}}}}" for each in range(5)
        )
        return f"resources: {{r: {{limits: {{tpm: {tpm}}}}}}}\nentities: {{{keys}}}\n"

    (lines,) = told(of("9/min"), of("8/min")).together.values()
    assert lines[0] == "entity k0/r, which extends it: tpm 9/min -> 8/min"
    assert lines[3:] == ("2 more that extend it",)


def test_every_form_shows_the_lines() -> None:
    manifest, plan = planned(keys("rpm: 5/min"), keys("rpm: 7/min"))
    notes: Mapping[str, Mapping[Address, tuple[str, ...]]] = {"n": consequences_of(manifest, plan).lines}
    view, line = View(notes=notes), "together: rpm 7/min; tpm 9k/min of resource gpt-4"
    assert f"      = {line}\n" in as_text.render_plan(plan, view=view)
    assert f"      = {line}\n" in as_text.render_drift(plan, view=view)
    assert f"<br>`{line}`" in as_markdown.render_plan(plan, view=view)
    assert f"<br>`{line}`" in as_markdown.render_drift(plan, view=view)
    assert f'"notes": ["{line}"]' in as_json.render_plan(plan, view=view)
    assert f'"notes": ["{line}"]' in as_json.render_drift(plan, view=view)
