import fcntl
import os
import signal
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from support.cli.account import eventually
from zae_limiter_cli.errors import CommandError
from zae_limiter_cli.local.credentials import Credentials
from zae_limiter_cli.local.down import end
from zae_limiter_cli.local.state_dir import Running, StateDir, state_dirs, the_one

NO_NAMES = ["/some/dir", "../local/other", "..", ".", "", "my_app", "a/b", "x" * 46, "my-app\n"]
# A process that runs as a local stack does, as far as others see; it heeds SIGTERM or does not.
STACK = """
import os, signal, sys, time
from zae_limiter_cli.local.credentials import Credentials
from zae_limiter_cli.local.state_dir import Running, StateDir
signal.signal(signal.SIGTERM, signal.SIG_DFL if sys.argv[2] == "polite" else signal.SIG_IGN)
state_dir = StateDir(sys.argv[1])
state_dir.take()
key = Credentials("KEY", "secret")
state_dir.write(Running(sys.argv[1], os.getpid(), "http://127.0.0.1:1", "us-east-1", "moto", 0.5, key))
time.sleep(600)
"""
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def start() -> Iterator[Start]:
    """What starts a stack in another process."""
    with ExitStack() as processes:
        yield lambda name, manner="polite": processes.enter_context(_running(name, manner))


@contextmanager
def _running(name: str, manner: str) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([sys.executable, "-c", STACK, name, manner])
    try:
        assert eventually(lambda: StateDir(name).running() is not None)
        yield process
    finally:
        process.kill()
        process.wait()


def test_what_runs_is_told_to_other_processes(start: Start) -> None:
    process = start("my-app")
    running = Running(
        "my-app", process.pid, "http://127.0.0.1:1", "us-east-1", "moto", 0.5, Credentials("KEY", "secret")
    )
    assert StateDir("my-app").running() == running
    assert the_one(None).name == "my-app"


def test_nobody_else_can_read_what_is_told(state: Path) -> None:
    state_dir = StateDir("my-app")
    state_dir.directory.mkdir(parents=True)
    for directory in (state_dir.directory.parent, state_dir.directory):
        directory.chmod(0o755)  # as one that was there before
    leftover = state_dir.directory / "running.new"
    leftover.touch(0o666)
    state_dir.take()
    state_dir.write(Running("my-app", 1, "http://127.0.0.1:1", "us-east-1", "moto", 0.5, Credentials("KEY", "secret")))
    modes = [stat.S_IMODE(path.stat().st_mode) for path in (state_dir.directory.parent, state_dir.directory)]
    assert modes == [0o700, 0o700]
    assert stat.S_IMODE((state_dir.directory / "running.json").stat().st_mode) == 0o600


def test_a_second_one_of_the_same_name_says_that_one_runs(start: Start) -> None:
    start("my-app")
    with pytest.raises(CommandError, match=r"my-app runs already, at http://127.0.0.1:1: .*local down --name my-app"):
        StateDir("my-app").take()
    StateDir("other").take()


def test_a_stack_ends_when_it_is_asked(start: Start) -> None:
    process = start("my-app")
    assert end(StateDir("my-app")) == "is down"
    assert process.wait() == -signal.SIGTERM


def test_one_that_does_not_heed_is_killed(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("zae_limiter_cli.local.down.TIMEOUT_SECONDS", 0.5)
    process = start("my-app", "stubborn")
    assert end(StateDir("my-app")) == "was killed"
    assert process.wait() == -signal.SIGKILL


def test_after_a_crash_nothing_runs_and_the_next_one_may(start: Start) -> None:
    process = start("my-app")
    process.kill()
    process.wait()
    assert StateDir("my-app").running() is None
    assert end(StateDir("my-app")) == "had crashed: nothing of it is left"
    with pytest.raises(CommandError, match="my-app does not run"):
        end(StateDir("my-app"))
    start("my-app")


def test_without_a_name_it_has_to_be_clear_which_one_is_meant(start: Start) -> None:
    with pytest.raises(CommandError, match="no local stack runs"):
        the_one(None)
    start("one")
    start("two")
    assert the_one("one").name == "one"
    with pytest.raises(CommandError, match="several local stacks run: one, two; choose one with --name"):
        the_one(None)
    assert [state_dir.name for state_dir in state_dirs()] == ["one", "two"]


def test_a_new_one_begins_with_no_logs(state: Path) -> None:
    state_dir = StateDir("my-app")
    state_dir.logs.mkdir(parents=True)
    (state_dir.logs / "old.log").write_text("old")
    state_dir.take()
    assert list(state_dir.logs.iterdir()) == []


def test_items_that_nobody_keeps_go_with_their_stack(state: Path) -> None:
    directory = StateDir("my-app")
    directory.take()
    (directory.items / "dynoxide.db").touch()
    directory.forget()
    assert not directory.items.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_directory_that_cannot_be_written_is_one_line(state: Path) -> None:
    state.chmod(0o500)
    with pytest.raises(CommandError, match="Permission denied; set XDG_STATE_HOME"):
        StateDir("my-app").take()


def test_a_state_that_is_no_directory_is_one_line(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (state / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(state / "file"))
    with pytest.raises(CommandError, match=r"Not a directory; set XDG_STATE_HOME"):
        StateDir("my-app").take()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.mark.parametrize("name", NO_NAMES)
def test_a_name_that_no_stack_can_have_is_refused(name: str) -> None:
    with pytest.raises(CommandError, match="must be 3 to 45 characters"):
        the_one(name)


def test_a_look_makes_nothing_and_changes_nothing(state: Path) -> None:
    with pytest.raises(CommandError, match="my-app does not run"):
        end(StateDir("my-app"))
    assert list(state.iterdir()) == []
    directory = StateDir("my-app").directory
    directory.mkdir(parents=True)
    directory.chmod(0o755)
    (directory / "lock").touch()
    assert StateDir("my-app").running() is None
    assert mode(directory) == 0o755


def test_what_no_stack_can_be_called_is_no_stack(state: Path) -> None:
    StateDir("my-app").make()
    for name in (".DS_Store", "old copy", "my_app"):
        (state / "zae-limiter" / "local" / name).mkdir()
    assert [each.name for each in state_dirs()] == ["my-app"]


def test_a_process_whose_id_stands_in_a_lock_is_left_alone(state: Path) -> None:
    state_dir = StateDir("my-app")
    state_dir.make()
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as bystander:
        (state_dir.directory / "lock").write_text(f"{bystander.pid}\n")
        with (state_dir.directory / "lock").open() as planted:
            fcntl.flock(planted, fcntl.LOCK_EX)
            with pytest.raises(CommandError, match="my-app does not run"):
                end(state_dir)
        assert bystander.poll() is None
        bystander.kill()


def test_a_link_in_place_of_a_stack_s_directory_is_not_followed(state: Path) -> None:
    elsewhere = state / "elsewhere"
    elsewhere.mkdir(mode=0o755)
    StateDir("my-app").make()
    (state / "zae-limiter" / "local" / "other").symlink_to(elsewhere)
    with pytest.raises(CommandError, match="other is a link"):
        StateDir("other")
    assert (mode(elsewhere), list(elsewhere.iterdir())) == (0o755, [])


def test_the_state_of_another_user_is_not_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    StateDir("my-app").make()
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    with pytest.raises(CommandError, match=r"belongs to user \d+, you are user 54321: set XDG_STATE_HOME to a direc"):
        the_one("my-app")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")
@pytest.mark.parametrize("below", ["", "not/there/yet"])
def test_root_makes_nothing_in_the_state_of_another_user(
    state: Path, below: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = state / "home"
    home.mkdir()
    os.chown(home, 54321, 54321)
    monkeypatch.setenv("XDG_STATE_HOME", str(home / below))
    with pytest.raises(CommandError, match=r"home belongs to user 54321, you are user 0"):
        StateDir("my-app")
    assert list(home.iterdir()) == []


def test_a_state_file_that_is_none_is_one_line(start: Start) -> None:
    start("my-app")
    (StateDir("my-app").directory / "running.json").write_text('{"name": 1}')
    with pytest.raises(CommandError, match=r"running.json is damaged: .* down --name my-app"):
        StateDir("my-app").running()
