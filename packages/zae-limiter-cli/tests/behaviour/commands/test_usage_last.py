"""`usage top --last 5m`: who was refused in the last minutes, by what the aggregator counts beside each hour."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from support.cli.by_hand import document, refused, run
from support.cli.tables import Table
from zae_limiter import Limit, SyncRepository
from zae_limiter.maintenance import Consumption, SnapshotId, Use, count_usage, stream_mark
from zae_limiter.values.usage import Window
from zae_limiter_cli.connection import Connection
from zae_limiter_cli.limits.risks import risks_of
from zae_limiter_cli.main import main
from zae_limiter_manifest import Address, Change, LimitDecl, LimitsManifest, Plan, ResourceDecl

WINDOWS: tuple[Window, ...] = ("hourly", "daily")


def count(table: Table, entity: str, ago: float, admitted: int, refused: int = 0) -> None:
    """Count acquires of so many minutes ago, as the aggregator does."""
    repository = table.repository
    at_ms = repository.namespace_state.now() - round(60_000 * ago)
    hour = datetime.fromtimestamp(at_ms / 1000, UTC).replace(minute=0, second=0, microsecond=0)
    counts = {"ev": admitted, "rj": refused}
    for window, start in zip(WINDOWS, (hour, hour.replace(hour=0)), strict=True):
        place = SnapshotId(repository.namespace_id, entity, "gpt-4", window, start)
        use = Use(stream_mark("label", str(at_ms)), Consumption({"rpm": admitted}, counts), at_ms, 0)
        repository.driver.run(count_usage(place, 0, [use], expires_at=None, now_ms=at_ms + 1000, spread=True))


@pytest.fixture
def used(table: Table) -> Table:
    """An hour ago `old` was refused most; in the last minutes, also across the turn of an hour, `key` was."""
    count(table, "old", 70, 1, refused=900)
    count(table, "old", 0, 1, refused=1)
    for ago in (4, 2, 0):
        count(table, "key", ago, 2, refused=5)
    count(table, "quiet", 0, 7)
    return table


def test_the_last_minutes_are_not_the_hours(used: Table) -> None:
    done = run("usage", "top", "--last", "5m")
    head, columns, *rows = done.stdout.splitlines()
    assert (done.exit_code, done.stderr) == (0, "")
    assert re.fullmatch(r"From 20.* until now, (5|6|7|8|9|10) min( \d+ s)?, as far as it is counted:", head)
    assert columns.split() == ["ENTITY", "RESOURCE", "ADMITTED", "REFUSED"]
    assert [row.split() for row in rows] == [["key", "gpt-4", "6", "15"], ["old", "gpt-4", "1", "1"]]
    assert run("usage", "top", "--since", "3h").stdout.splitlines()[1].split()[:2] == ["old", "gpt-4"]


def test_programs_get_the_exact_time(used: Table) -> None:
    found = document("usage", "top", "--last", "5m", "--by", "admitted", "--rows", "1")
    start, end = (datetime.fromisoformat(found[name]) for name in ("start", "end"))
    assert (start.minute % 5, start.second) == (0, 0)
    assert timedelta(minutes=5) <= end - start < timedelta(minutes=10)
    assert found["entities"] == [{"entity_id": "quiet", "resource": "gpt-4", "total_events": 7, "total_refused": 0}]


def test_an_hour_back_is_the_most(used: Table) -> None:
    assert run("usage", "top", "--last", "1h").exit_code == 0
    assert refused("usage", "top", "--last", "2h") == "--last '2h': must be at most 1h ago: --since has whole hours"
    told = "--last and --since exclude each other: pass one of them"
    assert refused("usage", "top", "--last", "5m", "--since", "1h") == told
    told = "--by 'rpm': of the last minutes, only admitted and refused acquires are counted"
    assert refused("usage", "top", "--last", "5m", "--by", "rpm") == told


def test_nothing_is_said_with_its_time(table: Table) -> None:
    count(table, "old", 70, 1, refused=900)
    assert run("usage", "top", "--last", "5m").stdout.startswith("No call was refused since 20")


def test_a_file_says_what_to_use(tmp_path: Path) -> None:
    with SyncRepository.sqlite(tmp_path / "limits.db"):
        pass
    done = CliRunner().invoke(main, ["usage", "top", "--last", "5m", "--store", f"sqlite:///{tmp_path / 'limits.db'}"])
    told = "Error: --last: a file counts usage by the hour; `zae-limiter top --for 5m` counts from now on\n"
    assert (done.exit_code, done.stderr) == (1, told)


def test_a_cut_by_the_minute_binds_those_whose_busiest_five_minutes_are_over_it(table: Table) -> None:
    """The mean of the hour, 3 a minute, is below the new limit."""
    table.repository.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 60)])
    count(table, "peak", 61, 150)
    count(table, "even", 61, 40)
    sides = [ResourceDecl({"rpm": LimitDecl(each)}) for each in (60, 20)]
    plan = Plan("default", (Change(Address("gpt-4"), *sides),))
    manifest = LimitsManifest.of("default", {Address("gpt-4"): sides[1]})
    line = risks_of(Connection("my-app"), [plan], [manifest])["default"][Address("gpt-4")]
    assert "; rpm: binds at least 1 entity, by the busiest five minutes: peak (30 a minute)" in line
