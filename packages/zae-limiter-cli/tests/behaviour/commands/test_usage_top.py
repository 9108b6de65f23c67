from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner, Result

from support.cli.by_hand import opened
from support.cli.tables import Table
from zae_limiter import Limit, SyncRateLimiter
from zae_limiter_cli.main import main

DAY = datetime(2024, 1, 1, tzinfo=UTC)
PAST = ("--resource", "gpt-4", "--since", "2024-01-01")


def run(*args: str) -> Result:
    return CliRunner(env={"COLUMNS": "60"}).invoke(main, ["usage", "-n", "my-app", "top", *args])


def table_of(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


@pytest.fixture
def used(table: Table) -> Table:
    for hour in range(2):
        start = DAY + timedelta(hours=hour)
        table.used("key-1", "gpt-4", start, events=3, refused=700, tpm=500)
        table.used("key-2", "gpt-4", start, events=1, shadowed=2, tpm=12_000, rpm=1)
        table.used("key-3", "gpt-4", start, events=8, refused=9)
        table.used("key-3", "gpt-4o", start, events=8, refused=9_999)
    return table


def first_of(*args: str) -> list[str]:
    done = run(*PAST, *args, "-o", "json")
    assert done.exit_code == 0, done.output
    return [each["entity_id"] for each in opened(done.stdout)["entities"]]


def test_each_entity_is_a_row_and_who_was_refused_most_is_first(used: Table) -> None:
    done = run(*PAST)
    assert (done.exit_code, done.stderr) == (0, "")
    assert table_of(done.stdout) == [
        ["ENTITY", "RESOURCE", "ADMITTED", "REFUSED", "SHADOWED", "tpm"],
        ["key-1", "gpt-4", "6", "1,400", "0", "1,000"],
        ["key-3", "gpt-4", "16", "18", "0", "-"],
    ]


def test_without_a_resource_it_is_of_the_namespace(used: Table) -> None:
    used.used("key-9", "gpt-4", DAY, events=0, refused=60, refused_by={("acme", "rpm"): 56})
    done = run("--since", "2024-01-01", "--rows", "3")
    assert (done.exit_code, done.stderr) == (0, "")
    assert table_of(done.stdout) == [
        ["ENTITY", "RESOURCE", "ADMITTED", "REFUSED", "SHADOWED", "BY", "acme/rpm", "tpm"],
        ["key-3", "gpt-4o", "16", "19,998", "0", "-", "-"],
        ["key-1", "gpt-4", "6", "1,400", "0", "-", "1,000"],
        ["key-9", "gpt-4", "0", "60", "0", "56", "-"],
    ]
    found = opened(run("--since", "2024-01-01", "-o", "json").stdout)
    assert (found["resource"], found["entities"][2]["resource"]) == (None, "gpt-4")
    assert found["entities"][2]["refused_by"] == [{"entity_id": "acme", "limit_name": "rpm", "refused": 56}]
    assert run("--since", "2024-01-01", "--window", "daily").stdout.startswith("No usage by refused: all resources, ")


def test_an_order_that_no_resource_knows_is_refused(used: Table) -> None:
    used.repository.set_resource_defaults("gpt-4o", [Limit.per_day("tpd", 9)])
    done = run("--since", "2024-01-01", "--by", "other")
    problem = "neither a count, nor a limit that a resource has by default or that anybody used"
    told = "it is one of refused, shadowed, uncounted, admitted, rpm, tpd, tpm"
    assert (done.exit_code, done.stderr) == (1, f"Error: --by 'other': {problem}: {told}\n")
    assert run("--since", "2024-01-01", "--by", "tpd").stdout.startswith("No usage by tpd: all resources, ")


@pytest.mark.long(keep=2)
@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["--by", "refused", "--rows", "1"], ["key-1"]),
        (["--by", "shadowed"], ["key-2"]),
        (["--by", "admitted"], ["key-3", "key-1", "key-2"]),
        (["--by", "total_refused"], ["key-1", "key-3"]),
        (["--by", "total_shadowed"], ["key-2"]),
        (["--by", "total_events"], ["key-3", "key-1", "key-2"]),
        (["--by", "tpm"], ["key-2", "key-1"]),
        (["--window", "daily"], []),
        (["--until", "2024-01-01T01:00"], ["key-1", "key-3"]),
    ],
    ids=str,
)
def test_it_is_by_what_was_asked_for(used: Table, args: list[str], expected: list[str]) -> None:
    assert first_of(*args) == expected


def test_json_says_what_it_is_the_top_of(used: Table) -> None:
    done = run(*PAST, "--by", "tpm", "--rows", "1", "-o", "json")
    assert opened(done.stdout) == {
        "resource": "gpt-4",
        "window": "hourly",
        "start": "2024-01-01T00:00:00.000Z",
        "end": None,
        "by": "tpm",
        "entities": [
            {
                "entity_id": "key-2",
                "resource": "gpt-4",
                "consumed": {"rpm": 2, "tpm": 24_000},
                "total_events": 2,
                "total_refused": 0,
                "total_shadowed": 4,
                "total_uncounted": 0,
                "total_below": 0,
                "total_refused_below": 0,
                "refused_by": [],
            }
        ],
    }


def test_nobody_is_said_with_what_was_asked_for(used: Table) -> None:
    done = run(*PAST, "--by", "shadowed", "--window", "daily")
    assert (done.exit_code, done.stdout) == (0, "No usage by shadowed: gpt-4, daily, since 2024-01-01 00:00 (UTC).\n")


@pytest.mark.long(keep=2)
@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--by", "refusd"], "did you mean `refused`?"),
        (["--by", "tmp"], "did you mean `tpm`?"),
        (["--by", "other"], "it is one of refused, shadowed, uncounted, admitted, rpm, tpd, tpm"),
        (["--by", "admitte", "--window", "daily"], "did you mean `admitted`?"),
    ],
    ids=str,
)
@pytest.mark.parametrize("form", ["table", "json"])
def test_a_mistyped_order_is_refused(used: Table, args: list[str], told: str, form: str) -> None:
    used.repository.set_system_defaults([Limit.per_day("tpd", 9)])
    done = run(*PAST, *args, "-o", form)
    assert (done.exit_code, done.stdout) == (1, "")
    problem = "neither a count, nor a limit that gpt-4 has by default or that anybody used"
    assert done.stderr == f"Error: --by '{args[1]}': {problem}: {told}\n"


def test_a_limit_that_is_set_and_that_nobody_has_used_is_no_mistake(table: Table) -> None:
    table.repository.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 9)])
    table.repository.set_system_defaults([Limit.per_day("tpd", 9)])
    for limit in ("rpm", "tpd"):
        assert run(*PAST, "--by", limit).stdout.startswith(f"No usage by {limit}: gpt-4, ")


def test_where_no_limit_is_known_any_name_may_be_one_but_not_a_mistyped_count(table: Table) -> None:
    assert run(*PAST, "--by", "rpm").stdout.startswith("No usage by rpm: gpt-4, ")
    done = run(*PAST, "--by", "shadow")
    assert (done.exit_code, "did you mean `shadowed`?" in done.stderr) == (1, True)


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["--resource", "a b"], "--resource 'a b': "),
        ([*PAST, "--by", "a b"], "--by 'a b': "),
        ([*PAST, "--by", "wcu"], "--by 'wcu': is reserved"),
        ([*PAST, "--rows", "1001"], "Invalid value for '--rows': 1001 is not in the range 1<=x<=1000."),
        ([*PAST, "--since", "noon"], None),
    ],
    ids=str,
)
def test_a_wrong_question_is_one_line_with_the_way_out(table: Table, args: list[str], told: Any) -> None:
    done = run(*args)
    assert (done.exit_code, done.stdout) == (1, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"Error: {told or '--since'}")


@pytest.fixture
def of_tiers(used: Table) -> Table:
    repository = used.repository
    repository.set_tier_limits("gold", [Limit.per_minute("tpm", 9)])
    repository.set_tier_limits("empty", [Limit.per_minute("tpm", 9)])
    repository.create_entity("acme")
    repository.create_entity("team", parent_id="acme")
    repository.create_entity("key-1", parent_id="team", cascade=True)
    repository.create_entity("key-3", parent_id="acme", tier="gold")
    return used


def test_only_entities_of_a_tier_or_below_another_are_asked_for(of_tiers: Table) -> None:
    assert first_of("--tier", "gold") == ["key-3"]
    assert first_of("--below", "acme") == ["key-1", "key-3"]
    assert first_of("--below", "team") == ["key-1"]
    assert first_of("--below", "acme", "--tier", "gold") == ["key-3"]
    assert first_of("--below", "acme", "--by", "tpm") == ["key-1"]
    whole = [each for each in opened(run(*PAST, "-o", "json").stdout)["entities"] if each["entity_id"] == "key-1"]
    assert opened(run(*PAST, "--below", "team", "-o", "json").stdout)["entities"] == whole
    assert run(*PAST, "--tier", "empty").stdout.startswith("No usage by refused of tier empty: ")


def test_windows_and_close_limits_are_of_a_tier_or_below_an_entity_too(of_tiers: Table) -> None:
    def listed(*args: str) -> list[dict[str, Any]]:
        done = CliRunner().invoke(main, ["usage", "-n", "my-app", *args, "-o", "json"])
        assert done.exit_code == 0, done.output
        return list(opened(done.stdout))

    windows = listed("list", *PAST, "--below", "team")
    assert [each["entity_id"] for each in windows] == ["key-1", "key-1"]
    of_tiers.repository.set_system_defaults([Limit.total("credits", 2)])
    with SyncRateLimiter(of_tiers.repository) as limiter:
        for each in ("key-1", "key-2", "key-3"):
            with limiter.acquire(each, "gpt-4o", {"credits": 2}):
                pass
    assert [each["entity_id"] for each in listed("near", "--below", "team", "--every", "0")] == ["key-1"]
    assert [each["entity_id"] for each in listed("near", "--below", "team", "--budgets")] == ["key-1"]


@pytest.mark.parametrize(
    ("args", "problem"),
    [
        (("top", "--tier", "nope"), "Error: --tier 'nope': there is no tier of this name"),
        (("top", "--below", "nope"), "Error: there is no entity 'nope'"),
        (("list", "--tier", "gold", "--total"), "Error: --tier and --total exclude each other"),
        (("near", "--below", "acme", "-e", "key-1"), "Error: --below and --entity exclude each other"),
    ],
)
def test_entities_that_cannot_be_chosen_are_one_line(of_tiers: Table, args: tuple[str, ...], problem: str) -> None:
    done = CliRunner().invoke(main, ["usage", "-n", "my-app", *args])
    assert done.exit_code == 1
    assert problem in done.stderr
    assert len(done.stderr.splitlines()) == 1


def test_a_pattern_chooses_the_resources(used: Table) -> None:
    used.used("key-9", "claude", DAY, refused=5_000)
    since = ("--since", "2024-01-01")
    rows = table_of(run("--resource", "gpt-*", *since).stdout)
    assert [row[:2] for row in rows[1:]] == [["key-3", "gpt-4o"], ["key-1", "gpt-4"], ["key-3", "gpt-4"]]
    listed = CliRunner().invoke(main, ["usage", "-n", "my-app", "list", "-r", "cl*", *since]).stdout
    assert [row[2:4] for row in table_of(listed)[1:]] == [["key-9", "claude"]]
    used.repository.set_resource_defaults("gpt-*", [Limit.per_day("tpd", 9)])
    assert run("--resource", "gpt-4*", *since, "--by", "tpd").stderr.startswith("Error: --by 'tpd'")
    assert run("--resource", "gpt-*", *since, "--by", "tpd").stdout.startswith("No usage by tpd: gpt-*, ")
    total = CliRunner().invoke(main, ["usage", "-n", "my-app", "list", "-r", "cl*", "--total"])
    assert "pass no pattern" in total.stderr


def test_a_level_of_the_tree_is_summed_up_and_each_call_counts_once(used: Table) -> None:
    tree = {"org": None, "team-a": "org", "team-b": "org", "key-1": "team-a", "key-2": "team-a", "key-3": "team-b"}
    for entity, parent in tree.items():
        used.repository.create_entity(entity, parent_id=parent, cascade=parent is not None)
    by = {("org", "rpm"): 709}
    used.used("org", "gpt-4", DAY, events=13, refused=710, refused_below=709, below=12, refused_by=by, tpm=12_501)
    used.used("org", "gpt-4o", DAY, events=8, refused=9_999, refused_below=9_999, below=8)
    rows = table_of(run(*PAST, "--depth", "1").stdout)
    assert [row[:5] for row in rows[1:]] == [
        ["team-a", "gpt-4", "8", "1,400", "4"],
        ["team-b", "gpt-4", "16", "18", "0"],
        ["org", "gpt-4", "1", "1", "0"],
    ]
    assert first_of("--depth", "0") == ["org"]
    assert first_of("--depth", "2") == ["key-1", "key-3", "org"]
    assert first_of("--depth", "2", "--below", "team-b") == ["key-3"]
