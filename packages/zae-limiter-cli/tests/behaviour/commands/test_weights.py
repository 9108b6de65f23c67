"""The weights of a limit on the command line: given, shown, and told of a change."""

from support.cli.by_hand import bucket_rows, document, told
from support.cli.tables import Table
from zae_limiter import Limit, SyncRateLimiter
from zae_limiter_cli.audit.changes import changes

PLAIN = Limit.per_day("tpm", 100)
WEIGHTED = Limit.per_day("tpm", 100, weights={"input": 1, "cached": 0.1, "output": 4})
SHOWN = ["tpm", "(weights", "input=1,cached=0.1,output=4)", "100", "100", "100/rolling", "day"]


def test_they_are_set_and_shown_at_every_level(table: Table) -> None:
    head = ["LIMIT", "CAPACITY", "BURST", "REFILL"]
    for command in (["entity", "set-limits", "key"], ["resource", "set-defaults", "gpt-4"], ["system", "set-defaults"]):
        assert told(*command, "-l", "tpm:100/day:weights=output=4,input=1,cached=0.1") == [head, SHOWN]
    assert table.repository.get_limits("key") == [WEIGHTED]
    shown = document("resource", "show", "gpt-4")["limits"]["tpm"]
    assert shown["weights"] == {"input": 1, "cached": 0.1, "output": 4}
    assert ["entity_default", "yes", *SHOWN] in told("entity", "show", "key", "-r", "gpt-4")


def test_a_bucket_shows_them_though_it_does_not_have_them(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [WEIGHTED])
    with SyncRateLimiter(table.repository).acquire("key", "gpt-4", {"tpm": 9}):
        pass
    assert bucket_rows("key")[1][:4] == ["gpt-4", *SHOWN[:3]]
    [bucket] = document("entity", "show", "key", "-r", "gpt-4")["buckets"]
    assert bucket["limits"]["tpm"]["weights"] == {"input": 1, "cached": 0.1, "output": 4}


def test_a_change_is_told_in_words(table: Table) -> None:
    for limit in (PLAIN, WEIGHTED, PLAIN):
        table.repository.set_limits("key", [limit])
    off, on, _ = (list(changes(event)) for event in table.repository.get_audit_events("key").events)
    assert on == ["limits.tpm.weights input=1,cached=0.1,output=4"]
    assert off == ["limits.tpm.weights input=1,cached=0.1,output=4 -> -"]
