"""`block`, `unblock` and `lift`: what they store, what they say, and that a process at work obeys at once."""

import pytest

from support.cli.by_hand import document, refused, run
from support.cli.tables import Table
from zae_limiter import Limit, Options, RateLimitExceeded, SyncRateLimiter, SyncRepository

RPM, TPM = Limit.per_minute("rpm", 100), Limit.per_minute("tpm", 5_000)


def passes(limiter: SyncRateLimiter, resource: str = "gpt-4", **consume: int) -> bool:
    try:
        with limiter.acquire("key", resource, consume or {"rpm": 1}):
            return True
    except RateLimitExceeded:
        return False


def test_a_block_is_an_override_that_names_every_limit(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [RPM, TPM])
    done = run("block", "key", "-r", "gpt-4", "--until", "2h", "--yes").stdout
    assert done.startswith("key is blocked until ")
    assert done.endswith(" (UTC) on gpt-4: 0 live buckets were told.\n")
    override = table.repository.get_override("key", "gpt-4")
    assert override is not None
    assert [(limit.name, limit.capacity) for limit in override.limits] == [("rpm", 0), ("tpm", 0)]
    assert run("unblock", "key").stdout == "key is unblocked on gpt-4: 0 live buckets were told.\n"
    assert table.repository.get_override("key", "gpt-4") is None


def test_a_block_on_all_resources_reaches_those_with_limits_of_their_own(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [TPM])
    table.repository.set_limits("key", [RPM], "own")
    told = document("block", "key", "--yes")
    assert (told["action"], told["resources"], told["live_buckets"]) == ("blocked", ["own", "_default_"], 0)
    default, own = (table.repository.get_override("key", place) for place in ("_default_", "own"))
    assert default is not None
    assert own is not None
    assert [limit.name for limit in default.limits] == ["tpm"]
    assert document("unblock", "key")["resources"] == ["own", "_default_"]
    assert table.repository.get_limits("key", "own") == [RPM]


def test_a_process_at_work_obeys_at_once(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [RPM])
    with SyncRepository.over(table.store, Options(stack="my-app", read_timeout=30)) as other:
        limiter = SyncRateLimiter(other)
        assert passes(limiter)
        assert document("block", "key", "--yes")["live_buckets"] == 1
        assert not passes(limiter)


def test_a_block_asks_first(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [RPM])
    assert refused("block", "key").startswith("Block key on all resources in namespace default?")
    assert table.repository.get_override("key") is None


def test_a_lift_by_a_number_keeps_the_kind_of_the_limit(table: Table) -> None:
    month = Limit.per_month("usd", 250, timezone="Europe/Berlin", alert=(80,))
    table.repository.set_resource_defaults("gpt-4", [month, Limit.per_day("rpd", 1_000), Limit.concurrent("calls", 5)])
    numbers = ("-l", "usd:500", "-l", "rpd:20", "-l", "calls:9", "-l", "new:7", "-l", "rpd2:3/hour")
    assert run("lift", "key", "-r", "gpt-4", *numbers).exit_code == 0
    override = table.repository.get_override("key", "gpt-4")
    assert override is not None
    assert [str(limit) for limit in override.limits] == [
        "calls: 9 concurrent",
        "new: 7/min",
        "rpd: 20/day",
        "rpd2: 3/hour",
        "usd: 500/month Europe/Berlin alert 80",
    ]
    assert document("lift", "key", "-r", "gpt-4", "-l", "rpd:20/min")["limits"]["rpd"]["refill_period"] == 60


def test_a_lift_multiplies_every_limit_or_replaces_those_that_it_names(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [RPM, TPM])
    assert document("lift", "key", "-r", "gpt-4", "--by", "1.5")["limits"]["rpm"]["capacity"] == 150
    lifted = document("lift", "key", "-r", "gpt-4", "-l", "rpm:500", "--until", "30m")["limits"]
    assert {name: limit["capacity"] for name, limit in lifted.items()} == {"rpm": 500, "tpm": 5_000}
    assert "key has other limits until " in run("lift", "key", "-r", "gpt-4", "--by", "2").stdout


def test_a_lift_multiplies_what_a_schedule_has_in_force(table: Table) -> None:
    """Every entry, and the values outside; the text shows what holds now, and an acquire obeys it."""
    entries = ["later: 2090-01-01 30/min burst 40", "always: mon-sun 50/min"]
    table.repository.set_resource_defaults("gpt-4", [Limit.custom("rpm", 100, schedule=entries), TPM])
    done = run("lift", "key", "-r", "gpt-4", "--by", "2").stdout.splitlines()
    assert [" ".join(line.split()) for line in done[1:]] == [
        "LIMIT WHEN CAPACITY BURST REFILL",
        "rpm now: always until 2090-01-01 00:00 UTC 100 100 100/min",
        "rpm later: 2090-01-01 60 80 60/min",
        "rpm at other times 200 200 200/min",
        "tpm now 10,000 10,000 10k/min",
    ]
    limiter = SyncRateLimiter(table.repository)
    assert passes(limiter, rpm=100)
    assert not passes(limiter, rpm=10)
    lifted = document("lift", "key", "-r", "gpt-4", "-l", "rpm:70")["limits"]["rpm"]
    assert (lifted["capacity"], "schedule" in lifted) == (70, False)
    lifted = document("lift", "key", "-r", "gpt-4", "--by", "3")["limits"]["rpm"]
    assert (lifted["capacity"], lifted["in_force"]["capacity"]) == (300, 150)


def test_a_lift_keeps_what_blocks_at_some_times(table: Table) -> None:
    table.repository.set_resource_defaults(
        "gpt-4", [Limit.custom("rpm", 100, schedule=["shut: 2090-01-01 capacity 0"])]
    )
    lifted = document("lift", "key", "-r", "gpt-4", "--by", "2")["limits"]["rpm"]
    assert (lifted["capacity"], lifted["schedule"]) == (200, ["shut: 2090-01-01 capacity 0"])


def test_mistakes_are_one_line(table: Table) -> None:
    assert refused("block", "nobody", "-y").startswith("no level has limits for nobody")
    assert refused("unblock", "key") == "key is not blocked in namespace default: nothing was ended"
    assert refused("lift", "key", "-r", "gpt-4").startswith("pass either --by FACTOR or -l LIMIT")
    assert refused("lift", "key", "-r", "gpt-4", "--by", "2").startswith("no level has limits for key on gpt-4")
    table.repository.set_resource_defaults("gpt-4", [RPM])
    assert refused("block", "key", "--until", "400d", "-y").startswith("--until '400d': ")
    run("block", "key", "-r", "gpt-4", "-y")
    assert refused("lift", "key", "-r", "gpt-4", "--by", "2").startswith("key is blocked on gpt-4: unblock it first")


def test_every_change_is_audited_with_its_author(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [RPM])
    run("block", "key", "-r", "gpt-4", "-y", "--principal", "ada")
    run("unblock", "key", "--principal", "bob")
    events, _ = table.repository.get_audit_events("key")
    found = {(event.action, event.principal) for event in events}
    assert {("override_set", "ada"), ("override_deleted", "bob")} <= found


def test_whoever_looks_after_a_block_and_a_lift_sees_the_limits_in_force(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [Limit.per_day("rpd", 100)])
    with SyncRepository.over(table.store, Options(stack="my-app")) as other:
        assert passes(SyncRateLimiter(other), rpd=1)
        for change, burst in (
            (("lift", "key", "-r", "gpt-4", "--by", "2"), 200),
            (("block", "key", "-r", "gpt-4", "--yes"), 0),
            (("unblock", "key"), 100),
        ):
            run(*change)
            [listed] = document("entity", "list", "--buckets")["buckets"]
            [shown] = document("entity", "show", "key")["buckets"]
            explained = document("why", "key", "-r", "gpt-4")["buckets"][0]["limits"]["rpd"]
            assert [each["limits"]["rpd"]["burst"] for each in (listed, shown)] == [burst] * 2
            assert [each["limits"]["rpd"]["available"] for each in (listed, shown)] == [explained["available"]] * 2
            [row] = document("top", "--once")["buckets"]
            assert (row["available"], row["burst"]) == (explained["available"], burst)


@pytest.mark.parametrize("by", ["nan", "inf", "0", "x"])
def test_a_factor_that_is_no_number_is_one_line(table: Table, by: str) -> None:
    table.repository.set_resource_defaults("gpt-4", [RPM])
    assert refused("lift", "key", "-r", "gpt-4", "--by", by).startswith("Invalid value for '--by': ")
    assert table.repository.get_override("key", "gpt-4") is None
