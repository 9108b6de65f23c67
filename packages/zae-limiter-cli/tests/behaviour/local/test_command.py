import socket
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from zae_limiter_cli.errors import CommandError
from zae_limiter_cli.local import server
from zae_limiter_cli.local.credentials import Credentials
from zae_limiter_cli.local.messages import another_port, plain_status, ready, status
from zae_limiter_cli.local.server import DEFAULT_PORT
from zae_limiter_cli.local.state_dir import Running, StateDir
from zae_limiter_cli.local.status_client import readers
from zae_limiter_cli.main import main

RUNNING = Running(
    "my-app", 1, "http://127.0.0.1:4588", "us-east-1", "moto, in memory", 1.0, Credentials("KEY", "secret")
)
READER = {"table": "my-app", "function": "my-app-aggregator", "records": 3, "batches": 2, "given_up": 1, "failure": ""}


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))
    for name in ("ZAEL_STACK", "ZAEL_DYNOXIDE", "ZAEL_DYNAMODB_LOCAL"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path


@pytest.fixture
def taken() -> Iterator[int]:
    """A port that somebody else has."""
    with socket.create_server(("127.0.0.1", 0)) as other:
        yield other.getsockname()[1]


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["local", *args])


def fail(*args: str) -> str:
    """What a command that fails says: one line."""
    done = run(*args)
    assert done.exit_code == 1, done.output
    (line,) = done.stderr.splitlines()
    return line.removeprefix("Error: ")


def test_its_commands_are_listed() -> None:
    listed = run("--help").stdout
    assert all(name in listed for name in ("up", "down", "status", "logs", "env"))


@pytest.mark.parametrize("detached", [[], ["--detach"]], ids=["in front", "detached"])
def test_a_port_in_use_is_one_line(taken: int, detached: list[str]) -> None:
    told = fail("up", "--name", "my-app", "--port", str(taken), *detached)
    assert told == f"--port {taken}: Address already in use; choose another one, or leave it out to get a free one"


def test_a_module_of_the_users_folder_is_not_run(tmp_path: Path, taken: int, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "struct.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nraise SystemExit('planted')\n")
    monkeypatch.chdir(tmp_path)
    assert "Address already in use" in fail("up", "--name", "my-app", "--port", str(taken), "--detach")
    assert not (tmp_path / "ran").exists()


def test_without_a_port_the_default_one_is_taken_or_else_a_free_one_which_is_said(
    taken: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        free = other.getsockname()[1]
    monkeypatch.setattr(server, "DEFAULT_PORT", free)
    with server.listen(None) as first, server.listen(None) as second:
        assert first.getsockname()[1] == free
        assert second.getsockname()[1] not in (free, taken)
    assert another_port(RUNNING) is None
    moved = replace(RUNNING, endpoint_url="http://127.0.0.1:40001")
    assert another_port(moved) == "Port 4588 is in use, so my-app took 40001."
    assert str(DEFAULT_PORT) in run("up", "--help").stdout


@pytest.mark.parametrize("name", ["", "a", "my_app", "1st", "../up", "x" * 46])
def test_a_bad_name_is_one_line(name: str) -> None:
    assert "must be 3 to 45 characters" in fail("up", "--name", name)


@pytest.mark.parametrize("command", ["down", "status", "env", "logs"])
@pytest.mark.parametrize("given", ["option", "variable"])
def test_a_name_is_no_path_to_another_folder(
    command: str, given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    foreign = tmp_path / "some" / "dir"
    foreign.mkdir(parents=True)
    for directory in (foreign.parent, foreign):
        directory.chmod(0o755)
    (foreign / "lock").touch()
    if given == "variable":
        monkeypatch.setenv("ZAEL_STACK", str(foreign))
    assert "must be 3 to 45 characters" in fail(command, *(["--name", str(foreign)] if given == "option" else []))
    assert [stat.S_IMODE(each.stat().st_mode) for each in (foreign.parent, foreign)] == [0o755, 0o755]


def test_data_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert fail("up", "--data", str(tmp_path / "file" / "below")).endswith("Not a directory")


def test_data_that_nothing_would_keep_is_one_line(tmp_path: Path) -> None:
    assert "moto cannot keep items" in fail("up", "--data-plane", "moto", "--data", str(tmp_path))


def test_a_data_plane_that_is_not_there_is_one_line() -> None:
    assert "not found; set" in fail("up", "--name", "my-application", "--data-plane", "dynoxide")


@pytest.mark.parametrize("command", ["down", "status", "env", "logs"])
def test_where_nothing_runs_every_command_says_so(command: str) -> None:
    assert fail(command).startswith("no local stack runs: `zae-limiter local up")


def test_logs_stay_when_a_stack_is_down() -> None:
    state_dir = StateDir("my-app")
    state_dir.logs.mkdir(parents=True)
    (state_dir.logs / "my-app-aggregator.log").write_text(
        "2026-11-20T12:00:01.000Z one\n2026-11-20T12:00:02.000Z two\n"
    )
    shown = run("logs", "--name", "my-app", "--lines", "1").stdout
    assert shown == "2026-11-20T12:00:02.000Z my-app-aggregator  two\n"
    assert fail("logs", "none", "--name", "my-app") == (
        "there is no log of 'none', which begins with its first call; available: my-app-aggregator"
    )


def test_the_screen_fits_on_one() -> None:
    told = ready(RUNNING, detached=True)
    assert len(told.splitlines()) <= 24
    assert max(len(line) for line in told.splitlines()) <= 100


def test_the_status_says_how_far_a_stream_was_read_and_what_holds_it_up() -> None:
    told = status(RUNNING, [READER, {**READER, "failure": "ClientError: no"}]).splitlines()
    assert told[:2] == ["my-app is up at http://127.0.0.1:4588, process 1", "  table  moto, in memory"]
    assert told[2] == "  stream of my-app to my-app-aggregator: 3 records in 2 batches, 1 given up"
    assert told[3] == f"{told[2]}; held up by ClientError: no"


def test_the_status_tells_nobody_the_access_key() -> None:
    told = f"{status(RUNNING, [READER])}{plain_status(RUNNING, [READER])}{ready(RUNNING, detached=True)}"
    assert "KEY" not in told
    assert "secret" not in told


def test_a_stack_that_does_not_answer_is_one_line() -> None:
    with pytest.raises(CommandError, match=r"my-app does not answer at http://127.0.0.1:1: .*; its process is 1"):
        readers(replace(RUNNING, endpoint_url="http://127.0.0.1:1"))
