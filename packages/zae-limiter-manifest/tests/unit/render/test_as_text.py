import re

from attrs import evolve
from hypothesis import given, settings
from hypothesis import strategies as st

from support.manifest.manifests import resource, situations
from zae_limiter_manifest import (
    Address,
    Answer,
    ApplyUnderWay,
    Change,
    Failure,
    LimitDecl,
    LimitsManifest,
    LiveItem,
    ManagedSet,
    Plan,
    RecordDecl,
    ResourceDecl,
    SystemDecl,
    compute_diff,
)
from zae_limiter_manifest.metadata import Metadata
from zae_limiter_manifest.render import as_text

SYSTEM, GPT_4, OLD, USER = Address(), Address("gpt-4"), Address("old"), Address("gpt-4", "user-123")
CHANGES = (
    Change(SYSTEM, SystemDecl(on_unavailable="allow"), SystemDecl(limits={"rpm": LimitDecl(5)})),
    Change(GPT_4, None, ResourceDecl({"rpm": LimitDecl(1000), "tpm": LimitDecl(50, burst=75)})),
    Change(OLD, resource(rpm=10), None, drift=True),
    Change(USER, resource(rpm=500), ResourceDecl({"rpm": LimitDecl(600), "tpm": LimitDecl(1)})),
)
PLAN = Plan("tenant-alpha", CHANGES, managed=3, declared=3)

SHOWN = """\
Namespace tenant-alpha
  ~ system
      - on_unavailable: allow
      + rpm: 5/min
  + resource gpt-4
      + rpm: 1k/min
      + tpm: 50/min burst 75
  - resource old (changed out of band)
      - rpm: 10/min
  ~ entity user-123/gpt-4
      ~ rpm: capacity 500 -> 600
      + tpm: 1/min
Plan: 1 to create, 2 to update, 1 to delete.
"""


def test_a_plan_is_shown_change_by_change_with_old_and_new() -> None:
    assert as_text.render_plan(PLAN) == SHOWN


SHADOWED = Change(
    GPT_4,
    ResourceDecl({"rpm": LimitDecl(5, shadow=True), "tpm": LimitDecl(5)}),
    ResourceDecl({"rpm": LimitDecl(5), "tpm": LimitDecl(6, shadow=True), "new": LimitDecl(7, shadow=True)}),
)


def test_a_change_of_the_mark_of_a_shadow_limit_is_shown_in_words() -> None:
    shown = as_text.render_plan(Plan("a", (SHADOWED,))).splitlines()[2:5]
    assert shown == [
        "      + new: 7/min shadow",
        "      ~ rpm: shadow -> enforced",
        "      ~ tpm: capacity 5 -> 6, enforced -> shadow",
    ]
    drift = as_text.render_drift(Plan("a", (SHADOWED,))).splitlines()[2:5]
    assert drift == [
        "      new: capacity is absent, declared 7; mode is absent, declared shadow",
        "      rpm: mode is shadow, declared enforced",
        "      tpm: capacity is 5, declared 6; mode is enforced, declared shadow",
    ]


def test_a_plan_without_changes_says_so() -> None:
    assert as_text.render_plan(Plan("a")) == "Namespace a\nNo changes.\n"


def test_what_is_adopted_or_created_again_is_said() -> None:
    adopted = Change(GPT_4, resource(rpm=1), resource(rpm=1), adopted=True)
    again = Change(USER, None, resource(rpm=1), drift=True)
    assert as_text.render_plan(Plan("a", (adopted, again))).splitlines()[1:5] == [
        "  ~ resource gpt-4 (adopted)",
        "      limits stay as they are",
        "  + entity user-123/gpt-4 (deleted out of band)",
        "      + rpm: 1/min",
    ]


def test_what_a_plan_says_besides_its_changes_follows_its_summary() -> None:
    deleting = Plan("a", (Change(OLD, resource(rpm=1), None),), managed=2, taken_from="stack:s/r", forgotten=(GPT_4,))
    assert as_text.render_plan(deleting).splitlines()[-4:] == [
        "Plan: 0 to create, 0 to update, 1 to delete.",
        "Takes the namespace over from stack:s/r.",
        "1 managed item already gone: only the state is corrected.",
        "This plan deletes all that is managed: 1 of 2.",
    ]


def test_several_namespaces_are_shown_one_after_the_other() -> None:
    assert as_text.render_plan(Plan("a"), Plan("b")) == "Namespace a\nNo changes.\n\nNamespace b\nNo changes.\n"


def test_drift_is_shown_with_what_stands_there_and_what_is_declared() -> None:
    desired = LimitsManifest(
        "a", resources={"gone": resource(rpm=5), "gpt-4": resource(rpm=500), "new": resource(rpm=1)}
    )
    live = {GPT_4: LiveItem(resource(rpm=400, tpm=7)), OLD: LiveItem(resource(rpm=1)), USER: LiveItem(resource(rpm=1))}
    plan = compute_diff(desired, live, managed=ManagedSet.of([Address("gone"), GPT_4, OLD]))
    assert as_text.render_drift(plan) == (
        "Namespace a\n"
        "  - resource gone (deleted out of band)\n"
        "      rpm: capacity is absent, declared 5\n"
        "  ~ resource gpt-4 (changed out of band)\n"
        "      rpm: capacity is 400, declared 500\n"
        "      tpm: capacity is 7, not declared\n"
        "  ~ resource old (changed out of band)\n"
        "      rpm: capacity is 1, not declared\n"
        "  + resource new (pending)\n"
        "      rpm: capacity is absent, declared 1\n"
        "Drift: 3 items. Pending: 1 change not applied yet. Unmanaged: 1 item.\n"
    )
    assert "  entity user-123/gpt-4 (unmanaged)\n" in as_text.render_drift(plan, list_unmanaged=True)


def test_what_is_pending_is_shown_with_both_values_too() -> None:
    assert as_text.render_drift(Plan("a")) == "Namespace a\nNo drift.\n"
    adopted = Change(Address("as-it-is"), resource(rpm=1), resource(rpm=1), adopted=True)
    pending = (adopted, *(evolve(change, drift=False) for change in CHANGES))
    assert as_text.render_drift(Plan("a", pending)) == (
        "Namespace a\n"
        "  ~ resource as-it-is (pending, adopted)\n"
        "      limits stay as they are\n"
        "  ~ system (pending)\n"
        "      on_unavailable is allow, not declared\n"
        "      rpm: capacity is absent, declared 5\n"
        "  + resource gpt-4 (pending)\n"
        "      rpm: capacity is absent, declared 1000\n"
        "      tpm: capacity is absent, declared 50; burst is absent, declared 75\n"
        "  - resource old (pending)\n"
        "      rpm: capacity is 10, not declared\n"
        "  ~ entity user-123/gpt-4 (pending)\n"
        "      rpm: capacity is 500, declared 600\n"
        "      tpm: capacity is absent, declared 1\n"
        "No drift. Pending: 5 changes not applied yet.\n"
    )


def test_what_was_applied_is_counted() -> None:
    assert as_text.render_applied(Answer.applied(PLAN)).splitlines() == [
        "Namespace tenant-alpha",
        "Applied: 1 created, 2 updated, 1 deleted.",
    ]
    assert as_text.render_applied(Answer.applied(Plan("a"))) == "Namespace a\nNo changes.\n"


def test_what_failed_or_is_left_is_told() -> None:
    away = Failure("not_written", "the table is away", address=USER)
    assert as_text.render_applied(Answer.applied(PLAN, errors=[away], remaining=2)).splitlines()[1:] == [
        "  ! entity user-123/gpt-4: the table is away",
        "Applied: 1 created, 2 updated, 1 deleted. 1 failed. 2 left to do.",
    ]
    bad = Answer.failed([Failure("invalid_manifest", "is missing", path="namespace"), Failure("other", "words")])
    assert as_text.render_applied(bad).splitlines() == [
        "  ! namespace: is missing",
        "  ! words",
        "Failed: 2 errors, nothing was applied.",
    ]


def test_what_was_refused_as_a_whole_is_not_said_to_be_applied() -> None:
    refused = Answer.failed([Failure("stale", "somebody else has applied")], PLAN)
    assert as_text.render_applied(refused).splitlines()[-1] == "Failed: 1 error, nothing was applied."


def test_another_apply_is_one_line_below_a_plan_and_below_drift() -> None:
    until = "by cli (bob), until 2026-01-01T00:15:00Z at most: this may be out of date."
    for began_at, since in (("2026-01-01T00:00:00Z", " since 2026-01-01T00:00:00Z"), (None, "")):
        plan = evolve(PLAN, under_way=ApplyUnderWay("cli (bob)", "2026-01-01T00:15:00Z", began_at))
        line = f"Another apply is under way{since}, {until}\n"
        assert as_text.render_plan(plan) == SHOWN + line
        assert as_text.render_drift(plan) == as_text.render_drift(PLAN) + line


def test_colours_change_nothing_but_the_colour() -> None:
    painted = as_text.render_plan(PLAN, color=True)
    assert "\x1b[32m  + resource gpt-4\x1b[0m" in painted
    assert "\x1b[31m  - resource old (changed out of band)\x1b[0m" in painted
    assert "\x1b[33m      ~ rpm: capacity 500 -> 600\x1b[0m" in painted
    assert re.sub("\x1b\\[[0-9]+m", "", painted) == SHOWN


@given(st.text(st.characters(exclude_categories=[])))
@settings(deadline=None)
def test_words_of_others_can_neither_control_a_terminal_nor_begin_a_line(words: str) -> None:
    text = as_text.render_applied(Answer.failed([Failure("x", words)], Plan("a", taken_from=words)))
    assert all(line.isprintable() for line in text.split("\n"))
    assert len(text.split("\n")) == 4


@given(situations())
@settings(max_examples=60, deadline=None)
def test_a_plan_that_came_back_from_plain_values_looks_the_same(
    situation: tuple[LimitsManifest, dict[Address, LiveItem], ManagedSet],
) -> None:
    desired, live, managed = situation
    plan = compute_diff(desired, live, managed=managed)
    again = Plan.from_dict(plan.to_dict())
    assert as_text.render_plan(again) == as_text.render_plan(plan)
    assert as_text.render_drift(again) == as_text.render_drift(plan)


def test_a_plan_says_what_adoption_clears() -> None:
    before = RecordDecl(("acme",), cascade=True, name="Key of Ann", metadata=Metadata.of({"contract": "C-77"}))
    key = Change(Address(None, "key-1"), before, RecordDecl(("acme",), cascade=True), adopted=True)
    limits = Change(GPT_4, resource(rpm=1, tpm=2), resource(rpm=1), adopted=True)
    told = "Adoption clears what 2 items had and the manifest does not declare: entity key-1: name, metadata; "
    assert f"{told}resource gpt-4: tpm.\n" in as_text.render_plan(Plan("a", (key, limits)))
    assert "clears" not in as_text.render_plan(Plan("a", (Change(GPT_4, None, resource(rpm=1)),)))
