"""`lift`: what it stores, what it says, and how it ends."""

import pytest

from support.cli.by_hand import document, refused, run
from support.cli.tables import Table
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter

RPM, TPM = Limit.per_minute("rpm", 100), Limit.per_minute("tpm", 5_000)


def passes(limiter: SyncRateLimiter, resource: str = "gpt-4", **consume: int) -> bool:
    try:
        with limiter.acquire("key", resource, consume or {"rpm": 1}):
            return True
    except RateLimitExceeded:
        return False


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
        "rpd: 20/rolling day",
        "rpd2: 3/hour",
        "usd: 500/month Europe/Berlin alert 80",
    ]
    assert document("lift", "key", "-r", "gpt-4", "-l", "rpd:20/min")["limits"]["rpd"]["refill_period"] == 60


def test_a_lift_multiplies_every_limit_or_replaces_those_that_it_names(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [RPM, TPM])
    assert document("lift", "key", "-r", "gpt-4", "--by", "1.5")["limits"]["rpm"]["capacity"] == 150
    lifted = document("lift", "key", "-r", "gpt-4", "-l", "rpm:500", "--for", "30m")["limits"]
    assert {name: limit["capacity"] for name, limit in lifted.items()} == {"rpm": 500, "tpm": 5_000}
    assert "key has other limits until " in run("lift", "key", "-r", "gpt-4", "--by", "2").stdout


def test_a_lift_overrides_what_it_names_and_the_rest_follows_its_level(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [RPM, TPM])
    document("lift", "key", "-r", "gpt-4", "-l", "rpm:500")
    override = table.repository.get_override("key", "gpt-4")
    assert override is not None
    assert ([limit.name for limit in override.limits], override.extends) == (["rpm"], True)
    table.repository.set_resource_defaults("gpt-4", [RPM, Limit.per_minute("tpm", 9_000)])
    assert table.repository.resolve_limits("key", "gpt-4")[0] == [
        Limit.per_minute("rpm", 500),
        Limit.per_minute("tpm", 9_000),
    ]


def test_a_lift_of_an_entity_with_limits_of_its_own_keeps_to_these(table: Table) -> None:
    """What the resource has is none of the entity's, before the lift and during it."""
    table.repository.set_resource_defaults("gpt-4", [RPM, TPM])
    table.repository.set_limits("key", [RPM], "gpt-4")
    assert [*document("lift", "key", "-r", "gpt-4", "--by", "2")["limits"]] == ["rpm"]
    assert table.repository.resolve_limits("key", "gpt-4")[0] == [Limit.per_minute("rpm", 200)]


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


@pytest.mark.parametrize("by", ["nan", "inf", "0", "x"])
def test_a_factor_that_is_no_number_is_one_line(table: Table, by: str) -> None:
    table.repository.set_resource_defaults("gpt-4", [RPM])
    assert refused("lift", "key", "-r", "gpt-4", "--by", by).startswith("Invalid value for '--by': ")
    assert table.repository.get_override("key", "gpt-4") is None


def test_a_lift_ends_when_asked_to(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [RPM])
    run("lift", "key", "-r", "gpt-4", "--by", "2")
    assert refused("lift", "key", "--end").startswith("End the override of key on gpt-4 in namespace default?")
    assert run("lift", "key", "-r", "gpt-4", "--end", "--yes").stdout == "The override of key on gpt-4 has ended.\n"
    assert table.repository.get_override("key", "gpt-4") is None
    told = "there is no override of key on gpt-4 in namespace default: nothing was ended"
    assert refused("lift", "key", "-r", "gpt-4", "--end", "--yes") == told


def test_without_a_resource_every_override_ends(table: Table) -> None:
    run("entity", "set-limits", "key", "-l", "rpm:9", "--for", "2h")
    run("entity", "set-limits", "key", "-r", "gpt-4", "-l", "rpm:9", "--for", "2h")
    assert document("lift", "key", "--end", "--yes")["resources"] == ["gpt-4", "_default_"]


def test_mistakes_are_one_line(table: Table) -> None:
    assert refused("lift", "key", "-r", "gpt-4").startswith("pass either --by FACTOR or -l LIMIT")
    assert refused("lift", "key", "--by", "2") == "which limits? Pass --resource NAME"
    assert refused("lift", "key", "--by", "2", "--end").startswith("--end ends an override: pass no --by")
    both = ("--for", "1h", "--until", "2030-01-01T00:00Z")
    assert refused("lift", "key", "-r", "gpt-4", "--by", "2", *both).startswith("--for and --until contradict")
    assert refused("lift", "key", "-r", "gpt-4", "--by", "2").startswith("no level has limits for key on gpt-4")
    assert refused("lift", "key", "-r", "gpt-4", "--by", "2", "--for", "soon").startswith("--for 'soon': must be")
