from manifests import resource

from zae_limiter_manifest import Address, Answer, Change, Failure, LimitDecl, Plan, ResourceDecl
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
        "| `-` | resource `old` (changed out of band) | `rpm` | capacity 10 |\n"
        "| `~` | entity `user-123/gpt-4` | `rpm` | capacity 500 -> 600 |\n"
        "| `+` |  | `tpm` | capacity 1, burst 2 |\n"
    )


def test_a_plan_without_changes_has_no_table() -> None:
    assert as_markdown.render_plan(Plan("a")) == "### Limits of `a`\n\nNo changes.\n"


def test_words_of_others_neither_format_nor_mention() -> None:
    text = as_markdown.render_plan(Plan("a", taken_from="@team `x` |"))
    assert text.splitlines()[-1] == "Takes the namespace over from `@team 'x' |`."


def test_a_plan_that_is_too_long_for_a_comment_is_cut_and_counted() -> None:
    changes = tuple(Change(Address("gpt-4", f"user-{n}"), None, resource(rpm=1)) for n in range(50_000))
    text = as_markdown.render_plan(Plan("a", changes), Plan("b", changes))
    assert len(text) < 65_536
    assert text.count("Plan: 50000 to create") == 2
    shown = text.count("| `+` |")
    cut = [int(line.split()[2]) for line in text.splitlines() if line.startswith("… and ")]
    assert len(cut) == 2
    assert shown + sum(cut) == 100_000


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
        "| rpm: capacity is absent, declared 5<br>tpm: capacity is absent, declared 6 |\n"
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
