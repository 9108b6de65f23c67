import pytest

from support.manifest.manifests import resource
from zae_limiter_manifest import Address, Answer, ApplyUnderWay, Change, Failure, LimitDecl, Plan, ResourceDecl
from zae_limiter_manifest.render import as_markdown

GPT_4, OLD, USER = Address("gpt-4"), Address("old"), Address("gpt-4", "user-123")
PLAN = Plan(
    "tenant-alpha",
    (
        Change(GPT_4, resource(rpm=1), resource(rpm=1), adopted=True),
        Change(OLD, resource(rpm=10), None, drift=True),
        Change(USER, resource(rpm=500), ResourceDecl({"rpm": LimitDecl(600), "tpm": LimitDecl(1, burst=2)})),
    ),
    declared=2,
)


def test_a_plan_is_a_table_under_its_summary() -> None:
    assert as_markdown.render_plan(PLAN) == (
        "### Limits of `tenant-alpha`\n"
        "\n"
        "Plan: 0 to create, 2 to update, 1 to delete.\n"
        "\n"
        "| | item | limit | change |\n"
        "|---|---|---|---|\n"
        "| `~` | resource `gpt-4` (adopted) | | limits stay as they are |\n"
        "| `-` | resource `old` (changed out of band) | `rpm` | `10/min` |\n"
        "| `~` | entity `user-123/gpt-4` | `rpm` | `capacity 500 -> 600` |\n"
        "| `+` |  | `tpm` | `1/min burst 2` |\n"
    )


def test_a_plan_without_changes_has_no_table() -> None:
    assert as_markdown.render_plan(Plan("a")) == "### Limits of `a`\n\nNo changes.\n"


def test_words_of_others_neither_format_nor_mention() -> None:
    text = as_markdown.render_plan(Plan("a", taken_from="@team `x` |"))
    assert text.splitlines()[-1] == "Takes the namespace over from ``@team `x` |``."


@pytest.mark.parametrize(
    ("entity", "cell"),
    [
        ("auth0|123", r"`auth0\|123/gpt-4`"),
        ("`a``b", "``` `a``b/gpt-4 ```"),
        (r"a\|@team", r"`a\\u007c@team/gpt-4`"),
        ("/v1", '`"/v1"/gpt-4`'),
        ("日本", "`日本/gpt-4`"),
    ],
)
def test_no_id_breaks_out_of_its_cell(entity: str, cell: str) -> None:
    change = Change(Address("gpt-4", entity), None, resource(rpm=1))
    assert f"| `+` | entity {cell} | `rpm` |" in as_markdown.render_plan(Plan("a", (change,)))


def test_a_plan_that_is_too_long_for_a_comment_is_cut_and_counted() -> None:
    changes = tuple(Change(Address("gpt-4", f"user-{n}"), None, resource(rpm=1)) for n in range(4_000))
    text = as_markdown.render_plan(Plan("a", changes), Plan("b", changes))
    assert len(text) < 65_536
    assert text.count("Plan: 4,000 to create") == 2
    shown = items(text)
    cut = [counted(line) for line in text.splitlines() if line.startswith("… and ")]
    assert len(cut) == 2
    assert shown + sum(cut) == 8_000


CREATES = tuple(Change(Address("gpt-4", f"user-{n}"), None, resource(rpm=1)) for n in range(2_000))


def changing(name: str, changes: int = 1) -> Plan:
    return Plan(name, CREATES[:changes])


def items(text: str) -> int:
    """How many items are shown, each by itself: not as the one that stands for its kind."""
    return text.count("| `+` |") - text.count(" more like this | ")


def counted(line: str) -> int:
    return int(line.split()[2].replace(",", ""))


def titles(text: str) -> list[str]:
    return [line.removeprefix("### Limits of ") for line in text.splitlines() if line.startswith("### Limits of")]


def test_of_many_plans_the_few_that_change_something_are_told_and_the_others_are_one_line() -> None:
    plans = [Plan(f"ns-{n}") for n in range(30)]
    text = as_markdown.render_plan(*plans[:3], changing("busy", 100), *plans[3:])
    assert (titles(text), items(text)) == (["`busy`"], 100)
    assert text.endswith(f"\n\n### No changes\n\n30 namespaces: {', '.join(f'`ns-{n}`' for n in range(30))}\n")


def test_of_very_many_plans_without_changes_some_are_named() -> None:
    text = as_markdown.render_plan(*(Plan(f"namespace-{n}") for n in range(900)))
    assert text.startswith("### No changes\n\n900 namespaces: `namespace-0`, `namespace-1`, ")
    more = int(text.split()[-2])
    assert (text.count("`,") + 1 + more, text.endswith(f"` and {more} more\n"), len(text) < 1_200) == (900, True, True)


def test_another_apply_is_a_remark_with_its_owner_as_code() -> None:
    plan = Plan("a", under_way=ApplyUnderWay("cli (*bob*)", "2026-01-01T00:15:00Z"))
    line = "Another apply is under way, by `cli (*bob*)`, until 2026-01-01T00:15:00Z at most: this may be out of date."
    assert line in as_markdown.render_plan(plan)
    assert line in as_markdown.render_drift(plan)


def test_a_plan_with_something_to_say_besides_changes_has_a_section() -> None:
    forgetful, taken = Plan("a", forgotten=(OLD,)), Plan("b", taken_from="cli")
    assert titles(as_markdown.render_plan(forgetful, Plan("c"), taken)) == ["`a`", "`b`"]


@pytest.mark.parametrize(("count", "changes"), [(32, 200), (150, 20), (900, 1), (900, 5), (3000, 1)])
def test_the_whole_is_never_too_long_and_what_is_left_out_is_counted(count: int, changes: int) -> None:
    plans = [changing(f"namespace-{n}", changes) for n in range(count // 2)]
    text = as_markdown.render_plan(*plans, *(Plan(f"quiet-{n}") for n in range(count // 2)))
    assert len(text) <= as_markdown.LONGEST
    told = len(titles(text))
    left_out = [counted(line) for line in text.splitlines() if "more namespace" in line]
    assert told + sum(left_out) == count // 2
    cut = [counted(line) for line in text.splitlines() if line.startswith("… and ") and "name" not in line]
    assert items(text) + sum(cut) == told * changes
    assert text.count("| `+` |") >= told


def test_what_a_small_plan_does_not_need_is_room_for_the_large_ones() -> None:
    text = as_markdown.render_plan(changing("large", 2_000), *(changing(f"small-{n}") for n in range(50)))
    assert (len(titles(text)), len(text) > 50_000) == (51, True)


def test_a_row_that_is_too_long_is_counted() -> None:
    pending = Plan("a", (Change(GPT_4, None, resource(rpm=5)),))
    text = as_markdown.render_applied(Answer.applied(pending, errors=[Failure("x", "y" * 70_000)]))
    assert (len(text) < 1_000, "yyy" in text, text.splitlines()[-1]) == (True, False, "… and 1 more.")


def test_an_owner_with_a_very_long_name_does_not_make_it_too_long() -> None:
    text = as_markdown.render_plan(changing("a"), Plan("b", taken_from="x" * 100_000))
    assert (titles(text), text.splitlines()[-1]) == (["`a`"], "… and 1 more namespace.")


def test_drift_and_outcomes_of_many_namespaces_share_the_room_too() -> None:
    drifted = Plan("a", (Change(GPT_4, None, resource(rpm=5), drift=True),))
    pending = Plan("b", (Change(GPT_4, None, resource(rpm=5)),))
    quiet = [Plan(f"ns-{n}") for n in range(40)]
    drift = as_markdown.render_drift(drifted, pending, *quiet)
    assert (titles(drift), "| resource `gpt-4` (deleted" in drift) == (["`a`", "`b`"], True)
    assert "### No drift\n\n40 namespaces: `ns-0`, " in drift
    answers = [Answer.applied(pending, errors=[Failure("x", "y" * 500)] * 200), *map(Answer.applied, quiet)]
    applied = as_markdown.render_applied(*answers)
    assert (titles(applied), applied.count("- `yyy") > 100, "### No changes\n" in applied) == (["`b`"], True, True)


def test_unmanaged_items_are_listed_where_asked_for() -> None:
    plan = Plan("a", unmanaged=(OLD, USER))
    assert "old" not in as_markdown.render_drift(plan)
    assert as_markdown.render_drift(plan, list_unmanaged=True) == (
        "### Limits of `a`\n"
        "\n"
        "No drift. Unmanaged: 2 items.\n"
        "\n"
        "| item | live and declared |\n"
        "|---|---|\n"
        "| resource `old` | unmanaged |\n"
        "| entity `user-123/gpt-4` | unmanaged |\n"
    )


def test_drift_is_a_table_of_live_and_declared() -> None:
    gone = Change(GPT_4, None, resource(rpm=5, tpm=6), drift=True)
    assert as_markdown.render_drift(Plan("a", (gone,), unmanaged=(OLD,), declared=1)) == (
        "### Limits of `a`\n"
        "\n"
        "Drift: 1 item. Unmanaged: 1 item.\n"
        "\n"
        "| item | live and declared |\n"
        "|---|---|\n"
        "| resource `gpt-4` (deleted out of band) "
        "| `rpm: capacity is absent, declared 5`<br>`tpm: capacity is absent, declared 6` |\n"
    )


def test_what_is_pending_is_a_row_of_the_same_table() -> None:
    pending = Change(GPT_4, resource(rpm=4), resource(rpm=5))
    assert as_markdown.render_drift(Plan("a", (pending,), declared=1)) == (
        "### Limits of `a`\n"
        "\n"
        "No drift. Pending: 1 change not applied yet.\n"
        "\n"
        "| item | live and declared |\n"
        "|---|---|\n"
        "| resource `gpt-4` (pending) | `rpm: capacity is 4, declared 5` |\n"
    )


def test_what_was_applied_is_counted_and_what_failed_listed() -> None:
    answer = Answer.applied(PLAN, errors=[Failure("not_written", "@all <b>away</b>\n# x", address=USER)])
    assert as_markdown.render_applied(answer) == (
        "### Limits of `tenant-alpha`\n"
        "\n"
        "Applied: 0 created, 2 updated, 1 deleted. 1 failed.\n"
        "\n"
        "- `entity user-123/gpt-4: @all <b>away</b>\\x0a# x`\n"
    )
    assert as_markdown.render_applied(Answer.failed([Failure("x", "y")])).startswith("### Limits\n\nFailed: 1 error")
