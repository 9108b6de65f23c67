import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from zae_limiter_cli.local.children import Child, start_command

pytestmark = pytest.mark.skipif(not Path("/proc").is_dir(), reason="processes are looked up in /proc")

TIMEOUT_SECONDS = 60
# A process that has a child of its own, and tells both ids.
FAMILY = """
import os, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
open(sys.argv[1], "w").write(f"{os.getpid()} {child.pid}\\n")
time.sleep(600)
"""


def written(path: Path) -> list[int]:
    """The ids in a file, once they are there."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while not (path.exists() and path.read_text().endswith("\n")):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return [int(each) for each in path.read_text().split()]


def gone(pid: int) -> bool:
    """Whether a process is dead, if need be some time later; one that nobody has waited for is."""
    deadline = time.monotonic() + TIMEOUT_SECONDS
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.02)
    return False


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    return tmp_path / "pids"


@pytest.fixture
def child(pids: Path) -> Iterator[Child]:
    child = start_command([sys.executable, "-c", FAMILY, str(pids)], output=subprocess.DEVNULL)
    yield child
    child.end()


def test_a_child_ends_with_all_that_it_has_started(child: Child, pids: Path) -> None:
    family = written(pids)
    child.end()
    assert all(gone(pid) for pid in family)
    child.end()  # a second time does nothing


def test_a_child_ends_with_a_parent_that_is_killed(pids: Path) -> None:
    parent = f"""
import subprocess, sys, time
from zae_limiter_cli.local.children import start_command
child = start_command([sys.executable, "-c", {FAMILY!r}, {str(pids)!r}], output=subprocess.DEVNULL)
time.sleep(600)
"""
    process = subprocess.Popen([sys.executable, "-c", parent])
    family = written(pids)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert all(gone(pid) for pid in family)


def test_a_command_that_ends_by_itself_gives_its_code() -> None:
    child = start_command([sys.executable, "-c", "raise SystemExit(3)"], output=subprocess.DEVNULL)
    assert child.process.wait(TIMEOUT_SECONDS) == 3
    child.end()


def test_what_it_writes_goes_where_the_output_is(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with log.open("wb") as output:
        child = start_command([sys.executable, "-c", "print('said')"], output=output.fileno())
    child.process.wait(TIMEOUT_SECONDS)
    child.end()
    assert log.read_text() == "said\n"
