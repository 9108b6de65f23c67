"""`usage list --idle`: who was not called for a time, and when the last call was."""

from datetime import UTC, datetime, timedelta

import pytest

from support.cli.by_hand import document, refused, run, told
from support.cli.tables import Table
from zae_limiter import Limit

HOUR = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)


def day(ago: datetime) -> datetime:
    return ago.replace(hour=0)


@pytest.fixture
def keys(table: Table) -> Table:
    """Keys with a last call; `fresh` and `refused` have none, and `guest` has usage alone."""
    table.repository.set_tier_limits("gold", [Limit.per_minute("rpm", 10)])
    for name in ("fresh", "old", "older", "busy", "refused"):
        table.repository.create_entity(name, name=f"Key {name}", tier="gold" if name in ("old", "busy") else None)
    for name, days in (("busy", 0), ("old", 40), ("guest", 35)):
        at = HOUR - timedelta(days=days, hours=1)
        table.used(name, "gpt-4", at, rpm=1)
        table.used(name, "gpt-4", day(at), "daily", rpm=1)
    table.used("busy", "gpt-5", day(HOUR - timedelta(days=50)), "daily", rpm=1)
    table.used("older", "gpt-4", day(HOUR - timedelta(days=200)), "daily", rpm=1)
    table.used("refused", "gpt-4", day(HOUR - timedelta(days=1)), "daily", events=0, refused=9)
    return table


def idle(*args: str) -> dict[str, str | None]:
    found = document("usage", "list", "--idle", *args)
    assert found["total"] == len(found["entities"])
    return {
        each["entity_id"]: each["last_call"] and each["last_call"]["window_start"][:13] for each in found["entities"]
    }


def test_who_was_not_called_is_listed_the_longest_idle_first(keys: Table) -> None:
    old, guest = (HOUR - timedelta(days=days, hours=1) for days in (40, 35))
    older = HOUR - timedelta(days=200)
    assert list(idle("30d").items()) == [
        ("fresh", None),
        ("refused", None),
        ("older", f"{older:%Y-%m-%d}T00"),
        ("old", f"{old:%Y-%m-%dT%H}"),
        ("guest", f"{guest:%Y-%m-%dT%H}"),
    ]
    head, *rows = told("usage", "list", "--idle", "30d")
    assert head == ["ENTITY", "NAME", "LAST", "CALL", "(UTC)"]
    assert rows[0] == ["fresh", "Key", "fresh", "never"]
    assert rows[2][3:] == ["within", "the", "day", "of", f"{older:%Y-%m-%d}"]
    assert rows[3][3:] == ["within", "the", "hour", "of", *f"{old:%Y-%m-%d %H}:00".split()]
    assert list(idle("38d")) == ["fresh", "refused", "older", "old"]


def test_the_window_in_which_the_time_is_counts_as_a_call(keys: Table) -> None:
    at = HOUR - timedelta(days=40, hours=1)
    assert "old" not in idle(f"{at + timedelta(minutes=30):%Y-%m-%dT%H:%MZ}")
    assert "old" in idle(f"{at + timedelta(hours=1):%Y-%m-%dT%H:%MZ}")


def test_tier_below_and_since_choose_entities(keys: Table) -> None:
    assert list(idle("30d", "--tier", "gold")) == ["old"]
    keys.repository.create_entity("team")
    keys.repository.create_entity("member", parent_id="team")
    assert list(idle("30d", "--below", "team")) == ["member"]
    assert "guest" not in idle("30d", "--since", "31d")
    assert run("usage", "list", "--idle", "300d", "--tier", "gold", "-o", "table").stdout.startswith(
        "Every entity of tier gold was"
    )


@pytest.mark.parametrize("option", ["-e key", "-r gpt-4", "--window daily", "--until 1d", "--total", "--never used"])
def test_other_lists_exclude_it(table: Table, option: str) -> None:
    assert refused("usage", "list", "--idle", "30d", *option.split()).startswith("--idle and --")


def test_an_entity_shows_its_last_call(keys: Table) -> None:
    at = HOUR - timedelta(hours=1)
    shown = run("entity", "show", "busy").stdout
    assert f"Last call by its usage: within the hour of {at:%Y-%m-%d %H}:00 (UTC), on gpt-4." in shown
    assert "Last call by its usage: never." in run("entity", "show", "fresh").stdout
    assert document("entity", "show", "busy")["last_call"]["window"] == "hourly"
    assert document("entity", "show", "fresh")["last_call"] is None
