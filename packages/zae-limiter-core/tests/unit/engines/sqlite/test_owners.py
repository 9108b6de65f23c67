"""What lies beside a file: SQLite would use it before this library sees anything."""

import logging
import os
import sqlite3
import struct
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from zae_limiter import Limit, SyncRateLimiter, SyncRepository
from zae_limiter.engines.sqlite import connection
from zae_limiter.exceptions import StoreRefusedError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="this system has no owners, modes and pipes")
MAGIC = bytes.fromhex("d9d505f920a163d7")
PAGE = 4096
STRANGER = 54_321
needs_root = pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root gives files away")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A file that has limits, and which no program has open."""
    tmp_path.chmod(0o700)
    path = tmp_path / "limits.db"
    use(path)
    return path


def use(path: Path) -> None:
    limits = [Limit.per_minute("rpm", 60)]
    with (
        SyncRateLimiter(SyncRepository.sqlite(path), default_limits=limits) as limiter,
        limiter.acquire("ann", "api", {"rpm": 1}),
    ):
        pass


def journal_of(pages: int, *, names: Path | None = None) -> bytes:
    """Return a journal that was not played back, of a file that had so many pages."""
    head = (MAGIC + struct.pack(">IIIII", 0, 0, pages, 512, PAGE)).ljust(512, b"\0")
    if names is None:
        return head
    name = os.fsencode(names)
    return head + struct.pack(">I", 0x40000000 // PAGE + 1) + name + struct.pack(">II", len(name), sum(name)) + MAGIC


@pytest.mark.parametrize("mode", ["WAL", "DELETE"])
def test_a_journal_that_names_a_file_deletes_none(path: Path, tmp_path: Path, mode: str) -> None:
    with closing(sqlite3.connect(path)) as database:
        database.execute(f"PRAGMA journal_mode = {mode}")
    victim = tmp_path / "victim"
    victim.write_text("mine")
    before = path.read_bytes()
    path.with_name("limits.db-journal").write_bytes(journal_of(len(before) // PAGE, names=victim))
    with pytest.raises(StoreRefusedError, match=r"limits\.db-journal names another file, which SQLite would delete"):
        use(path)
    assert (victim.read_text(), path.read_bytes()) == ("mine", before)


def pipe(place: Path) -> None:
    os.mkfifo(place)


def link(place: Path) -> None:
    place.with_name("elsewhere").touch()
    place.symlink_to(place.with_name("elsewhere"))


def second_name(place: Path) -> None:
    place.with_name("elsewhere").touch()
    place.hardlink_to(place.with_name("elsewhere"))


@pytest.mark.parametrize("suffix", ["-journal", "-wal", "-shm"])
@pytest.mark.parametrize("make", [pipe, link, second_name, Path.mkdir])
def test_what_is_no_file_of_its_own_is_refused(path: Path, suffix: str, make: Callable[[Path], None]) -> None:
    make(path.with_name(f"limits.db{suffix}"))
    with pytest.raises(StoreRefusedError, match=rf"limits\.db{suffix} (is a link|has 2 names)"):
        use(path)


@needs_root
@pytest.mark.parametrize("suffix", ["-journal", "-wal", "-shm"])
def test_what_somebody_else_has_put_there_is_refused(path: Path, suffix: str) -> None:
    beside = path.with_name(f"limits.db{suffix}")
    beside.touch()
    beside.chmod(0o666)
    os.chown(beside, STRANGER, STRANGER)
    before = path.read_bytes()
    with pytest.raises(StoreRefusedError, match=rf"limits\.db{suffix} belongs to another user \(uid {STRANGER}\)"):
        use(path)
    path.chmod(0o660)  # not of her group
    with pytest.raises(StoreRefusedError, match="belongs to another user"):
        use(path)
    assert path.read_bytes() == before


@needs_root
def test_a_log_that_somebody_puts_there_meanwhile_gets_no_record(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite makes it that of the file's owner if it is root's, so the test gives it away behind that."""
    real, log = connection._prepare, path.with_name("limits.db-wal")

    def prepare(opened: sqlite3.Connection, path: Path, is_late: Callable[[], bool]) -> bytes:
        found = real(opened, path, is_late)
        os.chown(log, STRANGER, STRANGER)
        return found

    monkeypatch.setattr(connection, "_prepare", prepare)
    with pytest.raises(StoreRefusedError, match="belongs to another user"):
        use(path)


@needs_root
def test_users_who_share_a_file_share_its_log(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    log = path.with_name("limits.db-wal")
    log.touch()
    os.chown(log, STRANGER, 0)
    path.chmod(0o660)
    log.chmod(0o660)
    use(path)
    assert f"{log} belongs to another user" in caplog.text


def test_a_journal_beside_a_log_is_not_played_back(path: Path) -> None:
    """It is of a copy of before. SQLite would write its pages over those of the file."""
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("SELECT count(*) FROM items").fetchone()
        use(path)
        path.with_name("limits.db-journal").write_bytes(journal_of(1))
        with pytest.raises(StoreRefusedError, match=r"limits\.db-journal is beside a log"):
            use(path)


@pytest.mark.parametrize("tail", [b"", b"\0" * 100])
def test_a_file_whose_making_was_cut_off_is_made_again(tmp_path: Path, tail: bytes) -> None:
    """Its first page says already that it has a log, and its journal has not been deleted."""
    path = tmp_path / "new.db"
    path.touch(0o600)
    with closing(sqlite3.connect(path)) as database:
        database.execute("PRAGMA journal_mode = WAL")
    assert path.read_bytes()[18:20] == b"\2\2"
    path.with_name("new.db-journal").write_bytes(journal_of(0) + tail)
    use(path)
    assert not path.with_name("new.db-journal").exists()


def test_a_folder_where_others_may_write_is_said_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    folder = tmp_path / "shared"
    folder.mkdir()
    folder.chmod(0o1777)
    for _ in range(2):
        use(folder / "limits.db")
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert len(told) == 1
    assert told[0].startswith(f"others may write in {folder} (mode 1777), so they may put files beside limits.db; keep")


@needs_root
def test_a_file_of_somebody_else_is_told(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    os.chown(path, STRANGER, STRANGER)
    use(path)
    assert f"{path} belongs to another user (uid {STRANGER}), who may read and change it" in caplog.text


def test_a_log_that_was_opened_to_all_is_told(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("SELECT count(*) FROM items").fetchone()
        log = path.with_name("limits.db-wal")
        log.chmod(0o666)
        use(path)
    assert f"{log} has the mode 0666, wider than that of the file" in caplog.text
