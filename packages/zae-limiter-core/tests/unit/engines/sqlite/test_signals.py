"""A signal whose handler raises, at each line that a blocking call runs in the file's modules."""

import json
import shutil
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from zae_limiter.engines.sqlite import file, locks, place
from zae_limiter.engines.sqlite.sync import SyncSQLiteStore
from zae_limiter.operations.errors import StoreError
from zae_limiter.operations.values import Get, Key, Operation, Query, Update

MINE, THEIRS = Key("ns/A", "#META"), Key("ns/B", "#META")
BUCKET = Key("ns/BUCKET#a#b#0", "#STATE")
MODULES = (file.__file__, place.__file__, locks.__file__)
Tracer = Callable[[FrameType, str, Any], Any]


class TimesUp(Exception):
    """What a handler may raise as well: no `BaseException`."""


def add(key: Key) -> Update:
    return Update(key, add={"n": 1})


def number(path: Path, key: Key) -> int:
    with closing(sqlite3.connect(path)) as reader:
        found = reader.execute("SELECT item FROM items WHERE pk = ? AND sk = ?", key).fetchone()
    return int(json.loads(found[0])["n"]) if found else 0


class Signal:
    """Raises at one of the lines that this thread runs in the file's modules; `began` is called at the first."""

    def __init__(self, at: int, error: type[BaseException], began: Callable[[], None]) -> None:
        self.left, self.error, self.began = at, error, began
        self.started = False

    def __enter__(self) -> None:
        sys.settrace(self.trace)

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def trace(self, frame: FrameType, event: str, _: object) -> "Tracer | None":
        if frame.f_code.co_filename not in MODULES or frame.f_code.co_name == "__del__":
            return None
        if not self.started and frame.f_code.co_name == "serve":
            self.started = True
            self.began()
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise self.error
        return self.trace


class Caller:
    """A thread whose call comes while the main thread serves, and waits for it."""

    def __init__(self, store: SyncSQLiteStore, operation: Operation[Any]) -> None:
        self.store, self.operation = store, operation
        self.answer: Any = None
        self.thread = threading.Thread(target=self.run)

    def run(self) -> None:
        try:
            self.answer = self.store.perform(self.operation)
        except (StoreError, TimesUp, TimeoutError) as error:
            self.answer = error

    def begin(self) -> None:
        self.thread.start()
        until = time.monotonic() + 10
        while len(self.store._file.waiting) < 2 and time.monotonic() < until:
            time.sleep(0.0001)


def opened(path: Path) -> SyncSQLiteStore:
    """Return a store whose file is a copy of one with a bucket, because making the tables takes longer."""
    if not (made := path.with_name("made.db")).exists():
        with closing(SyncSQLiteStore(made)) as store:
            store.perform(add(BUCKET))
    shutil.copy(made, path)
    store = SyncSQLiteStore(path)
    store.perform(Get(BUCKET))
    return store


def refusing_to_commit(path: Path) -> SyncSQLiteStore:
    store = opened(path)
    connection: Any = store._file._connection
    denied = (sqlite3.SQLITE_TRANSACTION, "COMMIT")
    connection.set_authorizer(lambda *of: sqlite3.SQLITE_DENY if of[:2] == denied else sqlite3.SQLITE_OK)
    return store


CASES = {
    "an open file": (opened, add(MINE), add(THEIRS)),
    "a new file": (SyncSQLiteStore, add(MINE), add(THEIRS)),
    "usage is counted first": (opened, Query("ns", "GSI4"), add(THEIRS)),
    "my call spoils the transaction": (opened, add(Key("ns/\ud800", "s")), add(THEIRS)),
    "their call spoils the transaction": (opened, add(MINE), add(Key("ns/\ud800", "s"))),
    "the commit fails": (refusing_to_commit, add(MINE), add(THEIRS)),
}


@pytest.fixture(params=CASES, ids=str)
def case(request: pytest.FixtureRequest) -> tuple[Callable[[Path], SyncSQLiteStore], Operation[Any], Operation[Any]]:
    return CASES[request.param]


def lines(at_most: int = 1000) -> Iterator[int]:
    return iter(range(1, at_most))


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("error", [KeyboardInterrupt, TimesUp, TimeoutError])
def test_a_signal_at_any_line_performs_no_call_twice(
    tmp_path: Path, case: tuple[Callable[[Path], SyncSQLiteStore], Any, Any], error: type[BaseException]
) -> None:
    open_store, mine, theirs = case
    for at in lines():
        path = tmp_path / f"{at}.db"
        with closing(open_store(path)) as store:
            other = Caller(store, theirs)
            signal = Signal(at, error, other.begin)
            outcome = None
            with suppress(error, StoreError), signal:
                outcome = store.perform(mine)
            if signal.started:
                other.thread.join(10)
                assert not other.thread.is_alive()
                assert not store._file.waiting
        if signal.started:
            assert number(path, THEIRS) == isinstance(other.answer, dict), (at, other.answer)
            assert number(path, MINE) in ({1} if isinstance(outcome, dict) else {0, 1}), at
        if signal.left > 0:
            break
    assert at > 30


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("error", [KeyboardInterrupt, TimesUp, TimeoutError])
def test_a_signal_at_any_line_leaves_the_file_to_other_processes(
    tmp_path: Path, case: tuple[Callable[[Path], SyncSQLiteStore], Any, Any], error: type[BaseException]
) -> None:
    open_store, mine, _ = case
    for at in lines():
        path = tmp_path / f"{at}.db"
        with closing(open_store(path)) as store:
            signal = Signal(at, error, lambda: None)
            with suppress(error, StoreError), signal:
                store.perform(mine)
            with closing(sqlite3.connect(path, timeout=0, isolation_level=None)) as process:
                process.execute("BEGIN IMMEDIATE")
        if signal.left > 0:
            break
    assert at > 30


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("error", [TimesUp, TimeoutError])
@pytest.mark.parametrize("name", ["an open file", "a new file", "usage is counted first"])
def test_a_signal_at_any_line_ends_the_call_that_it_interrupts_and_no_other_one(
    tmp_path: Path, name: str, error: type[BaseException]
) -> None:
    open_store, mine, theirs = CASES[name]
    for at in lines():
        with closing(open_store(tmp_path / f"{at}.db")) as store:
            store._file._look_at, store._file._sweep_at = 0.0, 0  # each look at the file and its log is due
            other = Caller(store, theirs)
            signal = Signal(at, error, other.begin)
            raised: BaseException | None = None
            try:
                with signal:
                    store.perform(mine)
            except BaseException as caught:  # noqa: BLE001 - whatever it is
                raised = caught
            assert type(raised) is (error if signal.left <= 0 else type(None)), (at, raised)
            if signal.started:
                other.thread.join(10)
                assert isinstance(other.answer, dict), (at, other.answer)
            store._file._look_at = 0.0
            assert isinstance(store.perform(add(MINE)), dict), at
        if signal.left > 0:
            break
    assert at > 30
