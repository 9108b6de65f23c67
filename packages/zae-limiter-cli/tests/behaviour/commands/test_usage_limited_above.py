"""Usage of keys whose money only an ancestor limits: a key counts it, with the ancestor's currency."""

from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from support.cli.by_hand import opened
from support.cli.tables import Table
from zae_limiter import Limit, SyncRateLimiter, SyncRepository
from zae_limiter_cli.main import main

SINCE = ("--since", "1h")


@pytest.fixture
def store(tmp_path: Path) -> str:
    """A file with two keys of a team, which alone limits `usd`; `key-b` spent more."""
    url = f"sqlite:///{tmp_path / 'limits.db'}"
    with SyncRepository.open(store=url) as repository:
        limiter = SyncRateLimiter(repository)
        limiter.create_entity("team")
        limiter.set_limits("team", [Limit.per_minute("rpm", 100), Limit.money("usd", 50, per="day")])
        for key, spent in ("key-a", "0.50"), ("key-b", "2.25"):
            limiter.create_entity(key, parent_id="team", cascade=True)
            limiter.set_limits(key, [Limit.per_minute("rpm", 60)])
            with limiter.acquire(key, "gpt-4", {"rpm": 1, "usd": 3}) as lease:
                lease.settle(usd=Decimal(spent))
    return url


def run(store: str, *args: str) -> str:
    done = CliRunner().invoke(main, ["usage", *args, "--store", store])
    assert done.exit_code == 0, done.output
    return done.stdout


def json_of(store: str, *args: str) -> Any:
    return opened(run(store, *args, "-o", "json"))


def test_the_top_by_money_has_the_keys(store: str) -> None:
    told = run(store, "top", "--by", "usd", *SINCE)
    found = [line.split() for line in told.splitlines()[1:]]
    assert [(row[0], row[-1]) for row in found if row] == [("team", "$2.75"), ("key-b", "$2.25"), ("key-a", "$0.50")]


def test_the_usage_of_a_resource_and_of_a_key_has_the_money(store: str) -> None:
    told = run(store, "list", "-r", "gpt-4", *SINCE)
    assert all(spent in told for spent in ("$2.75", "$2.25", "$0.50"))
    assert "$2.25" in run(store, "list", "-e", "key-b", *SINCE)


def test_a_total_counts_the_money_once(store: str) -> None:
    told = json_of(store, "list", "--total", "-r", "gpt-4", *SINCE)
    assert {each["limit_name"]: each["total"] for each in told["limits"]}["usd"] == 2_750_000


def test_the_bill_by_key_has_the_money(table: Table) -> None:
    table.repository.create_entity("team")
    table.repository.set_limits("team", [Limit.money("usd", 50, per="day")])
    table.repository.create_entity("key-b", parent_id="team", cascade=True)
    table.repository.set_limits("key-b", [Limit.per_minute("rpm", 60)])
    table.used("key-b", "gpt-4", datetime(2024, 2, 1, tzinfo=UTC), "daily", events=1, rpm=1, usd=2_250_000)
    done = CliRunner().invoke(main, ["usage", "cost", "--month", "2024-02", "--by", "entity", "-n", "my-app"])
    assert done.exit_code == 0, done.output
    assert "$2.25" in done.stdout
