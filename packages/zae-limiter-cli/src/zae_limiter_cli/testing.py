"""A fixture for the tests of programs over DynamoDB; pytest loads it where a conftest.py asks for it.

    pytest_plugins = ["zae_limiter_cli.testing"]

    def test_two_workers_share_a_limit(local_stack):
        ...  # Repository.open() finds the stack, and so does a process that the test starts

Needs the extra ``local``.
"""

import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

_STACK: Final = "stack-of-tests"


@pytest.fixture(scope="session")
def local_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the stack of ``zae-limiter local up`` for a session, and return its name.

    Until the session ends the environment has the variables of ``zae-limiter local env``.
    """
    state = tmp_path_factory.mktemp("local-stack")
    _zae_limiter(state, "up", "--name", _STACK, "--port", "0", "--detach")
    try:
        with pytest.MonkeyPatch.context() as patch:
            for line in _zae_limiter(state, "env").splitlines():
                _apply(shlex.split(line), patch)
            yield _STACK
    finally:
        _zae_limiter(state, "down")


def _zae_limiter(state: Path, *words: str) -> str:
    """Run a command of ``zae-limiter local``, apart from the stacks that the user has up."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(state))
        patch.delenv("ZAEL_STACK", raising=False)
        program = [sys.executable, "-P", "-c", "from zae_limiter_cli.main import main; main()", "local", *words]
        done = subprocess.run(program, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.fail(f"zae-limiter local {words[0]}: {done.stderr.strip()}", pytrace=False)
    return done.stdout


def _apply(words: list[str], patch: pytest.MonkeyPatch) -> None:
    """Do what a shell does with a line of ``zae-limiter local env``."""
    command, *arguments = words
    for argument in arguments:
        if command == "unset":
            patch.delenv(argument, raising=False)
        else:
            patch.setenv(*argument.split("=", 1))
