"""What lives here: the commands of `usage` that the docs show, and their Python, over a table with usage.
What never does: what a command does in detail (test_usage, test_usage_top).
"""

import re
import shlex
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from support.cli.by_hand import opened
from support.cli.tables import Table
from zae_limiter.values.usage import Window
from zae_limiter_cli.main import main

DOCS = Path(__file__).resolve().parents[5] / "docs"
COMMAND = re.compile(r"(?:^|`)zae-limiter (usage [^`\n]+)", re.MULTILINE)


def used(table: Table) -> None:
    """On `gpt-4`, shadow limits spare `spared` now, and enforced ones refuse `refused`."""
    now = datetime.now(UTC)
    hour = now.replace(minute=0, second=0, microsecond=0)
    windows: tuple[tuple[Window, datetime], ...] = (("hourly", hour), ("daily", hour.replace(hour=0)))
    for window, start in windows:
        table.used("refused", "gpt-4", start, window, refused=9)
        table.used("spared", "gpt-4", start, window, shadowed=3, tpm=5)


def shown(page: str) -> dict[str, str]:
    """What each command of a page prints; all of them succeed."""
    printed = {}
    for line in COMMAND.findall((DOCS / page).read_text(encoding="utf-8")):
        done = CliRunner().invoke(main, [*shlex.split(line, comments=True), "--name", "my-app"])
        assert (done.exit_code, done.stderr) == (0, ""), (line, done.output)
        printed[line] = done.stdout
    return printed


def test_the_guide_on_shadow_limits_shows_whom_a_limit_would_hit(table: Table) -> None:
    used(table)
    (text,) = shown("guides/shadow.md").values()
    assert [line.split()[0] for line in text.splitlines()] == ["ENTITY", "spared"]
    page = (DOCS / "guides/shadow.md").read_text(encoding="utf-8")
    (call,) = re.findall(r"`(repository\.get_top_usage\(.*?\))`", page)
    (found,) = eval(call, {"repository": table.repository})
    assert (found.entity_id, found.total_shadowed) == ("spared", 3)


def test_the_page_on_costs_shows_what_a_month_has_cost(table: Table) -> None:
    used(table)
    found = shown("operate/cost.md")
    text, document = (text for line, text in found.items() if "--day" not in line)
    assert text.splitlines()[0].split() == ["ROOT", "ADMITTED", "REFUSED", "WRITES", "READS", "USD"]
    assert opened(document)["by"] == "namespace"
    (of_a_day,) = (text for line, text in found.items() if "--day" in line)
    assert of_a_day.splitlines()[0].split()[:1] == ["ROOT"]


def test_the_commands_of_the_page_on_the_aggregator_run(table: Table) -> None:
    used(table)
    shown_by = [text for line, text in shown("aggregator.md").items() if line.startswith("usage top")]
    of_all, by_refusals, of_minutes, by_limit = shown_by
    assert of_all.splitlines()[1].startswith("refused")
    assert by_refusals.splitlines()[1].startswith("refused")
    assert by_limit.splitlines()[1].startswith("spared")
    assert of_minutes.startswith("No call was refused since")


def test_the_guide_on_billing_sums_the_days_of_a_customer(table: Table) -> None:
    for day in (30, 31):
        table.used("ann", "gpt-4", datetime(2026, 10, day, tzinfo=UTC), "daily", tpm=1_000_000, rpm=500)
    table.used("ann", "gpt-4", datetime(2026, 11, 1, tzinfo=UTC), "daily", tpm=9_000_000)
    (code,) = re.findall(
        r"^```python\n(.*?)^```$", (DOCS / "guides/billing.md").read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    names: dict[str, Any] = {}
    exec(code, names)
    october = (datetime(2026, 10, 1, tzinfo=UTC), datetime(2026, 11, 1, tzinfo=UTC))
    assert names["bill"](table.repository, "ann", *october) == Decimal("6.02")


def test_the_commands_of_the_guide_on_billing_run(table: Table) -> None:
    midnight = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    table.used("ann", "gpt-4", midnight, "daily", tpm=7)
    summary, listed, top = shown("guides/billing.md").values()
    assert "tpm" in summary
    assert opened(listed)
    assert top.splitlines()[1].startswith("ann")


def test_a_resource_has_a_short_option_here_as_elsewhere(table: Table) -> None:
    used(table)
    for command in (["usage", "list"], ["usage", "list", "--total"], ["usage", "top"], ["audit", "list"]):
        answers = [CliRunner().invoke(main, [*command, "-n", "my-app", name, "gpt-4"]) for name in ("-r", "--resource")]
        assert [answer.exit_code for answer in answers] == [0, 0], (command, answers[0].output)
        assert answers[0].stdout == answers[1].stdout
