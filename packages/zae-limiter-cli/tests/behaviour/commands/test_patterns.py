"""Patterns of resources in commands: set, shown, named where they decide, and switched."""

from support.cli.by_hand import document, effective, refused, run, told
from support.cli.tables import Table
from zae_limiter import AccessDisabled, Limit, Options, RateLimitExceeded, SyncRateLimiter, SyncRepository

RPM, TPM = Limit.per_minute("rpm", 100), Limit.per_minute("tpm", 5)


def test_a_pattern_is_set_shown_and_deleted(table: Table) -> None:
    expected = [["LIMIT", "CAPACITY", "BURST", "REFILL"], ["rpm", "100", "100", "100/min"]]
    assert told("resource", "set-defaults", "anthropic/*", "-l", "rpm:100/min") == expected
    assert told("resource", "show", "anthropic/*") == expected
    assert told("resource", "show")[1] == ["anthropic/*", "yes", "-"]
    assert effective("acme", "anthropic/opus")["source"] == "pattern"
    run("resource", "delete-defaults", "anthropic/*", "-y")
    assert run("resource", "show").stdout == "No resource has limits in namespace default.\n"
    assert "has more than one *" in refused("resource", "set-defaults", "a*b*", "-l", "rpm:1")


def test_why_and_the_entity_name_the_pattern(table: Table) -> None:
    table.repository.set_system_defaults([TPM])
    table.repository.set_resource_defaults("*", [TPM])
    table.repository.set_resource_defaults("a/*", [RPM], extends=True)
    shown = run("why", "acme", "a/b").stdout
    assert "acme: the limits of the pattern a/*; " in shown
    assert "audit list --resource 'a/*'" in shown
    [bucket] = document("why", "acme", "a/b")["buckets"]
    assert (bucket["source"], bucket["pattern"]) == ("pattern", "a/*")
    lines = run("entity", "show", "acme", "-r", "a/b").stdout.splitlines()
    rows = [line.split()[:4] for line in lines if line.startswith("pattern ")]
    assert rows == [["pattern", "a/*", "yes", "rpm"], ["pattern", "*", "yes", "tpm"]]


def test_why_names_the_pattern_of_each_limit(table: Table) -> None:
    table.repository.set_resource_defaults("*", [TPM])
    table.repository.set_resource_defaults("a/*", [RPM], extends=True)
    lines = run("why", "acme", "a/b").stdout.splitlines()
    assert "  tpm by the limits of the pattern *" in lines
    assert not any("rpm by" in line for line in lines)
    [bucket] = document("why", "acme", "a/b")["buckets"]
    found = {name: (each["source"], each["pattern"]) for name, each in bucket["limits"].items()}
    assert found == {"rpm": ("pattern", "a/*"), "tpm": ("pattern", "*")}


def test_a_switch_of_a_pattern_is_named_and_ended(table: Table) -> None:
    table.repository.set_resource_defaults("*", [RPM])
    run("disable", "-r", "a/*", "--reason", "moved", "--yes")
    shown = run("why", "acme", "a/b").stdout
    assert "the config of the pattern a/* (moved)" in shown
    assert "enable -r 'a/*' --now" in shown
    run("enable", "-r", "a/*", "--now", "--yes")
    assert table.repository.get_switches(None, "a/*").disabled is not True


def test_audit_lists_changes_of_a_pattern(table: Table) -> None:
    run("resource", "set-defaults", "a/*", "-l", "rpm:1")
    assert "a/*" in run("audit", "list", "--resource", "a/*").stdout


def admits(table: Table) -> bool:
    """Whether a process that begins now admits `k1` on a resource of the pattern `a/*`."""
    limiter = SyncRateLimiter(SyncRepository.over(table.store, Options(stack="my-app", read_timeout=30)))
    try:
        with limiter.acquire("k1", "a/b", {"rpm": 1}):
            return True
    except (AccessDisabled, RateLimitExceeded):
        return False


def test_an_entity_is_disabled_and_enabled_on_what_a_pattern_matches(table: Table) -> None:
    table.repository.set_resource_defaults("a/*", [RPM])
    assert admits(table)
    run("disable", "k1", "--yes")
    assert not admits(table)
    run("enable", "k1")
    assert admits(table)


def test_a_resource_of_a_pattern_that_was_exempt_is_disabled_with_the_entity(table: Table) -> None:
    table.repository.set_resource_defaults("a/*", [RPM])
    run("enable", "k1", "-r", "a/b", "--exempt")
    run("disable", "k1", "--yes")
    assert not admits(table)


def test_an_entity_is_disabled_for_a_time_on_what_a_pattern_matches(table: Table) -> None:
    table.repository.set_resource_defaults("a/*", [RPM])
    run("disable", "k1", "--for", "1h", "--yes")
    assert not admits(table)
    assert "its override has ended" in run("enable", "k1").stdout
    assert admits(table)


def test_enable_says_that_a_pattern_still_disables_what_the_entity_uses(table: Table) -> None:
    table.repository.set_resource_defaults("*", [RPM])
    assert admits(table)
    run("disable", "-r", "a/*", "--yes")
    run("disable", "k1", "--yes")
    said = run("enable", "k1").stderr
    assert "k1 on a/b stays disabled: it is disabled by the config of the pattern a/*" in said
    assert "`enable -r 'a/*'` ends that" in said
