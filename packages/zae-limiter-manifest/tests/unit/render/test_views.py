"""A large plan is shown by its kinds of changes."""

import json
import re

import pytest

from zae_limiter_manifest import Address, Change, LimitDecl, LiveOverride, Plan, ResourceDecl
from zae_limiter_manifest.cuts import largest_cut
from zae_limiter_manifest.render import as_json, as_markdown, as_text
from zae_limiter_manifest.render.views import ALONE, View


def limits(**capacities: int) -> ResourceDecl:
    return ResourceDecl({name: LimitDecl(capacity) for name, capacity in capacities.items()})


def entity(number: int, before: ResourceDecl | None, after: ResourceDecl | None) -> Change:
    return Change(Address("gpt-4", f"user-{number:04}"), before, after)


RAISED = tuple(entity(number, limits(rpm=10), limits(rpm=20)) for number in range(5000))
CUT = Change(Address("gpt-4"), limits(rpm=100, tpm=9), limits(rpm=10, tpm=9))
LARGE = Plan("a", (CUT, *RAISED), managed=5001, declared=5001)

SHOWN = """\
Namespace a
  level     create  update  delete  cuts
  resource       0       1       0     1
  entity         0   5,000       0     0
  ~ resource gpt-4 (cuts rpm by 90 %)
      ~ rpm: capacity 100 -> 10
  ~ entity user-0000/gpt-4, and 4,999 more like this
      ~ rpm: capacity 10 -> 20
Plan: 0 to create, 5,001 to update, 0 to delete.
"""


def test_a_large_plan_is_its_numbers_and_its_kinds_of_changes_with_the_largest_cut_first() -> None:
    assert as_text.render_plan(LARGE) == SHOWN


def test_each_item_is_shown_on_request_and_in_a_small_plan() -> None:
    assert as_text.render_plan(LARGE, view=View(full=True)).count("\n  ~ ") == 5001
    assert "user-0019/gpt-4\n" in as_text.render_plan(Plan("a", RAISED[:20]))
    assert "and 20 more like this" in as_text.render_plan(Plan("a", RAISED[:21]))


def test_changes_with_many_different_numbers_are_one_kind_behind_the_one_that_cuts_most() -> None:
    changes = tuple(entity(number, limits(rpm=100), limits(rpm=99 - number)) for number in range(90))
    assert as_text.render_plan(Plan("a", changes)).splitlines()[3:7] == [
        "  ~ entity user-0089/gpt-4 (cuts rpm by 90 %)",
        "      ~ rpm: capacity 100 -> 10",
        "  ~ entity user-0088/gpt-4 (cuts rpm by 89 %), and 88 more like this, with other values",
        "      ~ rpm: capacity 100 -> 11",
    ]


VARIED = [entity(number, limits(rpm=1000, tpm=7), limits(rpm=1001 + number % 50, tpm=7)) for number in range(300)]
ODD = {
    "a cut to 1": (limits(rpm=1000), limits(rpm=1), "rpm: capacity 1000 -> 1"),
    "the largest raise": (limits(rpm=1000), limits(rpm=90_000), "rpm: capacity 1000 -> 90000"),
    "a raise from nothing": (limits(rpm=0), limits(rpm=1), "rpm: capacity 0 -> 1"),
    "a bypass": (limits(rpm=9), ResourceDecl({"rpm": LimitDecl(9)}, bypass=True), "bypass"),
}


def alone(plan: Plan, name: str) -> bool:
    """Whether an item stands outside of the kinds, in all three forms alike."""
    text, markdown = as_text.render_plan(plan), as_markdown.render_plan(plan).partition("<details>")[0]
    (document,) = json.loads(as_json.render_plan(plan))["namespaces"]
    found = {
        any(line.endswith((name, "%)")) and name in line for line in text.splitlines()),
        bool(re.search(rf"`{name}`(?: \(cuts [^)]+\))? \|", markdown)),
        any(each["target"] == name and each.get("stands_alone", False) for each in document["changes"]),
    }
    assert len(found) == 1, found
    return found.pop()


def test_the_one_cut_to_1_among_thousands_of_cuts_stands_alone() -> None:
    cuts = [entity(number, limits(rpm=1000), limits(rpm=999 - number % 50)) for number in range(5000)]
    assert alone(Plan("a", (*cuts, Change(Address("gpt-4", "odd"), limits(rpm=1000), limits(rpm=1)))), "odd/gpt-4")


@pytest.mark.parametrize("case", ODD)
def test_the_one_odd_change_of_its_kind_stands_alone(case: str) -> None:
    before, after, line = ODD[case]
    odd = Change(Address("gpt-4", "odd"), before, after)
    plan = Plan("a", (*VARIED[:100], odd, *VARIED[100:]))
    assert alone(plan, "odd/gpt-4")
    assert line in as_text.render_plan(plan)
    assert not alone(plan, "user-0007/gpt-4")


def test_of_each_limit_the_largest_cut_and_the_largest_raise_stand_alone() -> None:
    both = limits(rpm=100, tpm=100)
    small = [entity(number, both, limits(rpm=91 + number % 8, tpm=101 + number % 9)) for number in range(90)]
    odd = {"a": (50, 120), "b": (120, 40), "c": (150, 101), "d": (101, 160)}
    changes = [Change(Address("r", name), both, limits(rpm=rpm, tpm=tpm)) for name, (rpm, tpm) in odd.items()]
    plan = Plan("a", (*small, *changes))
    assert [alone(plan, f"{name}/r") for name in odd] == [True] * 4


def test_each_change_of_many_callers_stands_alone_and_those_beyond_twenty_are_counted() -> None:
    shared = [Change(Address(f"r-{number:02}"), limits(rpm=100), limits(rpm=50)) for number in range(ALONE + 5)]
    shared[7] = Change(Address("anthropic/*"), limits(rpm=100), limits(rpm=3))
    shared[8] = Change(Address.of_tier("gold", "_default_"), limits(rpm=100), limits(rpm=4))
    odd = Change(Address("gpt-4", "odd"), limits(rpm=100), limits(rpm=99))
    plan = Plan("a", (*VARIED, *shared, odd))
    text = as_text.render_plan(plan)
    names = [line.split(" (")[0] for line in text.splitlines() if line.startswith("  ~ ") and "more like" not in line]
    assert names[:2] == ["  ~ resource anthropic/*", "  ~ tier gold/_default_"]
    assert (names[-1], len(names)) == ("  ~ entity odd/gpt-4", ALONE - 1)
    assert "\n  ~ entity user-0049/gpt-4, and 5 more like this\n" in text  # the largest raise, of six
    assert "\n  … and 7 more that would stand alone, among the kinds\n" in text
    assert "\n… and 7 more that would stand alone, among the kinds.\n" in as_markdown.render_plan(plan)
    (document,) = json.loads(as_json.render_plan(plan))["namespaces"]
    assert sum(each.get("stands_alone", False) for each in document["changes"]) == ALONE


def test_equal_changes_of_entities_stay_together_and_a_small_plan_marks_none() -> None:
    text = as_text.render_plan(
        Plan("a", (*VARIED, *(entity(9000 + n, limits(rpm=100), limits(rpm=1)) for n in range(3))))
    )
    assert "  ~ entity user-9000/gpt-4 (cuts rpm by 99 %), and 2 more like this\n" in text
    assert "stands_alone" not in as_json.render_plan(Plan("a", tuple(VARIED[:20])))


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("limits_each", [1, 3, 32])
def test_any_plan_fits_a_terminal_of_24_lines_and_counts_what_it_leaves_out(limits_each: int) -> None:
    changes = [
        entity(number, None, limits(**{f"l{number % 40}-{each}": number + 1 for each in range(limits_each)}))
        for number in range(1000)
    ]
    override = LiveOverride(Address("gpt-4", "x"), "2026-11-27T18:00:00Z", limits(rpm=1))
    text = as_text.render_plan(Plan("a", tuple(changes), overrides=(override,) * 30, taken_from="stack:b"))
    assert len(text.splitlines()) <= 22  # and the hash
    assert "… and 29 more overrides: --full shows each" in text
    shown = sum(1 + int(more or 0) for more in re.findall(r"  \+ entity [^\s,]+(?:, and (\d+) more)?", text))
    (left,) = re.findall(r"… and ([\d,]+) more of other kinds", text)
    assert shown + int(left.replace(",", "")) == 1000


def test_drift_of_many_items_is_shown_by_its_kinds_too() -> None:
    drifted = tuple(Change(each.address, each.before, each.after, drift=True) for each in RAISED)
    assert as_text.render_drift(Plan("a", (*drifted, CUT))).splitlines() == [
        "Namespace a",
        "  ~ resource gpt-4 (pending)",
        "      rpm: capacity is 100, declared 10",
        "  ~ entity user-0000/gpt-4 (changed out of band), and 4,999 more like this",
        "      rpm: capacity is 10, declared 20",
        "Drift: 5,000 items. Pending: 1 change not applied yet.",
    ]


def test_markdown_has_the_kinds_of_large_drift_as_of_a_large_plan() -> None:
    drifted = tuple(Change(each.address, each.before, each.after, drift=True) for each in RAISED)
    text = as_markdown.render_drift(Plan("a", (*drifted, CUT)))
    head, folded = text.split("<details><summary>Each item</summary>\n\n")
    assert "| entity | 0 | 5,000 | 0 | 0 |\n" in head
    assert (
        "| item | live and declared |\n|---|---|\n| resource `gpt-4` (pending) | `rpm: capacity is 100, declared 10` |"
        in head
    )
    more = "(changed out of band), and 4,999 more like this | `rpm: capacity is 10, declared 20` |"
    assert f"| entity `user-0000/gpt-4` {more}\n" in head
    assert folded.endswith(" more.\n\n</details>\n")
    assert len(text) <= as_markdown.LONGEST
    assert "<details>" not in as_markdown.render_drift(Plan("a", (*drifted, CUT)), view=View(full=True))


def test_a_narrow_view_shows_some_items_and_counts_all() -> None:
    by_entity = as_text.render_plan(LARGE, view=View(entities=frozenset({"user-0007"})))
    assert by_entity == as_text.render_plan(LARGE, view=View(pattern="user-0007/*"))
    assert by_entity.splitlines()[1:] == [
        "  ~ entity user-0007/gpt-4",
        "      ~ rpm: capacity 10 -> 20",
        "Plan: 0 to create, 5,001 to update, 0 to delete.",
        "Shown: 1 of 5,001 changes; counts and hash are of the whole plan.",
    ]
    document = json.loads(as_json.render_plan(LARGE, view=View(pattern="resource gpt-*")))
    (namespace,) = document["namespaces"]
    assert [change["target"] for change in namespace["changes"]] == ["gpt-4"]
    assert (namespace["updated"], document["hash"]) == (5001, LARGE.changes_hash())
    assert "Shown: 0 of 5,001 changes" in as_markdown.render_plan(LARGE, view=View(pattern="system"))


def test_what_is_known_of_the_use_of_a_cut_limit_stands_below_it() -> None:
    view = View(risks={LARGE.namespace: {CUT.address: "used up to 900 an hour"}})
    assert "capacity 100 -> 10\n      ! used up to 900 an hour\n" in as_text.render_plan(LARGE, view=view)
    assert "**used up to 900 an hour** |" in as_markdown.render_plan(LARGE, view=view)
    document = json.loads(as_json.render_plan(LARGE, view=view))
    assert document["namespaces"][0]["changes"][0]["risk"] == "used up to 900 an hour"


def test_markdown_has_the_kinds_of_a_large_plan_and_folds_its_items() -> None:
    text = as_markdown.render_plan(LARGE)
    head, folded = text.split("<details><summary>Each item</summary>\n\n")
    assert "| entity | 0 | 5,000 | 0 | 0 |\n" in head
    assert "| `~` | entity `user-0000/gpt-4`, and 4,999 more like this | `rpm` | `capacity 10 -> 20` |\n" in head
    assert folded.endswith(" more.\n\n</details>\n")
    (left,) = re.findall(r"… and ([\d,]+) more\.", folded)
    assert folded.count("| `~` |") + int(left.replace(",", "")) == 5001
    assert len(text) <= as_markdown.LONGEST


@pytest.mark.long(keep=1)
@pytest.mark.parametrize(("namespaces", "changed"), [(1, 600), (7, 600), (300, 60)])
def test_markdown_of_any_size_fits_a_comment_and_names_each_large_plan_that_fits(namespaces: int, changed: int) -> None:
    long = "|" * 150
    kinds = [entity(number, None, limits(**{f"l{number % 300}": number + 1})) for number in range(changed)]
    changes = (*kinds, Change(Address("gpt-4", long), None, limits(rpm=1)))
    text = as_markdown.render_plan(*(Plan(f"n-{number}", changes) for number in range(namespaces)))
    assert len(text) <= as_markdown.LONGEST
    assert text.count("### Limits of") == min(namespaces, text.count("<details>"))
    assert text.count("<details>") == text.count("</details>") > min(namespaces, 7) - 1


@pytest.mark.parametrize(
    ("before", "after", "cut"),
    [
        (LimitDecl(100), LimitDecl(25), ("rpm", 0.75)),
        (LimitDecl(100), LimitDecl(0), ("rpm", 1.0)),
        (LimitDecl(0), LimitDecl(0, burst=0, refill_amount=5), None),
        (LimitDecl(100), LimitDecl(100, refill_period=120), ("rpm", 0.5)),
        (LimitDecl(100, burst=200), LimitDecl(100), ("rpm", 0.5)),
        (LimitDecl(100), LimitDecl(10, shadow=True), None),
        (LimitDecl(100), LimitDecl(101), None),
    ],
)
def test_a_cut_is_what_a_limit_loses_of_its_capacity_burst_or_rate(
    before: LimitDecl, after: LimitDecl, cut: tuple[str, float] | None
) -> None:
    assert largest_cut(entity(1, ResourceDecl({"rpm": before}), ResourceDecl({"rpm": after}))) == cut


def test_what_comes_or_goes_as_a_whole_is_no_cut() -> None:
    assert largest_cut(entity(1, None, limits(rpm=1))) is largest_cut(entity(1, limits(rpm=1), None)) is None
    assert largest_cut(entity(1, limits(rpm=1), limits(tpm=1))) is None
