"""Limits of money on the command line: given as money, shown as money, beside millionths in JSON."""

import csv
import io
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import pytest

from support.cli.by_hand import bucket_rows, document, refused, run, told
from support.cli.tables import Table
from zae_limiter import Limit, SyncRateLimiter
from zae_limiter_cli.data.parsing import parse_amounts

SET = ["entity", "set-limits", "key", "-l", "usd: $1_250.50/rolling day"]


@pytest.fixture
def used(table: Table) -> Table:
    """`key` has used $50 of $1,250.50."""
    table.repository.set_limits("key", [Limit.money("usd", "1250.50", per="total")])
    with SyncRateLimiter(table.repository).acquire("key", "gpt-4", {"usd": Decimal(50)}):
        pass
    return table


def test_a_limit_of_money_is_set_and_shown(table: Table) -> None:
    assert told(*SET)[1] == ["usd", "$1,250.50", "$1,250.50", "$1_250.50/rolling", "day"]
    assert document(*SET)["limits"]["usd"] == {
        "capacity": 1_250_500_000,
        "burst": 1_250_500_000,
        "refill_amount": 1_250_500_000,
        "refill_period": 86400,
        "shadow": False,
        "unit": "usd",
    }


def test_a_bucket_shows_money(used: Table) -> None:
    assert bucket_rows("key")[1][:6] == ["gpt-4", "usd", "$1,200.50", "$1,250.50", "never", "$50"]
    (shown,) = document("entity", "show", "key", "-r", "gpt-4")["buckets"]
    assert (shown["limits"]["usd"]["available"], shown["limits"]["usd"]["unit"]) == (1_200_500_000, "usd")
    assert shown["limits"]["usd"]["money"] == {"available": "$1,200.50", "consumed": "$50"}


def test_why_gives_money(used: Table) -> None:
    asked = ("why", "key", "-r", "gpt-4", "-c", "usd:$1_201.50")
    assert "zae-limiter bucket credit key -r gpt-4 -t 'usd:$1'" in run(*asked).stdout
    assert "# Give key $1 usd now." in run(*asked).stdout
    limit = document(*asked)["buckets"][0]["limits"]["usd"]
    assert (limit["requested"], limit["unit"]) == (1_201_500_000, "usd")
    assert limit["money"] == {"requested": "$1,201.50", "available": "$1,200.50"}


def test_why_lifts_a_block_of_money(table: Table) -> None:
    table.repository.set_limits("key", ["usd: $0/month UTC"], "gpt-4")
    asked = run("why", "key", "-r", "gpt-4", "-c", "usd:$1").stdout
    assert "# Let key spend $60 of usd for an hour." in asked
    assert "-l 'usd:$60'" in asked


def test_a_lift_shows_what_is_left_in_money(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", ["usd: $100/month UTC"])
    with SyncRateLimiter(table.repository).acquire("key", "gpt-4", {"usd": Decimal(90)}):
        pass
    left = document("lift", "key", "-r", "gpt-4", "--for", "1h", "-l", "usd:$200")["left"]["usd"]
    assert (left["before"], left["now"], left["unit"]) == (10_000_000, 110_000_000, "usd")
    assert left["money"] == {"before": "$10", "now": "$110"}


def test_the_busiest_buckets_have_money(used: Table) -> None:
    (row,) = document("top", "--once")["buckets"]
    assert (row["available"], row["unit"]) == (1_200_500_000, "usd")
    assert row["money"] == {"available": "$1,200.50", "burst": "$1,250.50"}


def test_money_is_credited(used: Table) -> None:
    assert told("bucket", "credit", "key", "-r", "gpt-4", "-t", "usd:$49.50")[2][2] == "$1,250"


def test_why_credits_money_as_money(table: Table) -> None:
    table.repository.set_limits("key", ["usd: $5/month UTC"])
    with SyncRateLimiter(table.repository).acquire("key", "gpt-4", {"usd": Decimal("4.5")}):
        pass
    output = run("why", "key", "-r", "gpt-4", "-c", "usd:$1.60").stdout
    assert "Give key $1.10 usd now." in output
    assert "bucket credit key -r gpt-4 -t 'usd:$1.10'" in output


def test_why_asks_for_money(used: Table) -> None:
    lines = run("why", "key", "-r", "gpt-4", "-c", "usd:$2000").stdout.splitlines()
    assert lines[0] == "key on gpt-4, $2,000 usd: refused by key/usd."
    assert lines[2] == "Never passes: it asks for $2,000, and the bucket holds $1,250.50 at most."


def test_why_refuses_a_bare_number_of_money(used: Table) -> None:
    way_out = "usd is money: write 'usd:$5' in single quotes, for a shell expands $ in double ones"
    assert refused("why", "key", "-r", "gpt-4", "-c", "usd:5") == f"-c 'usd:5': {way_out}"
    draw = ("why", "other", "-r", "r", "-c", "rpm:1", "--draw", "key on gpt-4 usd:5")
    used.repository.set_resource_defaults("r", ["rpm: 5/min"])
    assert refused(*draw) == f"--draw 'usd:5': {way_out}"


@pytest.mark.parametrize(
    ("text", "amount"),
    [
        ("usd:$0.0123", Decimal("0.0123")),
        ("usd:12_300 eur", Decimal(12300)),
        ("usd:0.50", Decimal("0.5")),
        ("usd:5", 5),
    ],
)
def test_an_amount_may_be_money(text: str, amount: object) -> None:
    assert parse_amounts([text]) == {"usd": amount}


def test_money_is_refused_for_tokens(table: Table) -> None:
    table.repository.set_limits("key", ["rpm: 5/min"])
    assert "counts tokens" in refused("why", "key", "-r", "gpt-4", "-c", "rpm:$5")


def test_usage_shows_money(table: Table) -> None:
    table.repository.set_system_defaults(["usd: $100/month UTC", "rpm: 5/min"])
    table.used("key", "gpt-4", datetime(2024, 1, 1, tzinfo=UTC), events=3, usd=1_234_500_000, rpm=3)
    since = ("--resource", "gpt-4", "--since", "2024-01-01")
    assert told("usage", "top", *since, "--by", "usd")[1][-2:] == ["3", "$1,234.50"]
    assert told("usage", "list", *since)[1][-2:] == ["3", "$1,234.50"]
    assert told("usage", "list", *since, "--total")[-1] == ["usd", *["$1,234.50"] * 4]
    for shown in (
        document("usage", "top", *since, "--by", "usd")["entities"][0],
        document("usage", "list", *since)[0],
    ):
        assert shown["consumed"] == {"usd": 1_234_500_000, "rpm": 3}
        assert (shown["units"], shown["money"]) == ({"usd": "usd"}, {"usd": "$1,234.50"})
    plotted = run("usage", "list", *since, "--total", "--plot").stdout.splitlines()
    assert [line.split()[2] for line in plotted if line.startswith("  2024-01-01 00")] == ["3", "$1,234.50"]
    limits = {each["limit_name"]: each for each in document("usage", "list", *since, "--total")["limits"]}
    assert "money" not in limits["rpm"]
    assert (limits["usd"]["total"], limits["usd"]["unit"]) == (1_234_500_000, "usd")
    assert limits["usd"]["money"] == dict.fromkeys(("total", "minimum", "maximum", "average"), "$1,234.50")


def test_a_mean_of_money_has_two_decimals_and_four_below_a_cent(table: Table) -> None:
    table.repository.set_system_defaults(["usd: $100/month UTC"])
    for hour, (large, small) in enumerate([(20_000_000, 4_000), (19_306_414, 5_001)]):
        table.used("large", "gpt-4", datetime(2024, 1, 1, hour, tzinfo=UTC), usd=large)
        table.used("small", "gpt-4", datetime(2024, 1, 1, hour, tzinfo=UTC), usd=small)
    of = ("usage", "list", "--since", "2024-01-01", "--total", "-e")
    assert [told(*of, each)[-1][-1] for each in ("large", "small")] == ["$19.65", "$0.0045"]


EXPORT = ("usage", "export", "--month", "2024-02")


@pytest.fixture
def month(table: Table) -> Table:
    """`key` has used money of two currencies, and given some back; `gone`, which comes first, has no such limit."""
    table.repository.set_resource_defaults("gpt-4", ["usd: $100/month UTC", "fees: 9 chf/month UTC", "rpm: 5/min"])
    table.repository.set_limits("gone", ["rpm: 5/min"], "gpt-4")
    at = datetime(2024, 2, 1, tzinfo=UTC)
    table.used("gone", "gpt-4", at, "daily", events=1, usd=1)
    table.used("key", "gpt-4", at, "daily", events=3, usd=1_234_500_001, fees=-50_000, rpm=3)
    return table


def test_an_export_has_money_beside_millionths(month: Table) -> None:
    rows = list(csv.DictReader(io.StringIO(run(*EXPORT).stdout)))
    assert list(rows[0])[-3:] == ["amount", "unit", "money"]
    shown = {
        (row["entity_id"], row["name"]): (row["amount"], row["unit"], row["money"])
        for row in rows
        if row["kind"] == "consumed"
    }
    assert shown == {
        ("gone", "usd"): ("1", "", ""),
        ("key", "usd"): ("1234500001", "usd", "1234.500001"),
        ("key", "fees"): ("-50000", "chf", "-0.050000"),
        ("key", "rpm"): ("3", "", ""),
    }
    assert {(row["unit"], row["money"]) for row in rows if row["kind"] != "consumed"} == {("", "")}


def test_two_tenants_may_have_budgets_of_two_currencies(table: Table) -> None:
    table.repository.set_limits("ann", ["budget: 10 eur total"], "gpt-4")
    table.repository.set_limits("ben", ["budget: $10 total"], "gpt-4")
    at = datetime(2024, 2, 1, tzinfo=UTC)
    for entity in ("ann", "ben"):
        table.used(entity, "gpt-4", at, "daily", events=1, budget=2_500_000)
    rows = list(csv.DictReader(io.StringIO(run(*EXPORT).stdout)))
    units = {row["entity_id"]: row["unit"] for row in rows if row["kind"] == "consumed"}
    assert units == {"ann": "eur", "ben": "usd"}
    shown = run("usage", "list", "-r", "gpt-4", "--window", "daily", "--since", "2024-01-31").stdout
    assert "€" not in shown
    assert "$" not in shown


def test_an_export_in_json_has_money_beside_millionths(month: Table) -> None:
    shown = {each["entity_id"]: each for each in document(*EXPORT, "-o", "json")}
    assert shown["key"]["consumed"] == {"usd": 1_234_500_001, "fees": -50_000, "rpm": 3}
    assert shown["key"]["units"] == {"usd": "usd", "fees": "chf"}
    assert shown["key"]["money"] == {"usd": "$1,234.500001", "fees": "-0.05 chf"}


def test_an_export_in_parquet_has_exact_money(month: Table, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    file = tmp_path / "month.parquet"
    assert run(*EXPORT, "-o", "parquet", "--out", str(file)).exit_code == 0
    rows = parquet.read_table(file).to_pylist()
    money = [row["money"] for row in rows if (row["entity_id"], row["name"]) == ("key", "usd")]
    assert money == [Decimal("1234.500001")]


def test_a_lift_keeps_the_kind_of_money(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", ["usd: $100/month UTC"])
    lift = ("lift", "key", "-r", "gpt-4", "--for", "1h", "-l")
    assert "usd is money: write 'usd:$20'" in refused(*lift, "usd:20")
    assert "not of this currency" in refused(*lift, "usd:20 eur")
    assert "there is no limit eur" in refused(*lift, "eur:20 eur")
    run(*lift, "usd:$20.50")
    override = table.repository.get_override("key", "gpt-4")
    assert override is not None
    assert [str(each) for each in override.limits] == ["usd: $20.50/month UTC"]


@pytest.mark.parametrize(
    "command",
    [
        ("entity", "set-limits", "key"),
        ("resource", "set-defaults", "gpt-4"),
        ("tier", "set-limits", "gold"),
        ("system", "set-defaults"),
        ("lift", "key", "-r", "gpt-4"),
    ],
    ids=" ".join,
)
def test_what_a_shell_leaves_of_money_is_a_warning(table: Table, command: tuple[str, ...]) -> None:
    said = " ".join(run(*command, "-l", "usd: 50/month Europe/Berlin").stderr.split())
    assert "usd is 50/month Europe/Berlin, in tokens: price lists count 50 as $0.00005." in said
    assert "write 'usd: $50/month Europe/Berlin' in single quotes" in said
    assert run(*command, "-l", "usd: $50/month Europe/Berlin").stderr == ""
