"""A file that somebody deletes, replaces or upgrades while programs use it."""

import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from zae_limiter import Limit, SyncRateLimiter, SyncRepository
from zae_limiter.engines.sqlite import file
from zae_limiter.engines.sqlite.aio import SQLiteStore
from zae_limiter.engines.sqlite.connection import VERSION
from zae_limiter.engines.sqlite.file import LOOK_SECONDS
from zae_limiter.engines.sqlite.sync import SyncSQLiteStore
from zae_limiter.operations.errors import NotApplied, Unreachable
from zae_limiter.operations.values import Get, Key, Update

KEY = Key("ns/A", "#META")
ADD = Update(KEY, add={"n": 1})
CAPACITY = 10

# Acquires once for each line of its input, and prints the outcome.
PROGRAM = f"""
import sys
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository, ZAELimiterError
repository = SyncRepository.sqlite(sys.argv[1])
limiter = SyncRateLimiter(repository, default_limits=[Limit.per_day("rpd", {CAPACITY})])
for line in sys.stdin:
    try:
        with limiter.acquire("ann", "answers", {{"rpd": 1}}, on_unavailable=line.strip()):
            print("admitted", flush=True)
    except RateLimitExceeded:
        print("refused", flush=True)
    except ZAELimiterError as error:
        print(type(error).__name__, error, flush=True)
"""


class Program:
    """A process that acquires when it is asked to."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-c", PROGRAM, str(path)]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def acquire(self, *, on_unavailable: str = "block") -> str:
        """Return the outcome of an acquire."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{on_unavailable}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()


@contextmanager
def program(path: Path) -> Iterator[Program]:
    started = Program(path)
    try:
        yield started
    finally:
        started.process.communicate(timeout=30)


def delete(path: Path) -> None:
    path.unlink()


def delete_all(path: Path) -> None:
    for each in path.parent.glob("limits.db*"):
        each.unlink()


def replace(path: Path) -> None:
    copy = path.with_name("copy.db")
    with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
        source.backup(target)
    copy.replace(path)


def upgrade(path: Path) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as newer:
        newer.execute("BEGIN IMMEDIATE")
        newer.execute("ALTER TABLE items ADD COLUMN colour TEXT")
        newer.execute(f"PRAGMA user_version = {VERSION + 1}")
        newer.execute("COMMIT")


def items(path: Path) -> list[str]:
    with closing(sqlite3.connect(path)) as other:
        return [text for (text,) in other.execute("SELECT item FROM items")]


@pytest.mark.parametrize("lose", [delete, delete_all, replace])
def test_a_lost_file_is_an_outage(store: SyncSQLiteStore, path: Path, lose: Callable[[Path], None]) -> None:
    store.perform(ADD)
    lose(path)
    there = path.exists()
    time.sleep(LOOK_SECONDS)
    for _ in range(2):
        with pytest.raises(Unreachable, match=r"limits\.db: .* deleted or replaced: start all programs that use it"):
            store.perform(ADD)
    assert path.exists() == there  # it makes no empty file
    assert not there or '"n":1' in items(path)[0]


@pytest.mark.parametrize("lose", [delete, delete_all, replace])
async def test_a_lost_file_is_an_outage_on_an_event_loop(path: Path, lose: Callable[[Path], None]) -> None:
    store = SQLiteStore(path)
    await store.perform(ADD)
    lose(path)
    time.sleep(LOOK_SECONDS)  # noqa: ASYNC251 - nothing else runs
    with pytest.raises(Unreachable, match="deleted or replaced"):
        await store.perform(ADD)
    await store.close()


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("gone", [["-wal"], ["-shm"], ["-wal", "-shm"]], ids="".join)
def test_a_lost_log_is_an_outage_and_admits_nothing_twice(path: Path, gone: list[str]) -> None:
    with program(path) as first:
        outcomes = [first.acquire() for _ in range(3)]
        for suffix in gone:
            path.with_name(path.name + suffix).unlink()
        time.sleep(LOOK_SECONDS)
        told = first.acquire()
        assert told.startswith("RateLimiterUnavailable")
        assert "its log (limits.db-wal, limits.db-shm) was deleted or replaced while programs used it" in told
        with program(path) as second:
            outcomes += [second.acquire() for _ in range(CAPACITY)]
        assert first.acquire().startswith("RateLimiterUnavailable")  # until it is started again
    assert outcomes.count("admitted") == CAPACITY


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("log_had_all", [True, False])
def test_an_emptied_file_is_an_outage_and_not_two_limits(path: Path, log_had_all: bool) -> None:  # noqa: FBT001
    with program(path) as first:
        before = [first.acquire() for _ in range(3)].count("admitted")
        if not log_had_all:
            with closing(sqlite3.connect(path)) as other:
                other.execute("PRAGMA wal_checkpoint")
        os.truncate(path, 0)
        time.sleep(LOOK_SECONDS)
        assert first.acquire().startswith("RateLimiterUnavailable")
        with program(path) as second:
            outcomes = [each.acquire() for _ in range(CAPACITY) for each in (first, second)]
    assert outcomes.count("admitted") == CAPACITY - (before if log_had_all else 0)  # else it is a new file


@pytest.mark.skipif(sys.version_info < (3, 12), reason="this Python does not show it")  # it decides by locks
def test_an_idle_program_spoils_no_log_that_others_began_anew(path: Path) -> None:
    with program(path) as idle, program(path) as other:
        assert [idle.acquire(), other.acquire()] == ["admitted", "admitted"]
        for suffix in ("-wal", "-shm"):
            path.with_name(path.name + suffix).unlink()
        time.sleep(LOOK_SECONDS)
        assert other.acquire().startswith("RateLimiterUnavailable")
        with program(path) as new:
            admitted = [new.acquire() for _ in range(CAPACITY)].count("admitted")
        assert idle.acquire().startswith("RateLimiterUnavailable")
    with program(path) as again:
        assert [again.acquire() for _ in range(CAPACITY)].count("admitted") == CAPACITY - admitted


def test_a_busy_program_notices_as_soon(store: SyncSQLiteStore, path: Path) -> None:
    store.perform(ADD)
    path.unlink()
    look_at = time.monotonic() + LOOK_SECONDS
    with suppress(Unreachable):
        while time.monotonic() < look_at:
            store.perform(ADD)
    with pytest.raises(Unreachable, match="deleted or replaced"):
        store.perform(ADD)


def test_a_file_that_comes_back_is_used_again(store: SyncSQLiteStore, path: Path) -> None:
    store.perform(ADD)
    elsewhere = path.rename(path.with_name("elsewhere.db"))
    time.sleep(LOOK_SECONDS)
    with pytest.raises(Unreachable):
        store.perform(ADD)
    elsewhere.rename(path)
    assert store.perform(ADD)["n"] == 2


def test_a_connection_that_broke_makes_no_new_file(store: SyncSQLiteStore, path: Path) -> None:
    store.perform(ADD)
    store._file._disconnect()
    delete_all(path)
    with pytest.raises(Unreachable, match="deleted or replaced"):
        store.perform(ADD)
    assert not path.exists()


def test_a_new_file_with_the_inode_of_the_deleted_one_is_another_file(
    store: SyncSQLiteStore, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file, "inode_of", lambda path, **_: (1, 1) if Path(path).exists() else None)
    store.perform(ADD)
    delete_all(path)
    time.sleep(LOOK_SECONDS)
    for _ in range(2):
        with pytest.raises(Unreachable, match="deleted or replaced"):
            store.perform(ADD)
        with closing(SyncSQLiteStore(path)) as other:
            other.perform(ADD)


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("lose", [delete, delete_all])
def test_programs_share_one_limit_again_once_all_are_started_again(path: Path, lose: Callable[[Path], None]) -> None:
    with program(path) as first, program(path) as second:
        assert [first.acquire(), second.acquire()] == ["admitted", "admitted"]
        lose(path)
        time.sleep(LOOK_SECONDS)
        for each in (first, second):
            assert each.acquire().startswith("RateLimiterUnavailable")
            assert "start all programs that use it again" in each.acquire()
            assert each.acquire(on_unavailable="allow") == "admitted"
        with program(path) as third:
            assert third.acquire() == "admitted"
            assert first.acquire().startswith("RateLimiterUnavailable")  # it shares nothing with the new file
            with program(path) as again:
                outcomes = [each.acquire() for _ in range(CAPACITY) for each in (third, again)]
    assert outcomes.count("admitted") == CAPACITY - 1


def test_a_program_that_still_uses_the_deleted_file_is_named_as_the_cause(store: SyncSQLiteStore, path: Path) -> None:
    store.perform(ADD)
    with program(path) as idle:
        assert idle.acquire() == "admitted"
        path.unlink()
        time.sleep(LOOK_SECONDS)
        with closing(SyncSQLiteStore(path)) as new, pytest.raises(Unreachable, match="stop all that do"):
            new.perform(ADD)
        with pytest.raises(Unreachable):
            store.perform(ADD)
    with closing(SyncSQLiteStore(path)) as new:
        assert new.perform(ADD)["n"] == 1


def test_an_upgrade_by_another_process_ends_this_one_at_once(path: Path) -> None:
    with program(path) as running:
        assert running.acquire() == "admitted"
        upgrade(path)
        before = items(path)
        outcomes = [running.acquire(), running.acquire(on_unavailable="allow")]
        assert items(path) == before
    told = f"knows version {VERSION} of them: install that release for this program, too, and start it again"
    assert all(each.startswith("StoreRefusedError") and told in each for each in outcomes), outcomes


async def test_an_upgrade_is_noticed_by_the_next_call_of_an_event_loop(path: Path) -> None:
    store = SQLiteStore(path)
    await store.perform(ADD)
    upgrade(path)
    for operation in (ADD, Get(KEY)):
        with pytest.raises(NotApplied, match="another release of zae-limiter-core has changed its tables"):
            await store.perform(operation)
    await store.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_knows_the_file_of_its_parent(path: Path) -> None:
    with SyncRepository.sqlite(path) as repository:
        limiter = SyncRateLimiter(repository, default_limits=[Limit.per_day("rpd", CAPACITY)])
        with limiter.acquire("ann", "answers", {"rpd": 1}):
            pass
        delete_all(path)
        child = os.fork()
        if child == 0:
            os._exit(3 if repository.ping() else 7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7


@pytest.mark.parametrize("at", range(1, 7))
def test_whoever_makes_the_tables_while_another_process_opens_the_file_does_not_disturb_it(
    path: Path, monkeypatch: pytest.MonkeyPatch, at: int
) -> None:
    statements: list[str] = []
    found: list[int] = []
    real = sqlite3.connect

    class Disturbed(sqlite3.Connection):
        """A connection before one of whose statements another process makes the tables."""

        def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
            statements.append(sql)
            if len(statements) == at:
                with closing(SyncSQLiteStore(path)) as other:
                    found.append(other.perform(ADD)["n"])
            return super().execute(sql, *values)

    def connect(*args: Any, **options: Any) -> sqlite3.Connection:
        monkeypatch.undo()
        return real(*args, factory=Disturbed, **options)

    monkeypatch.setattr(sqlite3, "connect", connect)
    with closing(SyncSQLiteStore(path)) as store:
        assert store.perform(ADD)["n"] == 2
    assert found == [1], statements
