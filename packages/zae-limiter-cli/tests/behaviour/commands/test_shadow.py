from support.cli.by_hand import bucket_rows, document, effective, refused, told
from support.cli.tables import Table
from zae_limiter import Limit, SyncRateLimiter
from zae_limiter_cli.audit.changes import changes

RPM, TPM = Limit.per_day("rpm", 2, shadow=True), Limit.per_day("tpm", 100)
MARKED = ["rpm", "(shadow)", "2", "2", "2/rolling", "day"]


def test_a_shadow_limit_is_set_and_shown_at_every_level(table: Table) -> None:
    head = ["LIMIT", "CAPACITY", "BURST", "REFILL"]
    limits = ["-l", "rpm:2/day:shadow", "-l", "tpm:100/day"]
    for command in (["entity", "set-limits", "key"], ["resource", "set-defaults", "gpt-4"], ["system", "set-defaults"]):
        assert told(*command, *limits) == [head, MARKED, ["tpm", "100", "100", "100/rolling", "day"]]
    assert table.repository.get_limits("key") == [RPM, TPM]
    shown = document("resource", "show", "gpt-4")["limits"]
    assert {name: limit["shadow"] for name, limit in shown.items()} == {"rpm": True, "tpm": False}
    assert ["entity_default", "yes", *MARKED] in told("entity", "show", "key", "-r", "gpt-4")
    levels = effective("key", "gpt-4")["levels"]
    assert [each["limits"].get("rpm", {}).get("shadow") for each in levels] == [None, True, True, True]


def test_a_limit_that_is_set_without_the_mark_is_enforced(table: Table) -> None:
    table.repository.set_limits("key", [RPM])
    assert told("entity", "set-limits", "key", "-l", "rpm:2/day")[1] == ["rpm", "2", "2", "2/rolling", "day"]
    assert table.repository.get_limits("key") == [Limit.per_day("rpm", 2)]
    table.repository.set_limits("key", [RPM])
    table.repository.set_limits("key", [TPM])
    gone, marked, enforced, new = (list(changes(event)) for event in table.repository.get_audit_events("key").events)
    assert (enforced, marked) == (
        ["limits.rpm 2/rolling day shadow -> 2/rolling day"],
        ["limits.rpm 2/rolling day -> 2/rolling day shadow"],
    )
    assert ("limits.rpm 2/rolling day shadow" in new, "limits.rpm 2/rolling day shadow -> -" in gone) == (True, True)


def test_a_policy_of_the_system_keeps_the_marks(table: Table) -> None:
    table.repository.set_system_defaults([RPM])
    assert document("system", "set-defaults", "--on-unavailable", "allow")["limits"]["rpm"]["shadow"] is True


def test_a_bucket_shows_its_shadow_limits_and_what_they_would_have_refused(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [RPM, TPM])
    limiter = SyncRateLimiter(table.repository)
    for _ in range(5):
        with limiter.acquire("key", "gpt-4", {"rpm": 1, "tpm": 1}):
            pass
    with SyncRateLimiter(table.repository, shadow=True).acquire(
        "key", "gpt-5", {"tpm": 1}, limits=[Limit.per_day("tpm", 0)]
    ):
        pass
    rows = bucket_rows("key")[1:]
    assert [row[:-2] for row in rows] == [
        ["gpt-4", "rpm", "(shadow)", "0", "2", "2/rolling", "day", "5", "3", "1"],
        ["gpt-4", "tpm", "95", "100", "100/rolling", "day", "5", "3", "1"],
        ["gpt-5", "tpm", "0", "0", "0/rolling", "day", "1", "1", "1"],
    ]
    (bucket,) = document("entity", "show", "key", "-r", "gpt-4")["buckets"]
    assert (bucket["shadowed"], bucket["limits"]["rpm"]["shadow"], bucket["limits"]["tpm"]["shadow"]) == (
        3,
        True,
        False,
    )
    assert told("bucket", "reset", "key", "-r", "gpt-4", "-y")[1][:4] == ["gpt-4", "rpm", "(shadow)", "2"]


def test_a_mark_of_another_spelling_is_refused(table: Table) -> None:
    assert table.repository.get_limits("key") == []
    for mark in ("yes-ish", "true", "Shadow", "shadow:shadow"):
        assert "is not a limit: a limit begins with an amount and a period" in refused(
            "entity", "set-limits", "key", "-l", f"rpm:1:{mark}"
        )
