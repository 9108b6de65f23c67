"""What lives here: the shell blocks of docs/local.md, each in a shell of its own, as a user has them side by side.
What never does: its Python block (test_readme), or what a command does in detail (test_local).
"""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import requires
from pathlib import Path

import pytest

from support.cli.account import eventually
from support.integration.last_will import afterwards
from zae_limiter_cli.local.state_dir import StateDir

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "local.md").read_text(encoding="utf-8")
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
INSTALL = re.compile(r"^pip install .*\[(\w+)\].*\n", re.MULTILINE)
UP = "zae-limiter local up --name my-app"
HERE = " --port 0 --data-plane moto"  # a port that nobody has, and no emulator that this machine may have


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    for name in [name for name in os.environ if name.startswith(("AWS_", "ZAEL_"))]:
        monkeypatch.delenv(name)
    with afterwards(["zae-limiter", "local", "down", "--name", "my-app"]):
        yield tmp_path


@contextmanager
def shell(lines: str, output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A shell at work, which tells each line and ends at the first that fails."""
    with output.open("wb") as file:
        process = subprocess.Popen(["sh", "-exc", lines], stdout=file, stderr=file, start_new_session=True)
    try:
        yield process
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_what_is_installed_is_there_to_be_installed() -> None:
    (extra,) = INSTALL.findall(PAGE)
    assert any(f"extra == '{extra}'" in each.replace('"', "'") for each in requires("zae-limiter-cli") or ())


@pytest.mark.long
def test_two_shells_do_what_the_page_says(state: Path) -> None:
    first, second = BLOCK.findall(PAGE)
    assert UP in first
    up, other = state / "up", state / "other"
    with shell(INSTALL.sub("", first).replace(UP, UP + HERE), up) as stack:
        assert eventually(lambda: stack.poll() is not None or StateDir("my-app").running() is not None)
        with shell(second, other) as reader:
            assert eventually(lambda: reader.poll() is not None or "+ zae-limiter local logs" in other.read_text())
            pid = StateDir("my-app").holder()
            assert pid
            os.kill(pid, signal.SIGINT)
            assert (stack.wait(60), reader.wait(60)) == (0, 0), up.read_text() + other.read_text()
    assert up.read_text().endswith("my-app is down\n")
