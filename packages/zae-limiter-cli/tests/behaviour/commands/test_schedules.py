"""Schedules and windows of the first use on the command line: given, shown, and told of a change."""

import json
from datetime import UTC, datetime

from support.cli.by_hand import bucket_rows, document, told
from support.cli.tables import Table
from zae_limiter import Limit, SyncRateLimiter
from zae_limiter.values.timetables import timetable_of
from zae_limiter_cli.audit.changes import changes

ENTRIES = ["odd: mon,wed,fri,sun 10/min", "even: tue,thu,sat 20/min"]
RPM = Limit.custom("rpm", 600, schedule=ENTRIES)
JSON = json.dumps({"name": "rpm", "capacity": 600, "schedule": ENTRIES})
SHOWN = f"rpm (schedule {'; '.join(ENTRIES)}; now".split()


def held() -> set[int]:
    """The capacities in force now, a minute ago and in a minute."""
    now_ms = round(datetime.now(UTC).timestamp() * 1000)
    return {timetable_of(RPM).at(at_ms).limit.capacity for at_ms in (now_ms - 60_000, now_ms, now_ms + 60_000)}


def test_a_schedule_is_set_in_json_and_shown_at_every_level(table: Table) -> None:
    for command in (["entity", "set-limits", "key"], ["resource", "set-defaults", "gpt-4"], ["system", "set-defaults"]):
        row = told(*command, "-l", JSON)[1]
        assert row[: len(SHOWN)] == SHOWN
        assert row[len(SHOWN)] in {"odd", "even"}  # and until when
        assert row[-4].removesuffix("/min)") in {f"{each}" for each in held()}
    assert table.repository.get_limits("key") == [RPM]
    assert document("resource", "show", "gpt-4")["limits"]["rpm"]["schedule"] == ENTRIES


def test_a_bucket_shows_the_values_in_force_with_the_schedule(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [RPM])
    with SyncRateLimiter(table.repository).acquire("key", "gpt-4", {"rpm": 9}):
        pass
    [bucket] = document("entity", "show", "key", "-r", "gpt-4")["buckets"]
    assert bucket["limits"]["rpm"]["schedule"] == ENTRIES
    assert bucket["limits"]["rpm"]["capacity"] in held()


def test_what_is_left_is_told_with_its_window(table: Table) -> None:
    """Of a limit that becomes a larger one of a month, what was used counts."""
    table.repository.set_resource_defaults("gpt-4", [Limit.per_day("tpm", 10_000)])
    with SyncRateLimiter(table.repository).acquire("key", "gpt-4", {"tpm": 743}):
        pass
    table.repository.set_limits("key", [Limit.custom("tpm", 900_000, kind="calendar", window="month")], "gpt-4")
    [bucket] = document("entity", "show", "key", "-r", "gpt-4")["buckets"]
    assert bucket["limits"]["tpm"]["window_ends"].endswith("-01T00:00:00.000Z")
    row = " ".join(bucket_rows("key", "-r", "gpt-4")[1])
    assert " 899,257 until 20" in row
    table.repository.set_resource_defaults("other", [Limit.quota("rpm", 5, window=3600)])
    with SyncRateLimiter(table.repository).acquire("key", "other", {"rpm": 1}):
        pass
    assert "4 until 20" in " ".join(told("entity", "list", "--buckets", "-r", "other")[1])


def test_why_names_the_entry_that_holds(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [RPM])
    shown = "\n".join(" ".join(line) for line in told("why", "key", "-r", "gpt-4"))
    assert "odd until" in shown or "even until" in shown
    limit = document("why", "key", "-r", "gpt-4")["buckets"][0]["limits"]["rpm"]
    assert limit["entry"].split()[0] in ("odd", "even")
    assert limit["in_force"]["capacity"] in held()


def test_a_window_of_the_first_use_is_a_text(table: Table) -> None:
    told("resource", "set-defaults", "gpt-4", "-l", "rpm: 100 per 3600s from first use")
    assert table.repository.get_resource_defaults("gpt-4") == [Limit.quota("rpm", 100, window=3600)]
    row = " ".join(told("resource", "show", "gpt-4")[1])
    assert row == "rpm 100 100 100 per hour from first use"


def test_a_changed_schedule_is_told_in_words(table: Table) -> None:
    for limit in (Limit.per_minute("rpm", 600), RPM):
        table.repository.set_limits("key", [limit])
    on, _ = (list(changes(event)) for event in table.repository.get_audit_events("key").events)
    assert on == [f"limits.rpm.schedule {'; '.join(ENTRIES)}"]
