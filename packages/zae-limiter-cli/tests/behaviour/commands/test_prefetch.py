"""The seconds that a limit may be prefetched, on the command line: given, shown, and told of a change."""

from support.cli.by_hand import bucket_rows, document, refused, told
from support.cli.tables import Table
from zae_limiter import Limit, SyncRateLimiter
from zae_limiter_cli.audit.changes import changes

OFF, ON = Limit.per_day("tpm", 100), Limit.per_day("tpm", 100, prefetch=1)
SHOWN = ["tpm", "(prefetch", "1", "s)", "100", "100", "(99", "usable)", "100/rolling", "day"]


def test_it_is_set_and_shown_at_every_level(table: Table) -> None:
    head = ["LIMIT", "CAPACITY", "BURST", "REFILL"]
    for command in (["entity", "set-limits", "key"], ["resource", "set-defaults", "gpt-4"], ["system", "set-defaults"]):
        assert told(*command, "-l", "tpm:100/day:prefetch=1") == [head, SHOWN]
    assert table.repository.get_limits("key") == [ON]
    shown = document("resource", "show", "gpt-4")["limits"]["tpm"]
    assert (shown["burst"], shown["usable_burst"], shown["prefetch"]) == (100, 99, 1.0)
    assert ["entity_default", "yes", *SHOWN] in told("entity", "show", "key", "-r", "gpt-4")


def test_a_shadow_limit_has_both_marks(table: Table) -> None:
    assert table.repository.get_limits("key") == []
    shown = told("entity", "set-limits", "key", "-l", "tpm:100/day:shadow:prefetch=0.5")[1]
    assert shown[:5] == ["tpm", "(shadow,", "prefetch", "0.5", "s)"]


def test_a_bucket_shows_the_declared_and_the_usable_burst(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [ON])
    with SyncRateLimiter(table.repository).acquire("key", "gpt-4", {"tpm": 9}):
        pass
    shown = bucket_rows("key")[1]
    assert shown[:9] == ["gpt-4", "tpm", "(prefetch", "1", "s)", "90", "100", "(99", "usable)"]
    [bucket] = document("entity", "show", "key", "-r", "gpt-4")["buckets"]
    limit = bucket["limits"]["tpm"]
    assert (limit["burst"], limit["usable_burst"], limit["prefetch"]) == (100, 99, 1.0)


def test_a_bucket_that_does_not_follow_yet_shows_what_it_has(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [OFF])
    with SyncRateLimiter(table.repository).acquire("key", "gpt-4", {"tpm": 9}):
        pass
    table.repository.set_resource_defaults("gpt-4", [ON])
    assert bucket_rows("key")[1][:4] == ["gpt-4", "tpm", "91", "100"]


def test_a_change_is_told_in_the_text_of_the_limit(table: Table) -> None:
    for limit in (OFF, ON, OFF):
        table.repository.set_limits("key", [limit])
    off, on, _ = (list(changes(event)) for event in table.repository.get_audit_events("key").events)
    assert (on, off) == (
        ["limits.tpm 100/rolling day -> 100/rolling day prefetch 1s"],
        ["limits.tpm 100/rolling day prefetch 1s -> 100/rolling day"],
    )


def test_seconds_that_do_not_fit_are_refused(table: Table) -> None:
    assert "at most 59 s, or a larger burst" in refused("entity", "set-limits", "key", "-l", "rpm:60:prefetch=60")
    assert table.repository.get_limits("key") == []
