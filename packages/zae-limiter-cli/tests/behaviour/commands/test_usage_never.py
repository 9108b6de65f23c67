"""`usage list --never`: limits that were never used, or never refused, over a time."""

from datetime import UTC, datetime, timedelta

import pytest

from support.cli.by_hand import document, refused, run
from support.cli.calls import recorded
from support.cli.tables import Table
from zae_limiter import Limit

RPM, TPM = Limit.per_minute("rpm", 10), Limit.per_minute("tpm", 1000)
TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
DAYS = ("--window", "daily", "--since", "7d")


@pytest.fixture
def used(table: Table) -> Table:
    """Limits on each level: `key` is refused by its parent, `lone` by itself, `gold` by nothing, and some are idle."""
    repository = table.repository
    repository.set_system_defaults([RPM])
    repository.set_resource_defaults("gpt-4", [RPM, TPM])
    repository.set_resource_defaults("idle", [RPM])
    repository.set_resource_defaults("claude-*", [RPM])
    repository.set_tier_limits("gold", [RPM])
    repository.set_limits("team", [RPM], "gpt-4")
    repository.set_limits("gone", [TPM])
    repository.create_entity("team")
    repository.create_entity("key", parent_id="team", cascade=True)
    repository.create_entity("rich", tier="gold")
    table.used("key", "gpt-4", TODAY, "daily", refused=5, refused_by={("team", "rpm"): 5}, rpm=4, tpm=100)
    table.used("team", "gpt-4", TODAY, "daily", below=1, rpm=4)
    table.used("rich", "gpt-4", TODAY, "daily", rpm=9)
    table.used("lone", "other", TODAY, "daily", refused=2, rpm=3)
    table.used("lone", "claude-4", TODAY, "daily", rpm=1)
    table.used("gone", "gpt-4", TODAY - timedelta(days=20), "daily", tpm=3)
    return table


def never(*args: str) -> list[tuple[str, str | None, str]]:
    found = document("usage", "list", "--never", args[0], *DAYS, *args[1:])
    who = [(each["level"], each["entity_id"] or each["tier"] or each["resource"], each) for each in found["limits"]]
    assert found["total"] == len(who)
    return [(level, name, each["limit_name"]) for level, name, each in who]


def lines(never: str) -> list[list[str]]:
    """The lines of people, who see that the table is new."""
    done = run("usage", "list", "--never", never, *DAYS)
    assert "The first count is at " in done.stderr
    return [line.split() for line in done.stdout.splitlines()]


def test_limits_that_were_never_used_are_listed_by_level(used: Table) -> None:
    assert never("used") == [("resource", "idle", "rpm"), ("entity", "gone", "tpm")]
    head, *rows = lines("used")
    assert head == ["LEVEL", "RESOURCE", "LIMIT", "REFILL", "USED", "BUCKETS"]
    assert rows[1] == ["entity", "gone", "all", "resources", "tpm", "1k/min", "0", "0"]


def test_limits_that_were_used_and_never_refused_are_listed(used: Table) -> None:
    assert never("refused") == [
        ("resource", "claude-*", "rpm"),
        ("resource", "gpt-4", "rpm"),
        ("resource", "gpt-4", "tpm"),
        ("tier", "gold", "rpm"),
    ]


def test_what_usage_does_not_say_by_limit_has_a_column_and_shadows_are_marked(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [RPM, TPM, Limit.per_minute("day", 9, shadow=True)])
    table.repository.set_resource_defaults("one", [RPM, Limit.per_minute("day", 9, shadow=True)])
    table.used("key", "gpt-4", TODAY, "daily", refused=5, rpm=4, tpm=100, day=20)
    table.used("key", "one", TODAY, "daily", refused=5, rpm=4, day=20)
    head, *rows = lines("refused")
    assert head == ["LEVEL", "RESOURCE", "LIMIT", "REFILL", "USED", "BUCKETS", "IT", "OR", "ANOTHER", "REFUSED"]
    assert [row[:-4] + row[-1:] for row in rows] == [
        ["resource", "gpt-4", "day", "(shadow)", "0"],
        ["resource", "gpt-4", "rpm", "5"],
        ["resource", "gpt-4", "tpm", "5"],
        ["resource", "one", "day", "(shadow)", "0"],
    ]
    found = document("usage", "list", "--never", "refused", *DAYS)["limits"]
    assert [each["may_have_refused"] for each in found] == [0, 5, 5, 0]
    assert [each["shadow"] for each in found] == [True, False, False, True]


def test_a_longer_time_and_a_subject_can_be_asked_for(used: Table) -> None:
    assert never("used", "--since", "30d") == [("resource", "idle", "rpm")]
    assert never("used", "-e", "gone") == [("entity", "gone", "tpm")]
    assert never("used", "-r", "idle") == [("resource", "idle", "rpm")]
    every = run("usage", "list", "--never", "used", "-e", "team", *DAYS).stdout
    assert every.startswith("Every limit was used: team, daily, since ")


def test_a_list_that_is_cut_says_so(used: Table) -> None:
    done = run("usage", "list", "--never", "refused", "--rows", "1", *DAYS)
    assert len(done.stdout.splitlines()) == 2
    assert done.stderr.startswith("There are more limits: raise --rows.\n")


def test_it_costs_the_usage_and_a_request_for_a_hundred_configs(used: Table) -> None:
    with recorded() as calls:
        never("used")
    actions = [each.action for each in calls if each.action.startswith("dynamodb:")]
    assert actions.count("dynamodb:Query") <= 22  # 17 partitions of the usage, and lists of the configs
    assert actions.count("dynamodb:BatchGetItem") <= 6


def test_windows_and_limits_contradict_each_other(table: Table) -> None:
    assert refused("usage", "list", "--never", "used", "--total").startswith("--never lists limits")


def test_a_limit_that_refused_draws_has_refused(table: Table) -> None:
    """A call on `gpt-4` drew on budgets of others: what was short is named by its entity, and counted at its bucket."""
    usd = Limit.per_minute("usd", 10)
    table.repository.set_resource_defaults("gpt-4", [RPM])
    table.repository.set_limits("team-a", [usd], "budget")
    table.repository.set_limits("team-b", [usd, TPM], "budget")
    table.repository.set_limits("team-c", [usd], "budget")
    by = {("team-a", "usd"): 5, ("team-b", "usd"): 2}
    table.used("key", "gpt-4", TODAY, "daily", refused=7, refused_by=by, rpm=4)
    table.used("team-a", "budget", TODAY, "daily", refused=5, refused_below=5, usd=4)
    table.used("team-b", "budget", TODAY, "daily", refused=2, refused_below=2, usd=4, tpm=9)
    table.used("team-c", "budget", TODAY, "daily", usd=4)
    assert never("refused") == [
        ("resource", "gpt-4", "rpm"),
        ("entity", "team-b", "tpm"),
        ("entity", "team-c", "usd"),
    ]
    of_budget = document("usage", "list", "--never", "refused", *DAYS, "-r", "budget")["limits"]
    assert [(each["entity_id"], each["limit_name"], each["may_have_refused"]) for each in of_budget] == [
        ("team-b", "tpm", 2),
        ("team-b", "usd", 2),
        ("team-c", "usd", 0),
    ]


def test_what_a_disable_of_a_parent_refused_is_of_no_limit_of_the_parent(used: Table) -> None:
    used.used("key", "gpt-4", TODAY, "daily", refused=5, refused_by={("team", "disabled"): 5}, rpm=4, tpm=100)
    used.used("team", "gpt-4", TODAY, "daily", below=1, refused_below=5, rpm=4)
    rows = document("usage", "list", "--never", "refused", *DAYS)["limits"]
    (rpm,) = (each for each in rows if each["entity_id"] == "team")
    assert (rpm["limit_name"], rpm["refused"], rpm["may_have_refused"]) == ("rpm", 0, 0)


def test_the_budget_of_a_run_is_of_no_level(used: Table) -> None:
    usd = Limit.money("usd", 100, per="month")
    used.repository.set_resource_defaults("budget", [usd])
    used.used("key", "budget", TODAY, "daily", refused=2, refused_by={("run:*", "usd"): 2}, usd=500)
    used.used("run:a@key", "budget", TODAY, "daily", refused=2, refused_below=2, usd=500)
    rows = document("usage", "list", "--never", "refused", *DAYS)["limits"]
    (found,) = (each for each in rows if each["resource"] == "budget")
    assert (found["used"], found["refused"], found["may_have_refused"], found["buckets"]) == (500, 0, 0, 1)


def test_what_was_before_the_first_count_is_not_known(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [RPM])
    none = run("usage", "list", "--never", "used", *DAYS)
    assert none.stderr == "Nothing is counted in these windows: what was before is not known.\n"
    assert document("usage", "list", "--never", "used", *DAYS)["counted_since"] is None
    table.used("key", "gpt-4", TODAY, "daily", rpm=1)
    namespace = table.repository.get_namespace("default")
    assert namespace is not None
    today = document("usage", "list", "--never", "used", *DAYS)["counted_since"]
    assert datetime.fromisoformat(today) == datetime.fromisoformat(namespace.created_at)
    table.used("key", "gpt-4", TODAY - timedelta(days=3), "daily", rpm=1)
    copied = run("usage", "list", "--never", "used", *DAYS)
    assert (
        copied.stderr
        == f"The first count is at {TODAY - timedelta(days=3):%Y-%m-%d} 00:00 (UTC): what was before is not known.\n"
    )
    table.used("key", "gpt-4", TODAY - timedelta(days=7), "daily", rpm=1)
    assert run("usage", "list", "--never", "used", *DAYS).stderr == ""


def test_what_was_used_before_a_stronger_level_had_limits_may_have_been_of_the_weaker(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [RPM, TPM])
    table.used("key", "gpt-4", TODAY, "daily", rpm=30)
    table.repository.set_limits("key", [RPM], "gpt-4")
    head, rpm, tpm = lines("used")
    assert head[-4:] == ["USED", "OF", "STRONGER", "LEVELS"]
    assert (rpm[1:3], rpm[-3:], tpm[-3:]) == (["gpt-4", "rpm"], ["0", "0", "30"], ["0", "0", "0"])
    rows = document("usage", "list", "--never", "used", *DAYS)["limits"]
    assert [each["used_of_stronger"] for each in rows] == [30, 0]
