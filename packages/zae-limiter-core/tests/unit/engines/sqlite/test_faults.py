import os
import signal
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from zae_limiter import RateLimiterUnavailable, SyncRepository
from zae_limiter.engines.sqlite.aio import SQLiteStore
from zae_limiter.engines.sqlite.connection import VERSION
from zae_limiter.engines.sqlite.file import Call
from zae_limiter.engines.sqlite.sync import SyncSQLiteStore
from zae_limiter.engines.time_left import set_deadline
from zae_limiter.exceptions import StoreRefusedError
from zae_limiter.operations.errors import Closed, Invalid, Unreachable
from zae_limiter.operations.values import Get, Key, Put, Update

KEY = Key("ns/A", "#META")
ADD = Update(KEY, add={"n": 1})


@pytest.fixture
def little_time() -> Iterator[None]:
    before = set_deadline(time.monotonic() + 0.05)
    yield
    set_deadline(before)


def number(store: SyncSQLiteStore) -> int:
    item = store.perform(Get(KEY)) or {"n": 0}
    return int(item["n"])


def test_only_the_owner_may_read_the_file(store: SyncSQLiteStore, path: Path) -> None:
    store.perform(ADD)
    for each in path.parent.iterdir():
        assert stat.S_IMODE(each.stat().st_mode) == 0o600, each


@pytest.mark.usefixtures("little_time")
def test_a_lock_that_another_process_holds_is_an_outage(store: SyncSQLiteStore, path: Path) -> None:
    store.perform(ADD)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unreachable, match="another process holds its lock"):
            store.perform(ADD)
        assert number(store) == 1  # a reader waits for nobody
        other.execute("ROLLBACK")
    set_deadline(time.monotonic() + 10)
    store.perform(ADD)
    assert number(store) == 2


async def test_a_lock_that_another_process_holds_is_an_outage_on_an_event_loop(path: Path) -> None:
    store = SQLiteStore(path, timeout=0.05)
    await store.perform(ADD)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(Unreachable, match="another process holds its lock"):
            await store.perform(ADD)
    assert (await store.perform(ADD))["n"] == 2
    await store.close()
    with pytest.raises(Closed):
        await store.perform(ADD)


def fill(store: SyncSQLiteStore) -> None:
    for n in range(100):
        store.perform(Put({"PK": f"ns/{n}", "SK": "s", "text": "x" * 4000}))


def test_a_full_disk_is_an_outage_until_there_is_room(store: SyncSQLiteStore) -> None:
    store.perform(ADD)
    connection: Any = store._file._connection
    connection.execute("PRAGMA max_page_count = 20")
    with pytest.raises(Unreachable, match="its disk is full"):
        fill(store)
    assert number(store) == 1
    connection.execute("PRAGMA max_page_count = 10000")
    store.perform(ADD)
    assert number(store) == 2


def test_a_disk_that_refuses_to_write_is_an_outage(path: Path) -> None:
    script = f"""
import resource, signal
from zae_limiter.engines.sqlite.sync import SyncSQLiteStore
from zae_limiter.operations.errors import OutcomeUnknown, Unreachable
from zae_limiter.operations.values import Get, Key, Put, Update
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
store = SyncSQLiteStore({str(path)!r})
store.perform(Update(Key("ns/A", "s"), add={{"n": 1}}))
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))
written = 0
try:
    while True:
        store.perform(Put({{"PK": f"ns/{{written}}", "SK": "s", "text": "x" * 4000}}))
        written += 1
except (Unreachable, OutcomeUnknown) as error:
    print(error)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store.perform(Update(Key("ns/A", "s"), add={{"n": 1}}))
assert store.perform(Get(Key("ns/A", "s")))["n"] == 2
assert store.perform(Get(Key(f"ns/{{written - 1}}", "s"))) is not None
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert "disk" in done.stdout


def test_a_torn_log_loses_the_last_commits_and_nothing_else(store: SyncSQLiteStore, path: Path) -> None:
    writes = 12
    for _ in range(writes):
        store.perform(ADD)
    log = path.with_name("limits.db-wal").read_bytes()
    database = path.read_bytes()
    found = []
    for cut in [*range(0, len(log), len(log) // 40), len(log)]:
        copy = path.parent / f"cut-{cut}" / "limits.db"
        copy.parent.mkdir()
        copy.write_bytes(database)
        copy.with_name("limits.db-wal").write_bytes(log[:cut])
        with closing(SyncSQLiteStore(copy)) as after:
            found.append(number(after))
            after.perform(ADD)
            assert number(after) == found[-1] + 1
    assert found == sorted(found)
    assert (found[0], found[-1]) == (0, writes)


def ruin(path: Path) -> None:
    path.write_bytes(b"no database at all, but long enough for one" * 100)


def damage(path: Path) -> None:
    with closing(SyncSQLiteStore(path)) as store:
        for n in range(200):
            store.perform(Put({"PK": f"ns/{n}", "SK": "s", "text": "x" * 1000}))
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(os.urandom(path.stat().st_size - 4096))


def of_another_program(path: Path) -> None:
    with closing(sqlite3.connect(path)) as other:
        other.execute("CREATE TABLE mine (n)")


def of_another_version(path: Path) -> None:
    with closing(SyncSQLiteStore(path)) as store:
        store.perform(ADD)
    with closing(sqlite3.connect(path)) as other:
        other.execute(f"PRAGMA user_version = {VERSION + 1}")


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (ruin, "not an SQLite database: name another file"),
        (damage, "damaged: restore a copy"),
        (of_another_program, "database of another program"),
        (of_another_version, f"knows version {VERSION} of them: install that release for this program, too"),
        (lambda path: path.mkdir(), "is a folder: name a file in it"),
    ],
)
def test_a_file_that_is_none_of_ours_is_refused(path: Path, make: Callable[[Path], None], told: str) -> None:
    make(path)
    with pytest.raises(StoreRefusedError) as caught:
        SyncRepository.sqlite(path)
    assert told in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_missing_folder_is_refused(path: Path) -> None:
    with pytest.raises(StoreRefusedError, match=r"folder .* does not exist: make it"):
        SyncRepository.sqlite(path.parent / "none" / "limits.db")


def test_a_file_that_may_not_be_written_is_refused(path: Path) -> None:
    with closing(SyncSQLiteStore(path)) as store:
        store.perform(ADD)
    path.chmod(0o444)
    path.parent.chmod(0o555)
    try:
        script = f"""
import os
from zae_limiter.engines.sqlite.sync import SyncSQLiteStore
from zae_limiter.operations.errors import NotApplied
from zae_limiter.operations.values import Key, Update
store = SyncSQLiteStore({str(path)!r})
if os.geteuid() == 0:
    os.setuid(65534)
try:
    store.perform(Update(Key("ns/A", "#META"), add={{"n": 1}}))
except NotApplied as error:
    print(error)
"""
        for folder in path.parents[:4]:
            if folder.stat().st_mode & 0o755 == 0o700:  # pytest's own, which no other user may enter
                folder.chmod(0o711 if folder != path.parent else 0o555)
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    finally:
        path.parent.chmod(0o755)
    assert (done.returncode, done.stderr.count("\n")) == (0, 1)
    assert "has the mode 0444" in done.stderr
    assert "let this user" in done.stdout


def test_a_key_that_is_no_text_fails_alone(store: SyncSQLiteStore) -> None:
    calls = [Call(ADD), Call(Update(Key("ns/\ud800", "s"), add={"n": 1})), Call(ADD)]
    store._file.waiting.extend(calls)
    with pytest.raises(Invalid, match="cannot be stored"):
        store._file.serve(time.monotonic() + 1)[1].result()
    assert (calls[2].result()["n"], number(store)) == (2, 2)


class InterruptedClock:
    """A clock in whose reading a signal arrives, once."""

    def __init__(self) -> None:
        self.interrupts = False

    def now_ms(self) -> int:
        if self.interrupts:
            self.interrupts = False
            signal.raise_signal(signal.SIGINT)
        return 1_700_000_000_000


def test_a_signal_undoes_the_batch_and_leaves_the_calls_of_others_waiting(path: Path) -> None:
    clock = InterruptedClock()
    with closing(SyncSQLiteStore(path, clock=clock)) as store:
        store.perform(ADD)
        others = Call(ADD)
        store._file.waiting.append(others)
        clock.interrupts = True
        with pytest.raises(KeyboardInterrupt):
            store.perform(Update(Key("ns/BUCKET#a#b#0", "#STATE"), add={"n": 1}))
        assert (others.done, list(store._file.waiting)) == (False, [others])
        assert number(store) == 2  # the next caller serves the other, too
        assert store.perform(Get(Key("ns/BUCKET#a#b#0", "#STATE"))) is None


class InterruptedLock:
    """A lock that a signal interrupts just as it has been acquired, once."""

    def __init__(self, lock: Any) -> None:
        self.lock, self.release, self.interrupts = lock, lock.release, True

    def acquire(self, *, timeout: float) -> bool:
        acquired = bool(self.lock.acquire(timeout=timeout))
        if self.interrupts:
            self.interrupts = False
            raise KeyboardInterrupt
        return acquired


def test_a_signal_as_the_lock_is_acquired_leaves_it_free_for_other_threads(
    store: SyncSQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(store._file, "lock", InterruptedLock(store._file.lock))
        with pytest.raises(KeyboardInterrupt):
            store.perform(ADD)
    with ThreadPoolExecutor() as pool:
        assert pool.submit(number, store).result() == 0


def test_a_call_that_a_signal_lost_is_performed_by_its_own_thread(
    store: SyncSQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lock = store._file.lock

    class Losing:
        """A lock behind which another thread has taken all calls, and has lost them."""

        release = lock.release

        def acquire(self, *, timeout: float) -> bool:
            store._file.waiting.clear()
            return bool(lock.acquire(timeout=timeout))

    with monkeypatch.context() as patch:
        patch.setattr(store._file, "lock", Losing())
        assert store.perform(ADD)["n"] == 1


def test_a_signal_as_the_connection_is_opened_leaves_none_that_is_half_ready(
    store: SyncSQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("zae_limiter.engines.sqlite.file.SQLiteTable", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.perform(ADD)
    assert store.perform(ADD)["n"] == 1


def test_a_signal_handler_that_calls_is_refused_at_once(path: Path) -> None:
    class Calling:
        calls = False

        def now_ms(self) -> int:
            if self.calls:
                self.calls = False
                with pytest.raises(Unreachable, match="a signal interrupted"):
                    opened.perform(ADD)
            return 1_700_000_000_000

    clock = Calling()
    with closing(SyncSQLiteStore(path, clock=clock)) as opened:
        clock.calls = True
        opened.perform(Update(Key("ns/BUCKET#a#b#0", "#STATE"), add={"n": 1}))
        assert (clock.calls, number(opened)) == (False, 0)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_opens_its_own_connection(store: SyncSQLiteStore) -> None:
    store.perform(ADD)
    children = [os.fork() for _ in range(1)]
    if children == [0]:
        for _ in range(20):
            store.perform(ADD)
        store.close()
        os._exit(0)
    for _ in range(20):
        store.perform(ADD)
    assert os.waitpid(children[0], 0)[1] == 0
    assert number(store) == 41


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_child_of_a_process_that_was_writing_for_too_long_refuses(
    store: SyncSQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zae_limiter.runtime.forks.PATIENCE", 0.01)
    store.perform(ADD)
    with ThreadPoolExecutor() as pool:
        pool.submit(store._file.lock.acquire).result()
        child = os.fork()
        if child:
            pool.submit(store._file.lock.release).result()
    if child == 0:
        try:
            store.perform(ADD)
        except Unreachable:
            os._exit(7)
        os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    store.perform(ADD)
    assert number(store) == 2


def test_an_outage_is_the_public_error_of_a_call(path: Path) -> None:
    with (
        SyncRepository.sqlite(path, connect_timeout=0.01, read_timeout=0.04) as repository,
        closing(sqlite3.connect(path, isolation_level=None)) as other,
    ):
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(RateLimiterUnavailable, match="another process holds its lock"):
            repository.create_entity("ann")
