"""`zae-limiter copy` that a `kill -9` ends, from file to file, each in a process of its own."""

import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from zae_limiter import Limit, SyncRateLimiter, SyncRepository
from zae_limiter.exceptions import NamespaceNotFoundError
from zae_limiter.maintenance import SyncMaintenance

RPD = Limit.per_day("rpd", 60)
ENTITIES = 400
ITEMS = 1 + 3 * ENTITIES  # the limits; a bucket, and usage of the hour and of the day, for each

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform == "win32", reason="this system has no SIGKILL"),
]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.db"
    with SyncRateLimiter(SyncRepository.sqlite(path)) as limiter:
        limiter.set_resource_defaults("gpt-4", [RPD])
        for number in range(ENTITIES):
            with limiter.acquire(f"key-{number}", "gpt-4", {"rpd": 20}):
                pass
    return path


def begin(source: Path, target: Path) -> subprocess.Popen[str]:
    places = ("--from", f"sqlite:///{source}", "--to", f"sqlite:///{target}")
    command = [sys.executable, "-c", "from zae_limiter_cli.main import main; main()", "copy", *places, "--yes", "-q"]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=_environment())


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if not name.startswith("ZAEL_")}


def items_in(path: Path) -> int:
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path, timeout=30)) as database:
        try:
            return int(database.execute("SELECT count(*) FROM items").fetchone()[0])
        except sqlite3.OperationalError:  # it has no tables yet
            return 0


def killed_in_time(source: Path, target: Path, after: int) -> bool:
    """Kill a copy once it has made so many items; whether it had not made the namespace by then."""
    copying = begin(source, target)
    while items_in(target) < after and copying.poll() is None:
        time.sleep(0.001)
    copying.kill()
    copying.communicate()
    try:
        SyncRepository.sqlite(target, register=False).close()
    except NamespaceNotFoundError:
        return True
    return False


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("after", [1, ITEMS // 3, ITEMS])
def test_a_killed_copy_says_how_to_go_on_and_the_same_command_does(source: Path, tmp_path: Path, after: int) -> None:
    target = next(
        each for number in range(10) if killed_in_time(source, each := tmp_path / f"target-{number}.db", after)
    )
    with pytest.raises(NamespaceNotFoundError, match="run it again if it was interrupted"):
        SyncRepository.sqlite(target)
    again = begin(source, target)
    told = again.communicate(timeout=60)
    assert (again.returncode, told[1]) == (0, ""), told
    with SyncRateLimiter(SyncRepository.sqlite(target, register=False)) as limiter:
        assert limiter.repository.get_resource_defaults("gpt-4") == [RPD]
        left = [limiter.available(f"key-{number}", "gpt-4")["rpd"] for number in range(ENTITIES)]
        assert set(left) <= {40, 41}
        assert limiter.repository.get_usage_summary(resource="gpt-4").total_events == ENTITIES
        assert SyncMaintenance(limiter.repository).list_orphan_namespaces() == []  # what the killed one left is purged
