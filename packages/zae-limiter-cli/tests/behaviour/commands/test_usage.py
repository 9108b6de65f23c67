from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner, Result

from support.cli.by_hand import opened
from support.cli.tables import Table
from zae_limiter_cli.main import main

DAY = datetime(2024, 1, 1, tzinfo=UTC)
PAST = ("--since", "2024-01-01")
BOTH = pytest.mark.parametrize("command", ["list", "list --total"])


def run(command: str, *args: str) -> Result:
    return CliRunner(env={"COLUMNS": "60"}).invoke(main, ["usage", "-n", "my-app", *command.split(), *args])


def rows(*args: str) -> Any:
    done = run("list", "-o", "json", *args)
    assert done.exit_code == 0, done.output
    return opened(done.stdout)


def table_of(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def refused(done: Result) -> str:
    """The one line that says what was wrong."""
    (line,) = done.stderr.splitlines()
    assert (done.exit_code, done.stdout, line[:7]) == (1, "", "Error: ")
    return line[7:]


def test_each_window_is_a_row_and_each_limit_a_column(table: Table) -> None:
    table.used("key-abc", "gpt-4", DAY, events=3, refused=1_400, shadowed=2, rpm=3, tpm=12_000)
    table.used("key-abc", "gpt-4", DAY + timedelta(hours=14), rpm=1)
    done = run("list", "--entity", "key-abc", *PAST)
    assert done.exit_code == 0
    assert table_of(done.stdout) == [
        ["WINDOW", "(UTC)", "ENTITY", "RESOURCE", "ADMITTED", "REFUSED", "SHADOWED", "rpm", "tpm"],
        ["2024-01-01", "00:00", "key-abc", "gpt-4", "3", "1,400", "2", "3", "12,000"],
        ["2024-01-01", "14:00", "key-abc", "gpt-4", "1", "0", "0", "1", "-"],
    ]


def test_calls_that_an_outage_let_through_have_a_column_where_there_were_some(table: Table) -> None:
    table.used("key-abc", "gpt-4", DAY, events=3, uncounted=1_200, rpm=3)
    table.used("key-def", "gpt-4", DAY, events=3, rpm=3)
    told = table_of(run("list", "--resource", "gpt-4", *PAST).stdout)
    assert [row[-3:] for row in told] == [["SHADOWED", "UNCOUNTED", "rpm"], ["0", "1,200", "3"], ["0", "0", "3"]]
    assert table_of(run("list", "--entity", "key-def", *PAST).stdout)[0][-2:] == ["SHADOWED", "rpm"]
    assert "0 shadowed, 1,200 uncounted; windows" in run("list", "--total", "--entity", "key-abc", *PAST).stdout
    assert table_of(run("top", "--by", "uncounted", *PAST).stdout)[1][0] == "key-abc"
    exported = run("export", "--month", "2024-01", "--window", "hourly").stdout
    assert [line for line in exported.splitlines() if ",uncounted," in line] == [
        "default,hourly,2024-01-01T00:00:00.000Z,key-abc,gpt-4,uncounted,,1200,,"
    ]


def test_refusals_by_an_ancestor_have_a_column_for_each_of_its_limits(table: Table) -> None:
    table.used("key-abc", "gpt-4", DAY, refused=1_400, refused_by={("acme", "rpm"): 1_200, ("acme", "tpm"): 1}, rpm=3)
    table.used("key-abc", "gpt-4", DAY + timedelta(hours=14), refused=2, rpm=1)
    assert table_of(run("list", "--entity", "key-abc", *PAST).stdout)[0][5:] == [
        *("REFUSED", "SHADOWED", "BY", "acme/rpm", "BY", "acme/tpm", "rpm"),
    ]
    assert [row[5:] for row in table_of(run("list", "--entity", "key-abc", *PAST).stdout)[1:]] == [
        ["1,400", "0", "1,200", "1", "3"],
        ["2", "0", "-", "-", "1"],
    ]
    said = run("list", "--total", "--entity", "key-abc", *PAST).stdout
    assert "1,402 refused, 0 shadowed; refused 1,200 by acme/rpm, 1 by acme/tpm; windows" in said


def test_json_has_everything_about_a_window(table: Table) -> None:
    table.used(
        "key-abc",
        "gpt-4",
        DAY + timedelta(hours=1),
        events=3,
        refused=7,
        refused_by={("acme", "rpm"): 5},
        shadowed=1,
        rpm=3,
        tpm=12_000,
    )
    assert rows("--resource", "gpt-4", *PAST) == [
        {
            "entity_id": "key-abc",
            "resource": "gpt-4",
            "window": "hourly",
            "window_start": "2024-01-01T01:00:00.000Z",
            "consumed": {"rpm": 3, "tpm": 12_000},
            "total_events": 3,
            "total_refused": 7,
            "total_shadowed": 1,
            "total_uncounted": 0,
            "total_below": 0,
            "total_refused_below": 0,
            "refused_by": [{"entity_id": "acme", "limit_name": "rpm", "refused": 5}],
        }
    ]


def test_usage_is_of_an_entity_of_a_resource_or_of_both(table: Table) -> None:
    for entity, resource in (("a", "r"), ("a", "s"), ("b", "r")):
        table.used(entity, resource, DAY, rpm=1)
        table.used(entity, resource, DAY, "daily", rpm=1)
    for asked, found in (
        (("--entity", "a"), ["ar", "as"]),
        (("--resource", "r"), ["ar", "br"]),
        (("--entity", "a", "--resource", "r"), ["ar"]),
    ):
        for window in ("hourly", "daily"):
            got = rows(*asked, *PAST, "--window", window)
            assert [each["entity_id"] + each["resource"] for each in got] == found
            assert {each["window"] for each in got} == {window}


def test_since_takes_the_window_that_it_lies_in_and_until_is_where_windows_no_more_begin(table: Table) -> None:
    for hour in range(5):
        table.used("e", "r", DAY + timedelta(hours=hour), rpm=hour)
    got = rows("--entity", "e", "--since", "2024-01-01T01:30Z", "--until", "2024-01-01T05:00+02:00")
    assert [each["consumed"]["rpm"] for each in got] == [1, 2]


@pytest.mark.parametrize(("window", "step"), [("hourly", timedelta(hours=1)), ("daily", timedelta(days=1))])
def test_without_since_it_is_the_last_day_by_the_hour_and_the_last_month_by_the_day(
    table: Table, window: Any, step: timedelta
) -> None:
    until, windows = DAY + timedelta(days=40), {"hourly": 24, "daily": 30}[window]
    for number in range(1, windows + 5):
        table.used("e", "r", until - number * step, window, rpm=number)
    got = rows("--entity", "e", "--window", window, "--until", "2024-02-10")
    assert [each["consumed"]["rpm"] for each in got] == list(range(windows, 0, -1))


def test_without_until_it_goes_to_now(table: Table) -> None:
    now = datetime.now(UTC)
    table.used("e", "r", now.replace(minute=0, second=0, microsecond=0), rpm=1)
    table.used("e", "r", DAY, rpm=2)
    assert [each["consumed"]["rpm"] for each in rows("--entity", "e", "--since", "2h")] == [1]


def test_more_rows_than_the_limit_are_told_beside_the_result(table: Table) -> None:
    for hour in range(4):
        table.used("e", "r", DAY + timedelta(hours=hour), rpm=hour)
    done = run("list", "--entity", "e", *PAST, "--rows", "3", "-o", "json")
    assert [each["consumed"]["rpm"] for each in opened(done.stdout)] == [0, 1, 2]
    assert done.stderr == "There are more windows: raise --rows.\n"
    assert run("list", "--entity", "e", *PAST, "--rows", "4").stderr == ""


def test_a_summary_has_total_least_most_and_mean_of_each_limit(table: Table) -> None:
    for hour, amount in enumerate((1000, 2000, 4000)):
        table.used("e", "r", DAY + timedelta(hours=hour), events=10, refused=hour, tpm=amount)
    done = run("list", "--total", "--entity", "e", *PAST)
    first, *rest = done.stdout.splitlines()
    assert (
        first
        == "e, hourly, since 2024-01-01 00:00 (UTC): acquires 30 admitted, 3 refused, 0 shadowed; windows with use: 3"
    )
    assert table_of("\n".join(rest)) == [
        ["LIMIT", "TOTAL", "LEAST", "MOST", "MEAN"],
        ["tpm", "7,000", "1,000", "4,000", "2,333.3"],
    ]


def test_a_summary_as_json_says_what_it_is_of(table: Table) -> None:
    table.used("e", "r", DAY, "daily", events=2, refused=5, refused_by={("acme", "tpm"): 4}, shadowed=1, tpm=7)
    done = run("list", "--total", "--resource", "r", "--window", "daily", *PAST, "--until", "2024-02-01", "-o", "json")
    assert opened(done.stdout) == {
        "entity_id": None,
        "resource": "r",
        "window": "daily",
        "start": "2024-01-01T00:00:00.000Z",
        "end": "2024-02-01T00:00:00.000Z",
        "windows": 1,
        "total_events": 2,
        "total_refused": 5,
        "total_shadowed": 1,
        "total_uncounted": 0,
        "total_below": 0,
        "total_refused_below": 0,
        "refused_by": [{"entity_id": "acme", "limit_name": "tpm", "refused": 4}],
        "limits": [{"limit_name": "tpm", "total": 7, "minimum": 7, "maximum": 7, "average": 7.0}],
    }


def test_plot_draws_a_bar_for_each_window_as_wide_as_the_terminal(table: Table) -> None:
    for hour, amount in ((0, 100), (2, 50)):
        table.used("e", "r", DAY + timedelta(hours=hour), tpm=amount)
    plain, plotted = (run("list", "--total", "--entity", "e", *PAST, *more).stdout for more in ((), ("--plot",)))
    assert plotted == plain + (
        f"\ntpm\n  2024-01-01 00:00  100  {'█' * 34}\n  2024-01-01 01:00    0\n  2024-01-01 02:00   50  {'█' * 17}\n"
    )


@BOTH
def test_no_usage_is_said_with_what_was_asked_for(table: Table, command: str) -> None:
    done = run(command, "--entity", "e", "--resource", "r", *PAST, "--until", "2024-01-02T03:00")
    told = "No usage: e on r, hourly, since 2024-01-01 00:00 (UTC) until 2024-01-02 03:00 (UTC).\n"
    assert (done.exit_code, done.stdout, done.stderr) == (0, told, "")


def test_no_usage_is_empty_json_and_no_plot(table: Table) -> None:
    assert rows("--entity", "e") == []
    assert opened(run("list", "--total", "--entity", "e", "-o", "json").stdout)["limits"] == []
    assert run("list", "--total", "--entity", "e", "--plot").stdout.startswith("No usage: ")


@BOTH
@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--entity", "a b"], "--entity 'a b': "),
        (["--resource", "a b"], "--resource 'a b': "),
        (["--entity", "e", "--since", "noon"], "--since 'noon': must be how long ago"),
        (["--entity", "e", "--until", "noon"], "--until 'noon': must be how long ago"),
        (
            ["--entity", "e", *PAST, "--until", "2024-01-01"],
            "--until '2024-01-01': must be after --since, which is 2024-01-01 00:00 (UTC)",
        ),
        (["--entity", "e", "--since", "1969-01-01"], "--since '1969-01-01': must not be before 1970-01-02"),
        (["--entity", "e", "--until", "1970-01-02"], "--until '1970-01-02': must be after --since"),
        (["--entity", "e", "-N", "nowhere"], "there is no namespace 'nowhere'"),
    ],
)
def test_a_wrong_question_is_one_line_with_the_way_out(table: Table, command: str, args: list[str], told: str) -> None:
    assert refused(run(command, *args)).startswith(told)


def test_a_time_within_a_window_is_said_to_be_the_whole_window(table: Table) -> None:
    hour = datetime.now(UTC).replace(minute=0, second=0, microsecond=0)
    done = run("list", "--since", "5m")
    assert done.stderr.startswith("Usage has whole hours: this is since 20")
    assert "`zae-limiter top --for 5m`" in done.stderr
    assert f"{hour:%Y-%m-%d %H}" in done.stderr or datetime.now(UTC).minute < 6
    assert run("list", "--since", "2h").stderr == ""
    assert "whole days" in run("list", "--window", "daily", "--since", "5m").stderr


def test_a_list_without_a_subject_is_of_the_whole_namespace(table: Table) -> None:
    table.used("e", "r", DAY, tpm=1)
    table.used("f", "s", DAY + timedelta(hours=1), tpm=2)
    assert [(each["entity_id"], each["resource"]) for each in rows(*PAST)] == [("e", "r"), ("f", "s")]
    assert run("list", "--until", "2023-12-31").stdout.startswith("No usage: all resources, hourly, since 2023-12-30")
    total = run("list", "--total", "--plot", *PAST).stdout
    assert total.startswith("all resources, hourly, since 2024-01-01 00:00 (UTC): acquires 2 admitted")
    assert ["tpm", "3", "1", "2", "1.5"] in [line.split() for line in total.splitlines()]


def test_a_wrong_question_is_told_before_anything_is_asked(aws: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert refused(run("list", "--since", "noon")).startswith("--since 'noon': must be how long ago")
    assert refused(run("list", "--entity", "a b")).startswith("--entity 'a b': ")


@BOTH
def test_a_table_that_is_not_there_is_one_line(aws: str, command: str) -> None:
    assert refused(run(command, "--entity", "e")).startswith("there is no table 'my-app'")


def test_a_plot_is_not_for_programs(table: Table) -> None:
    assert refused(run("list", "--total", "--entity", "e", "--plot", "-o", "json")).startswith(
        "--plot and --output json"
    )


def test_looking_registers_no_namespace(table: Table) -> None:
    run("list", "--entity", "e", "-N", "nowhere")
    assert [each.name for each in table.repository.list_namespaces()] == ["default"]
