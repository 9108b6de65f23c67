"""`usage export`, `usage cost` and `usage near`."""

import csv
import io
import json
import sys
import time
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from click.testing import CliRunner, Result

from support.cli.by_hand import opened
from support.cli.tables import Table
from zae_limiter import Limit, SyncRateLimiter, SyncRepository, UsageSnapshot
from zae_limiter.maintenance import SyncMaintenance
from zae_limiter.stores import SyncSQLiteStore
from zae_limiter.values import Bucket, BucketLimit
from zae_limiter_cli.main import main
from zae_limiter_cli.usage.cost import Load, Units, fixed_costs
from zae_limiter_cli.usage.export import rows_of
from zae_limiter_cli.usage.month import Day, Month
from zae_limiter_cli.usage.near import Look, Near, after, nearest
from zae_limiter_cli.usage.prices import KNOWN

FIRST = datetime(2024, 2, 1, tzinfo=UTC)
NOW = datetime(2026, 11, 16, tzinfo=UTC)
MONTH = ("--month", "2024-02")


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["usage", *args, "-n", "my-app"])


def json_of(*args: str) -> Any:
    done = run(*args, "-o", "json")
    assert done.exit_code == 0, done.output
    return opened(done.stdout)


@pytest.fixture
def used(table: Table) -> Table:
    """Usage on the first, the last, and on both days around February 2024."""
    table.repository.create_entity("acme")
    table.repository.create_entity("acme/a", parent_id="acme")
    for day in (-1, 0, 28, 29):
        at = FIRST + timedelta(days=day)
        table.used("acme/a", "gpt-4", at, "daily", events=10, refused=3, refused_by={("acme", "rpm"): 2}, tpm=500)
        table.used("acme", "gpt-4", at, "daily", events=10, rpm=10)
        table.used("solo, inc", "gpt-4o", at, "daily", events=1, shadowed=1)
    table.used("acme", "gpt-4", FIRST, "hourly", events=10, rpm=10)
    return table


@pytest.fixture
def table_with_odd_names(table: Table) -> Table:
    for entity in ("auth0|1", '"quoted"', "=1+1", "ü,b"):
        table.used(entity, "gpt-4", FIRST, "daily", events=1)
    return table


def rows_in(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_a_month_in_csv_has_a_row_for_each_count(used: Table) -> None:
    done = run("export", *MONTH)
    assert (done.exit_code, done.stderr) == (0, "")
    rows = rows_in(done.stdout)
    assert {row["window_start"] for row in rows} == {"2024-02-01T00:00:00.000Z", "2024-02-29T00:00:00.000Z"}
    sums: dict[tuple[str, str, str], int] = {}
    for row in rows:
        key = row["entity_id"], row["kind"], row["name"]
        sums[key] = sums.get(key, 0) + int(row["amount"])
    assert sums["acme/a", "admitted", ""] == 20
    assert sums["acme/a", "refused", ""] == 6
    assert sums["acme/a", "refused_by", "acme/rpm"] == 4
    assert sums["acme/a", "consumed", "tpm"] == 1000
    assert sums["solo, inc", "shadowed", ""] == 2


def test_the_forms_have_the_same_counts(used: Table, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    in_csv = rows_in(run("export", *MONTH).stdout)
    in_json = json_of("export", *MONTH)
    file = tmp_path / "month.parquet"
    done = run("export", *MONTH, "-o", "parquet", "--out", str(file))
    assert (done.exit_code, done.stderr) == (0, f"6 daily windows of 2024-02 written to {file}.\n")
    in_parquet = parquet.read_table(file).to_pylist()
    assert [{**row, "amount": str(row["amount"]), "money": row["money"] or ""} for row in in_parquet] == in_csv
    assert len(in_json) == 6
    assert {each["namespace"] for each in in_json} == {"default"}
    assert sum(each["total_events"] for each in in_json) == sum(
        int(row["amount"]) for row in in_csv if row["kind"] == "admitted"
    )


def test_an_export_can_be_of_one_entity_or_resource_and_by_the_hour(used: Table) -> None:
    assert {row["entity_id"] for row in rows_in(run("export", *MONTH, "-e", "acme").stdout)} == {"acme"}
    assert {row["resource"] for row in rows_in(run("export", *MONTH, "-r", "gpt-4o").stdout)} == {"gpt-4o"}
    (hour,) = json_of("export", *MONTH, "--window", "hourly")
    assert (hour["entity_id"], hour["window"]) == ("acme", "hourly")


def test_an_export_can_be_of_the_resources_of_a_pattern(used: Table) -> None:
    assert {row["resource"] for row in rows_in(run("export", *MONTH, "-r", "gpt-4o*").stdout)} == {"gpt-4o"}
    assert {row["resource"] for row in rows_in(run("export", *MONTH, "-r", "gpt*").stdout)} == {"gpt-4", "gpt-4o"}


def test_a_month_without_usage_is_an_empty_document(table: Table) -> None:
    assert json_of("export", *MONTH) == []
    assert rows_in(run("export", *MONTH).stdout) == []


def test_odd_names_survive(table_with_odd_names: Table) -> None:
    names = {row["entity_id"] for row in rows_in(run("export", *MONTH).stdout)}
    assert names == {"auth0|1", '"quoted"', "'=1+1", "ü,b"}  # a spreadsheet computes what begins with =
    in_json = json_of("export", *MONTH)
    assert {row["entity_id"] for row in in_json} == {"auth0|1", '"quoted"', "=1+1", "ü,b"}


def test_more_than_a_page_is_written(tmp_path: Path) -> None:
    url, file = f"sqlite:///{tmp_path / 'limits.db'}", tmp_path / "month.csv"
    with closing(SyncSQLiteStore(tmp_path / "limits.db")) as store, SyncRepository.open(store=url) as repository:
        table = Table(repository, store)  # type: ignore[arg-type]  # it puts items into any store
        for number in range(1200):
            table.used(f"e-{number:04}", "gpt-4", FIRST, "daily", events=1)
    done = CliRunner().invoke(main, ["usage", "export", *MONTH, "--out", str(file), "--store", url])
    assert (done.stdout, done.stderr[:19]) == ("", "1,200 daily windows")
    entities = [row["entity_id"] for row in rows_in(file.read_text())]
    assert (len(set(entities)), len(entities)) == (1200, 3600)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["export", "--month", "2024"], "--month '2024': must be a month like 2026-11"),
        (["export", "--month", "2024-2"], "--month '2024-2': must be a month like 2026-11"),
        (["export", "--month", "9999-01"], "has not begun: pass a month until"),
        (["export", "--month", "1969-12"], "must not be before 1970-01"),
        (["export", "-o", "parquet"], "-o parquet is not text: pass --out FILE"),
        (["export", *MONTH, "-e", "a b"], "entity_id 'a b': must be"),
        (["cost", *MONTH, "--prices", "missing.json"], "missing.json: No such file or directory"),
        (["near", "--percent", "0"], "0.0 is not in the range"),
        (["near", "--every", "nan"], "'nan' is not a number"),
        (["near", "--percent", "inf"], "inf is not in the range"),
        (["cost", "--writes-per-acquire", "nan"], "'nan' is not a number"),
    ],
    ids=" ".join,
)
def test_a_mistake_is_one_line(table: Table, args: list[str], told: str) -> None:
    done = run(*args)
    assert done.exit_code == 1
    (line,) = done.stderr.splitlines()
    assert told in line


def test_without_pyarrow_parquet_says_how_to_install_it(
    table: Table, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    done = run("export", "-o", "parquet", "--out", str(tmp_path / "month.parquet"))
    assert done.exit_code == 1
    assert "install the extra `export` of zae-limiter-cli" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_an_export_that_fails_leaves_no_file(used: Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object) -> None:
        raise OSError(28, "No space left on device", "month.csv")

    monkeypatch.setattr("zae_limiter_cli.usage.export.rows_of", broken)
    file = tmp_path / "month.csv"
    file.write_text("the month before")
    assert run("export", *MONTH, "--out", str(file)).exit_code == 1
    assert [each.name for each in tmp_path.iterdir()] == ["month.csv"]
    assert file.read_text() == "the month before"
    file.unlink()
    file.symlink_to(tmp_path / "elsewhere")
    assert "symbolic link" in run("export", *MONTH, "--out", str(file)).stderr


def test_the_cost_is_by_tenant_and_says_what_is_counted_and_what_is_estimated(used: Table) -> None:
    bill = json_of("cost", *MONTH)
    tenants = {each["tenant"]: each for each in bill["tenants"]}
    assert {name: (each["admitted"], each["refused"]) for name, each in tenants.items()} == {
        "acme": (40, 6),
        "solo, inc": (2, 0),
    }
    assert tenants["acme"]["decision_writes"] == 40
    assert tenants["acme"]["usage_writes"] == 2 * 46
    assert tenants["acme"]["limit_reads"] == 5 * 46
    assert tenants["acme"]["usd"] == round((132 * 0.625 + 230 * 0.125) / 1e6, 6)
    assert (bill["total"]["admitted"], bill["counted"]) == (42, ["admitted", "refused"])
    assert bill["prices"]["as_of"] == "2026-11"
    assert bill["unknown"] == ["lambda: there is no stack of this name"]
    assert bill["all_usd"] == pytest.approx(bill["total"]["usd"] + sum(bill["fixed_usd"].values()), abs=1e-5)


@pytest.mark.slow
@pytest.mark.usefixtures("aws")
def test_alarms_cost_as_many_as_there_are_whatever_the_options_of_the_stack_say() -> None:
    done = CliRunner().invoke(main, ["deploy", "--yes", "-n", "my-app", "-q", "--alarms"])
    assert done.exit_code == 0, done.output
    assert json_of("cost", *MONTH)["fixed_usd"]["alarms"] == 0  # a local AWS makes none
    metric = {"Namespace": "AWS/Lambda", "MetricName": "Errors", "Period": 300, "Statistic": "Sum"}
    rule = {"EvaluationPeriods": 1, "Threshold": 1, "ComparisonOperator": "GreaterThanThreshold"}
    for name in ("my-app-AggregatorErrorsAlarm-1A2B", "my-app-2-AggregatorErrorsAlarm-OTHER"):
        boto3.client("cloudwatch").put_metric_alarm(AlarmName=name, **metric, **rule)
    bill = json_of("cost", *MONTH)
    assert (bill["fixed_usd"]["alarms"], bill["unknown"]) == (bill["prices"]["alarm_month"], [])


def test_what_runs_took_is_billed_once_to_the_tenant_that_they_are_within(used: Table) -> None:
    """But for what only the run has a limit of."""
    repository = used.repository
    repository.create_entity("shop")
    repository.create_entity("shop/key", parent_id="shop", cascade=True)
    for resource in ("gpt-5", "budget"):
        repository.set_resource_defaults(resource, [Limit.money("usd", 100, per="month")])
    for entity, resource, below in (
        ("shop/key", "gpt-5", 0),
        ("shop", "gpt-5", 5),
        ("run:a@shop/key", "budget", 0),
        ("run:a/b@shop/key", "budget", 0),
    ):
        calls = 5 if resource == "budget" else 0
        used.used(entity, resource, FIRST, "daily", events=5, below=below, usd=1_000_000, calls=calls)
    bill = json_of("cost", *MONTH)
    assert "run:a@shop/key" not in {each["tenant"] for each in bill["tenants"]}
    (shop,) = (each for each in bill["tenants"] if each["tenant"] == "shop")
    assert (shop["admitted"], shop["money"]["usd"], bill["total"]["spent"]) == (5, "$1", {"usd": 1_000_000})
    assert shop["decision_writes"] == 20
    (key,) = (each for each in json_of("cost", *MONTH, "--by", "entity")["tenants"] if each["tenant"] == "shop/key")
    assert (key["admitted"], key["money"]["usd"]) == (5, "$1")
    rows = [row for row in rows_in(run("export", *MONTH).stdout) if row["entity_id"].startswith(("shop", "run:"))]
    sums = {
        kind: sum(int(row["amount"]) for row in rows if (row["kind"], row["name"]) == kind)
        for kind in (("admitted", ""), ("consumed", "usd"), ("consumed", "calls"), ("consumed_below", "usd"))
    }
    assert [*sums.values()] == [5, 1_000_000, 5, 3_000_000]
    whole = [each for each in json_of("export", *MONTH) if each["entity_id"].startswith(("shop", "run:"))]
    assert sum(each["total_events"] - each["total_below"] for each in whole) == 5
    (total,) = (
        each
        for each in json_of("list", "--total", "--window", "daily", "--since", "2024-01-31", "--until", "2024-02-02")[
            "limits"
        ]
        if each["limit_name"] == "usd"
    )
    assert total["total"] == 1_000_000


def test_a_day_has_a_bill_of_its_own_with_what_tenants_spent_of_money(used: Table) -> None:
    """A call of a key that cascades counts once, at its tenant."""
    repository = used.repository
    repository.create_entity("shop")
    repository.create_entity("shop/key", parent_id="shop", cascade=True)
    repository.set_system_defaults([Limit.money("usd", 100, per="month"), Limit.per_minute("rpm", 100)])
    yesterday = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=1)
    for entity, below in (("shop", 4), ("shop/key", 0)):
        used.used(entity, "gpt-4", yesterday, "daily", events=4, below=below, usd=2_500_000, rpm=4)
    used.used("lone", "gpt-4", yesterday, "daily", usd=1_000_000)
    used.used("lone", "gpt-4", yesterday - timedelta(days=1), "daily", usd=90_000_000)
    bill = json_of("cost", "--day", "yesterday")
    assert (bill["day"], bill["month"]) == (f"{yesterday:%Y-%m-%d}", f"{yesterday:%Y-%m}")
    spent = {each["tenant"]: each["money"]["usd"] for each in bill["tenants"]}
    assert spent == {"shop": "$2.50", "lone": "$1"}
    assert bill["total"]["spent"] == {"usd": 3_500_000}
    lines = [line.split() for line in run("cost", "--day", bill["day"]).stdout.splitlines()]
    assert (lines[0][-2:], lines[1][0], lines[1][-1]) == (["SPENT", "usd"], "shop", "$2.50")
    assert lines[3][-1] == "$3.50"
    assert "money" not in json_of("cost", *MONTH)["total"]


def test_a_day_is_one_that_has_begun_and_no_month(used: Table) -> None:
    told = {
        ("--day", "tomorrow"): "has not begun",
        ("--day", "noon"): "must be how long ago",
        ("--day", "today", *MONTH): "contradict each other",
    }
    for args, problem in told.items():
        done = run("cost", *args)
        assert (done.exit_code, problem in done.stderr) == (1, True), done.stderr
    assert Day.of("2026-11-15", NOW).elapsed == pytest.approx(24 / 730)


@pytest.mark.parametrize(
    ("by", "names"),
    [
        ("entity", {"acme", "acme/a", "solo, inc"}),
        ("resource", {"gpt-4", "gpt-4o"}),
        ("namespace", {"default"}),
    ],
)
def test_a_tenant_is_what_by_says(used: Table, by: str, names: set[str]) -> None:
    used.repository.register_namespace("empty")
    assert {each["tenant"] for each in json_of("cost", *MONTH, "--by", by)["tenants"]} == names


def test_people_see_the_dearest_first_the_total_and_the_date_of_the_prices(used: Table) -> None:
    done = run("cost", *MONTH, "--rows", "1", "--writes-per-acquire", "2")
    lines = done.stdout.splitlines()
    assert [line.split()[0] for line in lines[:3]] == ["ROOT", "acme", "total"]
    assert "counted: admitted and refused acquires" in done.stdout
    assert "one that draws on further buckets, not a run's, once more at each" in " ".join(done.stdout.split())
    assert "write units for an admitted acquire 2, for a refused one 0" in " ".join(done.stdout.split())
    assert "as of 2026-11" in " ".join(done.stdout.split())
    assert done.stderr == "There are more tenants: raise --rows.\n"


def test_prices_of_a_file_are_taken_and_checked(used: Table, tmp_path: Path) -> None:
    prices = {name: getattr(KNOWN, name) for name in KNOWN.__slots__}
    file = tmp_path / "prices.json"
    file.write_text(json.dumps({**prices, "million_write_units": 1_000_000, "million_read_units": 0, "of": "mars"}))
    bill = json_of("cost", *MONTH, "--prices", str(file))
    assert (bill["total"]["usd"], bill["prices"]["of"]) == (42 + 2 * 48, "mars")
    for wrong, told in (
        ('{"of": "mars"}', "must be an object with exactly these keys: of, as_of, million_write_units"),
        (json.dumps({**prices, "alarm_month": -1}), "alarm_month -1: must be a number of dollars, 0 or more"),
        (json.dumps({**prices, "as_of": 3}), "as_of 3: must be a text"),
        ("{", f"{file}:1:2: not JSON: "),
    ):
        file.write_text(wrong)
        assert told in run("cost", *MONTH, "--prices", str(file)).stderr


def test_a_file_costs_nothing_by_the_request(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'limits.db'}"
    CliRunner().invoke(main, ["namespace", "register", "default", "--store", url])
    done = CliRunner().invoke(main, ["usage", "cost", "--store", url])
    assert (done.exit_code, "pass --name" in done.stderr) == (1, True)


def test_units_of_a_busy_day_are_bounded_by_batches_and_minutes() -> None:
    units, day = Units(), UsageSnapshot("e", "r", "daily", FIRST, {}, 10_000_000)
    units.add(day, day, Load(processes=3))
    assert (units.usage_writes, units.limit_reads) == (2 * 43_200, 5 * 1440 * 3)


def test_what_is_not_known_of_a_stack_costs_nothing() -> None:
    nothing = fixed_costs(KNOWN, 1.0, table_bytes=None, backups=False, aggregator=None, alarms=None)
    assert nothing == {}
    known = fixed_costs(KNOWN, 0.5, table_bytes=1024**3, backups=True, aggregator=True, alarms=8)
    assert known == {"lambda": pytest.approx(5.475, abs=0.01), "alarms": 0.4, "storage": pytest.approx(0.225)}


def test_a_month_ends_where_the_next_begins() -> None:
    assert Month.of("2026-12", datetime(2027, 1, 1, tzinfo=UTC)).end == datetime(2027, 1, 1, tzinfo=UTC)
    assert (Month.of(None, NOW).elapsed, Month.of("2026-10", NOW).elapsed) == (0.5, 1.0)
    of_one = UsageSnapshot("e", "r", "daily", FIRST, {"rpm": 1}, 1)
    assert [row.kind for row in rows_of("n", of_one, of_one)] == [*("admitted", "refused", "shadowed", "consumed")]


def take(table: Table, entity: str, resource: str, limit: Limit, amount: int) -> None:
    limiter = SyncRateLimiter(table.repository, default_limits=[limit])
    with limiter.acquire(entity, resource, {limit.name: amount}):
        pass


SLOW = Limit.per_day("rpd", 100)


def test_who_is_near_is_listed_the_closest_first(table: Table) -> None:
    for entity, amount in (("far", 10), ("near", 85), ("nearer", 99)):
        take(table, entity, "gpt-4", SLOW, amount)
    take(table, "elsewhere", "gpt-4o", SLOW, 90)
    near = json_of("near", "--every", "0")
    assert [(each["entity_id"], each["percent"], each["available"]) for each in near] == [
        ("nearer", 99.0, 1),
        ("elsewhere", 90.0, 10),
        ("near", 85.0, 15),
    ]
    assert {each["seconds_left"] for each in near} == {None}
    assert [each["entity_id"] for each in json_of("near", "--every", "0", "-r", "gpt-4o")] == ["elsewhere"]
    assert [each["entity_id"] for each in json_of("near", "--every", "0", "--rows", "1")] == ["nearer"]
    assert len(json_of("near", "--every", "0", "--percent", "5")) == 4


def test_the_order_is_that_of_the_second_look(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    for entity, amount in (("first", 85), ("second", 90)):
        take(table, entity, "gpt-4", SLOW, amount)
    meanwhile = [14]
    monkeypatch.setattr(
        time, "sleep", lambda _: take(table, "first", "gpt-4", SLOW, meanwhile.pop()) if meanwhile else None
    )
    assert [(each["entity_id"], each["available"]) for each in json_of("near")] == [("first", 1), ("second", 10)]


NOW_MS = 1_790_000_000_000  # 2026-09-21, nine days before the end of the month


def look(at: float, available: int, consumed: int, limit: Limit = SLOW, entity: str = "e") -> Look:
    return Look(Bucket(entity, "r", 1, (BucketLimit(limit, available, consumed),), 0, None), at)


def second(before: Look, behind: Look | None) -> Near:
    ((near, first),) = nearest([before], 1, 10)
    return after(near, first, behind, NOW_MS)


def test_the_time_left_is_at_the_rate_between_two_looks() -> None:
    busy = second(look(100, 15, 85), look(110, 10, 90))
    assert (busy.used_per_second, busy.available) == (0.5, 10)
    assert busy.seconds_left == pytest.approx(20, abs=0.1)
    idle = second(look(100, 15, 85), look(110, 15, 85))
    assert (idle.used_per_second, idle.seconds_left) == (0.0, None)
    given_back = second(look(100, 15, 85), look(110, 25, 75))
    assert given_back.used_per_second == 0.0
    assert second(look(100, -5, 105), look(110, -5, 105)).seconds_left == 0.0
    fast = Limit.per_second("rps", 100)
    assert second(look(100, 15, 0, fast), look(110, 15, 900, fast)).seconds_left is None


@pytest.mark.parametrize(
    ("limit", "left"),
    [
        (Limit.per_month("usd", 100), 20),
        (Limit.total("credits", 100), 20),
        (Limit.quota("rpd", 100, window=3600), 20),
        (Limit.quota("rph", 100, window=19), None),
        (Limit.concurrent("parallel", 100), None),
    ],
    ids=lambda each: getattr(each, "name", None),
)
def test_what_comes_back_meanwhile_is_what_the_kind_of_the_limit_says(limit: Limit, left: float | None) -> None:
    assert second(look(100, 15, 85, limit), look(110, 10, 90, limit)).seconds_left == left


def test_a_bucket_that_expired_or_got_other_limits_has_no_rate() -> None:
    for behind in (None, look(110, 1, 1, Limit.per_day("other", 100)), look(100, 1, 1)):
        assert second(look(100, 15, 85), behind).used_per_second is None


def test_people_see_a_row_or_a_line(table: Table) -> None:
    assert run("near").stdout == ("No one has used a threshold, or 80 % of a burst, in namespace default.\n")
    assert run("near", "--percent", "50").stdout == "No one has used 50 % of a burst in namespace default.\n"
    take(table, "empty", "gpt-4", SLOW, 100)
    begun = time.monotonic()
    done = run("near", "--every", "0.1")
    assert time.monotonic() - begun >= 0.1
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["ENTITY", "RESOURCE", "LIMIT", "GONE", "ALERT", "AVAILABLE", "USED", "REFILL", "LASTS"],
        ["empty", "gpt-4", "rpd", "100", "%", "-", "0", "0/min", "100/rolling", "day", "empty"],
    ]


def test_a_limit_with_thresholds_is_near_from_the_lowest_on(table: Table) -> None:
    alerting = Limit.per_day("rpd", 100, alert=(30, 60))
    for entity_id, amount in (("low", 29), ("some", 30), ("much", 70)):
        take(table, entity_id, "gpt-4", alerting, amount)
    take(table, "plain", "gpt-4", SLOW, 70)
    found = [(each["entity_id"], each["threshold"]) for each in json_of("near", "--every", "0")]
    assert found == [("much", 60), ("some", 30)]
    found = [(each["entity_id"], each["threshold"]) for each in json_of("near", "--every", "0", "--percent", "65")]
    assert sorted(found) == [("much", 60), ("plain", None)]


def test_near_says_what_is_in_shadow_and_that_slots_are_held(table: Table) -> None:
    limits = [Limit.total("rpm", 2, shadow=True), Limit.concurrent("calls", 10)]
    table.repository.set_resource_defaults("gpt-4", limits)
    with SyncRateLimiter(table.repository) as limiter, limiter.acquire("key-1", "gpt-4", {"rpm": 2, "calls": 9}):
        done = run("near", "--every", "0.1")
        found = opened(run("near", "--every", "0.1", "-o", "json").stdout)
    rows = [line.split() for line in done.stdout.splitlines()[1:]]
    assert [row[2:4] for row in rows] == [["rpm", "(shadow)"], ["calls", "90"]]
    assert rows[1][-1] == "held"
    assert [(each["limit_name"], each["shadow"]) for each in found] == [("rpm", True), ("calls", False)]


def test_a_block_is_not_near(table: Table) -> None:
    take(table, "blocked", "gpt-4", SLOW, 90)
    table.repository.set_limits("blocked", [Limit.per_day("rpd", 0)], "gpt-4")
    SyncMaintenance(table.repository).invalidate_live_buckets("gpt-4")
    assert [each["percent"] for each in json_of("near", "--every", "0")] in ([], [90.0])
