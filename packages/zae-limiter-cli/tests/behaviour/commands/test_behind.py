"""Figures of usage say that the aggregator is behind: in the same words everywhere, for one read."""

import json
import re
import time
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner, Result
from starlette.testclient import TestClient

from support.cli.calls import recorded
from support.cli.tables import Table
from zae_limiter import RateLimitExceeded, SyncRateLimiter, SyncRepository
from zae_limiter.maintenance import Consumption, SnapshotId, Use, count_usage, stream_mark
from zae_limiter.values.usage import Window
from zae_limiter_cli import behind
from zae_limiter_cli.connection import Connection
from zae_limiter_cli.console.access import Access
from zae_limiter_cli.console.app import Console, application
from zae_limiter_cli.console.applies import Applies
from zae_limiter_cli.console.pages import Pages
from zae_limiter_cli.live.health import Health
from zae_limiter_cli.live.reading import Reader
from zae_limiter_cli.main import main

LINE = re.compile(
    r"Warning: counted up to [\d:]{8} UTC, 15 minutes ago: the aggregator is behind \(see `zae-limiter doctor`\)\n"
)
COMMANDS = (
    ("usage", "top", "--by", "admitted"),
    ("usage", "list"),
    ("usage", "list", "--total"),
    ("usage", "list", "--never", "used"),
    ("usage", "list", "--idle", "30d"),
    ("usage", "cost", "--by", "entity"),
    ("usage", "near", "--budgets"),
    ("top", "--once", "--every", "1"),
    ("why", "key", "gpt-4"),
    ("why", "key"),
)
ALL = pytest.mark.parametrize("command", COMMANDS, ids=" ".join)


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(behind, "PAUSES", (0.1, 0.1))


def run(*words: str) -> Result:
    done = CliRunner().invoke(main, [*words, "-n", "my-app"])
    assert done.exit_code == 0, done.output
    return done


def call(table: Table, entity: str = "key") -> None:
    with SyncRateLimiter(table.repository).acquire(entity, "gpt-4", {"rpm": 1}):
        pass


def count(table: Table, minutes_ago: float, calls: int, entity: str = "key") -> None:
    """Count the calls up to then, as the aggregator does: in the hour and the day of the bucket."""
    until = table.repository.namespace_state.now() - round(60_000 * minutes_ago)
    hour = datetime.fromtimestamp(until / 1000, UTC).replace(minute=0, second=0, microsecond=0)
    windows: tuple[tuple[Window, datetime], ...] = ("hourly", hour), ("daily", hour.replace(hour=0))
    for window, start in windows:
        place = SnapshotId(table.repository.namespace_id, entity, "gpt-4", window, start)
        use = Use(stream_mark("label", str(until)), Consumption({"rpm": 1}, {"ev": 1}), until, calls)
        table.repository.driver.run(count_usage(place, 0, [use], expires_at=None, now_ms=until + 1000, spread=True))


@pytest.fixture
def used(table: Table) -> Table:
    table.repository.set_system_defaults(["rpm: 3/day UTC"])
    call(table)
    return table


@ALL
def test_late_figures_say_so(used: Table, command: Sequence[str]) -> None:
    count(used, 15, 1)
    assert "aggregator" not in run(*command).stderr, "nothing waits"
    call(used)
    done = run(*command)
    assert LINE.fullmatch(done.stderr.splitlines(keepends=True)[-1]), done.stderr
    assert "aggregator is behind" not in done.stdout
    found = json.loads(run(*command, "-o", "json").stdout)
    assert found["behind_seconds"] // 60 == 15
    until = datetime.fromisoformat(found["counted_until"])
    assert 15 * 60 <= (datetime.now(UTC) - until).total_seconds() < 16 * 60


def test_refused_calls_alone_wait_as_well(used: Table) -> None:
    for _ in range(2):
        call(used)
    count(used, 15, 3)
    assert run("why", "key", "gpt-4").stderr == ""
    with SyncRateLimiter(SyncRepository.open("default", stack="my-app")) as limiter:  # whose end writes them
        for _ in range(4):
            with pytest.raises(RateLimitExceeded), limiter.acquire("key", "gpt-4", {"rpm": 1}):
                pass
    assert LINE.fullmatch(run("why", "key", "gpt-4").stderr)


def test_usage_that_ends_before_is_whole(used: Table) -> None:
    count(used, 15, 1)
    call(used)
    assert run("usage", "list", "--since", "7d", "--until", "2h").stderr == ""


def test_a_call_after_a_quiet_hour_is_no_delay(used: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where something is counted between two looks, the aggregator is at work."""
    count(used, 60, 1)
    call(used)
    monkeypatch.setattr(behind, "sleep", lambda _: count(used, 0, 2))
    assert run("why", "key", "gpt-4").stderr == ""


def test_it_costs_one_read(used: Table) -> None:
    for number in range(60):
        call(used, f"key-{number}")
        count(used, 0, 1, f"key-{number}")
    with recorded() as calls:
        assert run("usage", "top", "--by", "admitted", "--rows", "50").stderr == ""
    wide = [each for each in calls if len(each.keys) > 33]
    assert [len(each.keys) for each in wide] == [60, 2 * 33], "the usage; then partitions of buckets and of their usage"
    assert calls[-1] is wide[-1]


def test_usage_of_another_day_is_found_by_a_query_of_the_bucket(used: Table) -> None:
    """Where the aggregator has been dead for days, no window of today or yesterday says how far it came."""
    count(used, 3 * 24 * 60, 1)
    call(used)
    assert "3 d ago: the aggregator is behind" in run("why", "key", "gpt-4").stderr


def test_every_page_of_the_console_says_so_once_it_is_sure(used: Table) -> None:
    count(used, 15, 1)
    call(used)
    client = console(used)
    assert "aggregator is behind" not in client.get("/").text, "one look may be that of a quiet table"
    time.sleep(sum(behind.PAUSES))
    line = client.get("/counted").text
    assert LINE.fullmatch(f"Warning: {line}\n")
    for page in ("/", "/usage", "/bucket?entity=key&resource=gpt-4", "/changes"):
        header = client.get(page).text.partition("</header>")[0]
        assert line in header
    with recorded() as calls:
        for _ in range(20):
            client.get("/counted")
    assert calls == [], "a look a minute, however many ask"


def test_who_may_not_come_in_learns_nothing(used: Table) -> None:
    count(used, 15, 1)
    call(used)
    client = console(used)
    for _ in range(2):
        client.get("/")
        time.sleep(sum(behind.PAUSES))
    stranger = client.get("/counted", headers={"x-user": ""})
    assert stranger.status_code == 403
    assert "counted up to" not in stranger.text


def console(table: Table) -> TestClient:
    """A browser behind a proxy that says who it is."""
    connection = Connection("my-app")
    pages = Pages(table.repository, Reader(table.repository, None, 50), Health(connection), every=1.0, options=[])
    access = Access("x-user")
    app = application(Console(pages, Applies(connection, "default"), access, "default", False, 1.0), ["testserver"])
    return TestClient(app, headers={"x-user": "ann"})
