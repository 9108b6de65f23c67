"""`usage near --budgets`: when a budget is gone at the rate of the last 24 hours or hour, for bounded requests."""

from datetime import UTC, datetime, timedelta

import pytest

from support.cli.by_hand import document, refused, run, told
from support.cli.calls import recorded
from support.cli.tables import Table
from zae_limiter import Limit, SyncRateLimiter

TODAY = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
TOTAL = Limit.money("usd", 100, per="total")


@pytest.fixture
def spent(table: Table) -> Table:
    """`acme` has spent $40 of $100, $10 a day; `idle` has spent $1 long ago; `rates` has no budget."""
    repository = table.repository
    for entity in ("acme", "idle"):
        repository.set_limits(entity, [TOTAL])
    repository.set_limits("rates", [Limit.per_minute("rpm", 5)])
    limiter = SyncRateLimiter(repository)
    for entity, amounts in (("acme", {"usd": 40_000_000}), ("idle", {"usd": 1_000_000}), ("rates", {"rpm": 1})):
        with limiter.acquire(entity, "gpt-4", amounts):
            pass
    for day in (TODAY, TODAY - timedelta(days=1)):
        table.used("acme", "gpt-4", day, "daily", usd=10_000_000)
    table.used("idle", "gpt-4", TODAY - timedelta(days=9), "daily", usd=1_000_000)
    return table


def test_budgets_are_listed_with_their_end_the_soonest_first(spent: Table) -> None:
    (acme, idle) = document("usage", "near", "--budgets")
    assert (acme["entity_id"], acme["limit_name"], acme["percent"], acme["available"]) == (
        "acme",
        "usd",
        40,
        60_000_000,
    )
    gone = datetime.fromisoformat(acme["gone_at"]) - datetime.now(UTC)
    days = 60_000_000 / acme["used_per_day"]
    assert abs(gone - timedelta(days=days)) < timedelta(minutes=1)
    assert 3 <= days <= 6
    assert acme["money"]["available"] == "$60"
    assert (idle["entity_id"], idle["used_per_day"], idle["gone_at"]) == ("idle", 0, None)
    head, *rows = told("usage", "near", "--budgets")
    assert head[:6] == ["ENTITY", "RESOURCE", "LIMIT", "USED", "LEFT", "RATE"]
    assert [(row[0], row[-1]) for row in rows][1] == ("idle", "unused")
    assert rows[0][2:6] == ["usd", "40", "%", "$60"]


def test_one_tenant_and_a_least_part_can_be_asked_for(spent: Table) -> None:
    assert [each["entity_id"] for each in document("usage", "near", "--budgets", "-e", "idle")] == ["idle"]
    assert [each["entity_id"] for each in document("usage", "near", "--budgets", "--percent", "30")] == ["acme"]
    assert run("usage", "near", "--budgets", "-e", "rates").stdout == (
        "There is no bucket with a budget in namespace default.\n"
    )
    cut = run("usage", "near", "--budgets", "--rows", "1")
    assert cut.stderr == "There are more budgets: raise --rows.\n"


def test_one_tenant_costs_a_query_for_each_bucket_with_a_budget(spent: Table) -> None:
    for number in range(20):
        spent.repository.set_limits(f"other-{number}", [TOTAL])
    with recorded() as calls:
        assert run("usage", "near", "--budgets", "-e", "acme").exit_code == 0
    actions = [each.action for each in calls if each.action.startswith("dynamodb:")]
    assert (actions.count("dynamodb:Query"), len(actions)) <= (4, 8)  # one where no window says how far it is counted


def test_two_rates_contradict_each_other(spent: Table) -> None:
    assert refused("usage", "near", "--budgets", "--every", "5").startswith("--every gives the rate of two looks")


def test_a_run_of_the_last_minutes_is_a_rate_of_its_own(table: Table) -> None:
    """$12 of a month are left, and $12 went in this hour: gone in an hour, and not in a day."""
    now = datetime.now(UTC)
    hour = now.replace(minute=0, second=0, microsecond=0)
    month = Limit.money("usd", 3000, per="month")
    table.repository.set_limits("team-c", [month])
    limiter = SyncRateLimiter(table.repository)
    with limiter.acquire("team-c", "gpt-4", {"usd": 2_988_000_000}):
        pass
    table.used("team-c", "gpt-4", TODAY, "daily", usd=12_000_000)
    table.used("team-c", "gpt-4", hour, "hourly", usd=12_000_000)
    (found,) = document("usage", "near", "--budgets")
    assert found["used_in_last_hour"] == 12_000_000
    assert found["gone_by"] == "hour"
    assert datetime.fromisoformat(found["gone_at"]) - now < timedelta(minutes=61)
    assert found["money"]["used_in_last_hour"] == "$12"
    head, row = run("usage", "near", "--budgets").stdout.splitlines()
    assert "$12/hour" in row
    assert max(len(head), len(row)) <= 80
