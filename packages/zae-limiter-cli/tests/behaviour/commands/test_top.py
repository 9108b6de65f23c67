"""`zae-limiter top`: printed once, and on a screen that a pilot types at."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from textual.events import Paste
from textual.pilot import Pilot
from textual.widgets import DataTable, Input, Static

from support.cli.by_hand import opened
from support.cli.tables import Table
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter.maintenance import SyncMaintenance
from zae_limiter_cli.connection import Connection
from zae_limiter_cli.live import running
from zae_limiter_cli.live.health import Health
from zae_limiter_cli.live.reading import Reader
from zae_limiter_cli.live.rows import Place
from zae_limiter_cli.live.running import command_of
from zae_limiter_cli.live.screen import Ask, ChangingScreen, Look, Output, TopScreen
from zae_limiter_cli.main import main


def run(*args: str) -> Result:
    return CliRunner(env={"COLUMNS": "60"}).invoke(main, ["top", "-n", "my-app", "--every", "1", *args])


@pytest.fixture
def used(table: Table) -> Table:
    """An hour has just begun, and all calls were in the one before."""
    before = datetime.now(UTC).replace(minute=0, second=0, microsecond=0) - timedelta(hours=1)
    table.used("key-1", "gpt-4", before, events=3, refused=82, refused_by={("acme", "rpm"): 56})
    table.used("key-2", "gpt-4o", before, events=9, refused=0)
    return table


def test_it_prints_who_is_refused_and_by_whom(used: Table) -> None:
    done = run("--once")
    assert (done.exit_code, done.stderr) == (0, "")
    assert [line.split() for line in done.stdout.splitlines()] == [
        ["ENTITY", "RESOURCE", "LIMIT", "LEFT", "USED/MIN", "REFUSED", "REFUSED/MIN", "BLOCKED", "BY"],
        ["key-1", "gpt-4", "-", "########", "-", "-", "82", "-", "acme/rpm"],
        ["key-2", "gpt-4o", "-", "########", "-", "-", "0", "-", "-"],
    ]


def test_a_limit_in_shadow_does_not_stand_as_the_one_that_binds(table: Table) -> None:
    shadow, total = Limit.total("rpm", 2, shadow=True), Limit.total("tpm", 100)
    table.repository.set_resource_defaults("gpt-4", [shadow, total])
    table.repository.set_resource_defaults("alone", [shadow])
    with SyncRateLimiter(table.repository) as limiter:
        for resource, asked in (("gpt-4", {"rpm": 2, "tpm": 1}), ("alone", {"rpm": 2})):
            with limiter.acquire("key-1", resource, asked):
                pass
    lines = [line.split() for line in run("--once").stdout.splitlines()[1:]]
    assert [line[:4] for line in lines] == [
        ["key-1", "alone", "rpm", "(shadow)"],
        ["key-1", "gpt-4", "tpm", "########"],
    ]
    found = opened(run("-o", "json").stdout)["buckets"]
    assert [(each["limit"], each.get("shadow")) for each in found] == [("rpm", True), ("tpm", None)]


def test_without_a_terminal_it_ends_and_json_has_every_field(used: Table) -> None:
    assert run().stdout == run("--once").stdout
    [row] = opened(run("-r", "gpt-4", "-o", "json").stdout)["buckets"]
    assert row == {
        "entity_id": "key-1",
        "parent_ids": [],
        "resource": "gpt-4",
        "limit": None,
        "available": None,
        "burst": None,
        "used_per_minute": None,
        "refused": 82,
        "refused_per_minute": None,
        "blocked_by": "acme/rpm",
    }


def test_an_empty_namespace_says_so(table: Table) -> None:
    assert run().stdout == "There is no bucket in namespace default, and no usage in this hour or the one before.\n"
    assert run("-r", "gpt-4").stdout.startswith("There is no bucket on gpt-4 in namespace default, ")


@pytest.mark.parametrize("args", [("--by", "size"), ("--every", "0"), ("--rows", "0")])
def test_bad_options_are_one_error(table: Table, args: tuple[str, ...]) -> None:
    done = run(*args)
    assert (done.exit_code, args[0] in done.stderr) == (1, True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "limits.db"
    with SyncRepository.sqlite(path) as repository:
        limiter = SyncRateLimiter(repository)
        repository.create_entity("acme")
        repository.create_entity("key-[b]1", parent_id="acme", cascade=True)
        repository.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 60)])
        repository.set_limits("acme", [Limit.per_minute("rpm", 2)], "gpt-4")
        for _ in range(2):
            with limiter.acquire("key-[b]1", "gpt-4", {"rpm": 1}):
                pass
        with pytest.raises(RateLimitExceeded), limiter.acquire("key-[b]1", "gpt-4", {"rpm": 1}):
            pass
    return path


def test_it_counts_what_happens_in_a_time_from_now_on(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    waited = list[float]()

    def happen(seconds: float) -> None:
        """Two calls are admitted meanwhile, one is refused."""
        waited.append(seconds)
        with SyncRepository.sqlite(file) as repository:
            limiter = SyncRateLimiter(repository)
            for _ in range(2):
                with limiter.acquire("alone", "gpt-4", {"rpm": 5}):
                    pass
            with pytest.raises(RateLimitExceeded), limiter.acquire("alone", "gpt-4", {"rpm": 60}):
                pass
            with limiter.acquire("alone", "gpt-4", {"rpm": 1}):  # its write counts the refusal
                pass

    with SyncRepository.sqlite(file) as repository, SyncRateLimiter(repository).acquire("alone", "gpt-4", {"rpm": 1}):
        pass
    monkeypatch.setattr(import_module("zae_limiter_cli.commands.top"), "sleep", happen)
    command = ["top", "--store", f"sqlite:///{file}", "--for", "5m"]
    done = CliRunner().invoke(main, command)
    assert waited == [300]
    assert "this counts from now until 20" in done.stderr
    head, *rows = [re.split(r"  +", line) for line in done.stdout.splitlines()]
    assert head[4:7] == ["USED IN 5 MIN", "REFUSED", "REFUSED IN 5 MIN"]
    (alone,) = [row for row in rows if row[0] == "alone"]
    assert (alone[4], alone[6]) == ("11", "1")
    told = json.loads(CliRunner().invoke(main, [*command, "-o", "json"]).stdout)
    (row,) = [each for each in told["buckets"] if each["entity_id"] == "alone"]
    assert round(row["refused_per_minute"] * told["seconds"] / 60) == 1


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--for", "2h"), "--for '2h': must be at most 1h"),
        (("--for", "5"), "--for '5': must be how long from now"),
        (("--for", "5m", "--every", "1"), "--for and --every are both the time between two looks"),
    ],
)
def test_a_time_that_it_cannot_count_is_one_error(file: Path, words: tuple[str, ...], problem: str) -> None:
    done = CliRunner().invoke(main, ["top", "--store", f"sqlite:///{file}", *words])
    assert (done.exit_code, problem in done.stderr) == (1, True)


def top_of(path: Path, repository: SyncRepository, kind: type[TopScreen] = TopScreen) -> TopScreen:
    options = ["--store", f"sqlite:///{path}"]
    reader, health = Reader(repository, None, 50), Health(Connection.of_store(options[1], source="--store"))
    return kind(reader, health, Look(order="full"), title="default", every=1.0, options=options)


def texts(top: TopScreen) -> list[list[str]]:
    """The entity and the other cells of each row."""
    table = top.screen_stack[0].query_one("#rows", DataTable)
    heads = [str(column.label) for column in table.columns.values()]
    lines = [str(table.get_row_at(row)[0]) for row in range(table.row_count)]
    at = heads[0].index("RESOURCE") if heads else 0
    return [[line[:at].rstrip(), *line[at:].split()] for line in lines]


async def until(pilot: Any, holds: Any) -> None:
    async with asyncio.timeout(60):  # a busy machine is slow
        while not holds():
            await pilot.pause(0.05)


async def test_a_screen_follows_the_namespace_and_its_keys_run_commands(file: Path) -> None:
    with SyncRepository.sqlite(file) as repository:
        top = top_of(file, repository)
        async with top.run_test(size=(120, 30)) as pilot:
            await until(pilot, lambda: len(texts(top)) == 2)
            assert [row[0] for row in texts(top)] == ["acme", "└─ key-[b]1"]
            await pilot.press("down", "w")
            await until(pilot, lambda: "refused by acme/rpm" in _output(top))
            assert "zae-limiter why -r gpt-4 --store" in str(top.screen.query_one("#command", Static).render())
            await pilot.press("escape", "slash", *"acm", "enter")
            await until(pilot, lambda: [row[0] for row in texts(top)] == ["acme"])
            await pilot.press("escape")
            await until(pilot, lambda: len(texts(top)) == 2)
            await pilot.press("s", "s")
            await until(pilot, lambda: "by entity" in str(top.query_one("#state", Static).render()))


def _output(top: TopScreen) -> str:
    return str(top.screen.query_one("#output", Static).render()) if isinstance(top.screen, Output) else ""


@asynccontextmanager
async def asking(top: TopScreen) -> AsyncIterator[Pilot[Any]]:
    """The screen once it asks for the word of a lift."""
    async with top.run_test(size=(100, 30)) as pilot:
        await until(pilot, lambda: len(texts(top)) == 2)
        await pilot.press("l")
        await until(pilot, lambda: isinstance(top.screen, Ask))
        yield pilot


@pytest.mark.long(keep=1)
@pytest.mark.parametrize(
    ("keys", "lifted"),
    [(["escape"], False), (["enter", "y", "enter", "escape"], False), ([*"lift", "enter"], True)],
)
async def test_a_change_asks_for_a_word(file: Path, keys: list[str], *, lifted: bool) -> None:
    with SyncRepository.sqlite(file) as repository:
        top = top_of(file, repository, ChangingScreen)
        async with asking(top) as pilot:
            await pilot.press(*keys)
            await until(pilot, lambda: "other limits until" in _output(top) if lifted else len(top.screen_stack) == 1)
            assert len(texts(top)) == 2, "the word is not a filter"
        override = repository.get_override("acme", "gpt-4")
        assert (override is not None) is lifted


async def test_a_pasted_word_changes_nothing(file: Path) -> None:
    with SyncRepository.sqlite(file) as repository:
        top = top_of(file, repository, ChangingScreen)
        async with asking(top) as pilot:
            top.post_message(Paste("lift\n"))
            top.screen.query_one("#word", Input).post_message(Paste("lift"))
            await pilot.pause()
            await pilot.press("enter")
            await pilot.pause()
            assert isinstance(top.screen, Ask)
        assert repository.get_override("acme", "gpt-4") is None


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("key", ["l", "b"])
async def test_without_allow_changes_a_key_only_says_so(file: Path, key: str) -> None:
    with SyncRepository.sqlite(file) as repository:
        top = top_of(file, repository)
        async with top.run_test(size=(100, 30), notifications=True) as pilot:
            await until(pilot, lambda: len(texts(top)) == 2)
            await pilot.press(key, *"lift", "enter", "escape")
            await until(pilot, lambda: any("--allow-changes" in each.message for each in top._notifications))
        assert repository.get_override("acme", "gpt-4") is None


def test_children_are_below_their_parents_when_it_is_printed(file: Path) -> None:
    def entities(*args: str) -> list[str]:
        words = ["top", "--store", f"sqlite:///{file}", "--by", "entity", "--every", "1", *args]
        done = CliRunner(env={"COLUMNS": "60"}).invoke(main, words)
        assert (done.exit_code, done.stderr) == (0, "")
        return [line.split("gpt-4")[0].rstrip() for line in done.stdout.splitlines() if "gpt-4" in line]

    with SyncRepository.sqlite(file) as repository:
        repository.create_entity("zeta")
        repository.create_entity("both", parent_ids=["zeta", "acme"])
        for entity_id in ("both", "zeta"):
            with SyncRateLimiter(repository).acquire(entity_id, "gpt-4", {"rpm": 1}):
                pass
    assert entities() == ["acme", "├─ both", "└─ key-[b]1", "zeta", "└─ both"]
    assert entities("--flat") == ["acme", "both", "key-[b]1", "zeta"]


def test_in_json_a_row_has_its_parents(file: Path) -> None:
    words = ["top", "--store", f"sqlite:///{file}", "--every", "1", "-o", "json"]
    rows = opened(CliRunner().invoke(main, words).stdout)["buckets"]
    assert {row["entity_id"]: row["parent_ids"] for row in rows} == {"acme": [], "key-[b]1": ["acme"]}


async def test_a_key_shows_the_tree_or_the_order_alone_and_the_cursor_stays(file: Path) -> None:
    with SyncRepository.sqlite(file) as repository:
        repository.create_entity("zeta", parent_id="acme")
        with SyncRateLimiter(repository).acquire("zeta", "gpt-4", {"rpm": 1}):
            pass
        top = top_of(file, repository)
        async with top.run_test(size=(60, 20)) as pilot:
            await until(pilot, lambda: len(texts(top)) == 3)
            assert [row[0] for row in texts(top)] == ["acme", "├─ key-[b]1", "└─ zeta"]
            await pilot.press("down", "down", "t")
            await until(pilot, lambda: [row[0] for row in texts(top)] == ["acme", "key-[b]1", "zeta"])
            await pilot.press("t", "slash", *"zet", "enter")  # without its parent it stands at the top
            await until(pilot, lambda: [row[0] for row in texts(top)] == ["zeta"])


async def test_an_answer_that_comes_while_the_screen_is_taken_down_is_dropped(file: Path) -> None:
    with SyncRepository.sqlite(file) as repository:
        top = top_of(file, repository)
        async with top.run_test(size=(60, 20)) as pilot:
            await until(pilot, lambda: len(texts(top)) > 0)
            await top.query("*").remove()
            top._show()
            top._tell("late")


async def test_a_row_below_two_parents_keeps_the_cursor_below_the_second(file: Path) -> None:
    with SyncRepository.sqlite(file) as repository:
        repository.create_entity("beta")
        repository.create_entity("both", parent_ids=["acme", "beta"])
        with SyncRateLimiter(repository).acquire("beta", "gpt-4", {"rpm": 60}):
            pass
        with SyncRateLimiter(repository).acquire("both", "gpt-4", {"rpm": 1}):
            pass
        top = top_of(file, repository)
        async with top.run_test(size=(60, 20)) as pilot:
            await until(pilot, lambda: [row[0].split(" ")[-1] for row in texts(top)].count("both") == 2)
            at = max(place for place, row in enumerate(texts(top)) if row[0].endswith("both"))
            await pilot.press(*["down"] * at, "p", "p")  # each shows all rows again
            assert top.query_one("#rows", DataTable).cursor_row == at
            assert "4 buckets" in str(top.query_one("#state", Static).render())


def test_who_is_whose_parent_is_read_twice_a_minute(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SyncRepository.sqlite(file) as repository:
        reader, asked = Reader(repository, None, 50), list[list[str]]()
        read = SyncMaintenance(repository).get_entity_records

        def counted(_: object, ids: Sequence[str], **options: Any) -> Any:
            asked.append([*ids])
            return read(ids, **options)

        monkeypatch.setattr(SyncMaintenance, "get_entity_records", counted)
        readings = [reader.read() for _ in range(3)]
    assert asked == [["acme", "key-[b]1"]]
    assert [reading.parents["key-[b]1"] for reading in readings] == [("acme",)] * 3


async def test_an_outage_leaves_the_rows_and_says_so(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with SyncRepository.sqlite(file) as repository:
        top = top_of(file, repository)
        async with top.run_test(size=(60, 20)) as pilot:
            await until(pilot, lambda: len(texts(top)) == 2)
            file.unlink()  # noqa: ASYNC240 - nothing else runs
            await until(pilot, lambda: "deleted or replaced" in str(top.query_one("#health", Static).render()))
            assert len(texts(top)) == 2


def test_a_command_that_does_not_end_is_given_up() -> None:
    assert running.run(["--version"], 80, seconds=0) == "no answer within 0 s"


@pytest.fixture
def quota(tmp_path: Path) -> Path:
    """A daily quota that is used up."""
    path = tmp_path / "quota.db"
    with SyncRepository.sqlite(path) as repository:
        repository.set_limits("--key", [Limit.custom("rpd", 10, kind="calendar", window="day")], "gpt-4")
        with SyncRateLimiter(repository).acquire("--key", "gpt-4", {"rpd": 10}):
            pass
    return path


async def test_a_lift_of_a_used_up_quota_lets_in_at_once(quota: Path) -> None:
    with SyncRepository.sqlite(quota) as repository:
        top = top_of(quota, repository, ChangingScreen)
        async with top.run_test(size=(120, 30)) as pilot:
            await until(pilot, lambda: len(texts(top)) == 1)
            await pilot.press("l")
            await until(pilot, lambda: isinstance(top.screen, Ask))
            await pilot.press(*"lift", "enter")
            await until(pilot, lambda: "rpd: 0 left -> 10." in _output(top))
        assert SyncRateLimiter(repository).available("--key", "gpt-4") == {"rpd": 10}


@pytest.mark.parametrize("other", [["--by", "0.5"], ["-l", "rpd:5"], ["-l", "rpd: 20/day"]])
def test_a_lift_that_leaves_nothing_more_says_nothing(quota: Path, other: list[str]) -> None:
    words = ["-r", "gpt-4", "--store", f"sqlite:///{quota}", "--", "--key"]
    done = CliRunner().invoke(main, ["lift", *other, *words])
    assert (done.exit_code, done.stderr) == (0, "")


@pytest.mark.parametrize("more", [["--by", "3"], ["-l", "rpd:30"]])
def test_a_lift_says_what_is_left_of_a_quota(quota: Path, more: list[str]) -> None:
    words = ["lift", "-r", "gpt-4", *more, "--store", f"sqlite:///{quota}", "-o", "json", "--", "--key"]
    done = CliRunner().invoke(main, words)
    assert json.loads(done.stdout)["left"] == {"rpd": {"before": 0, "now": 20}}
    with SyncRepository.sqlite(quota) as repository, SyncRateLimiter(repository) as limiter:
        with limiter.acquire("--key", "gpt-4", {"rpd": 20}):
            pass
        repository.delete_override("--key", "gpt-4")
        assert limiter.available("--key", "gpt-4") == {"rpd": 0}


@pytest.mark.parametrize("what", ["why", "lift", "disable", "usage", "changes"])
def test_an_entity_that_looks_like_an_option_is_an_entity(file: Path, what: str) -> None:
    with SyncRepository.sqlite(file) as repository:
        repository.set_limits("--yes", [Limit.per_minute("rpm", 1)], "gpt-4")
    words = command_of(what, Place("--yes", "gpt-4"), ["--store", f"sqlite:///{file}"])
    done = CliRunner().invoke(main, words)
    said = {"usage": "No usage", "changes": "limits_set"}.get(what, "--yes")
    assert (done.exit_code, said in done.output) == (0, True)
