import os
import subprocess
import sys
from pathlib import Path

import pytest

USERS_TESTS = """
import os
import subprocess
import sys

from zae_limiter import Limit, SyncRateLimiter, SyncRepository

PROGRAM = "from zae_limiter import SyncRepository; print(SyncRepository.open().namespace_id)"


def test_a_process_finds_the_same_table(local_stack):
    assert "AWS_PROFILE" not in os.environ
    with SyncRateLimiter(SyncRepository.open(), default_limits=[Limit.per_day("rpd", 2)]) as limiter:
        limiter.create_entity("ann")
        told = subprocess.check_output([sys.executable, "-c", PROGRAM], text=True)
        assert told.strip() == limiter.repository.namespace_id
"""


def run(folder: Path, *, path: str = os.environ["PATH"]) -> subprocess.CompletedProcess[str]:
    (folder / "conftest.py").write_text('pytest_plugins = ["zae_limiter_cli.testing"]\n', encoding="utf-8")
    (folder / "test_limits.py").write_text(USERS_TESTS, encoding="utf-8")
    theirs = {"AWS_PROFILE": "theirs", "ZAEL_STACK": "theirs", "XDG_STATE_HOME": str(folder / "theirs"), "PATH": path}
    command = [sys.executable, "-m", "pytest", "-q", f"--basetemp={folder / 'tmp'}", str(folder)]
    return subprocess.run(command, check=False, cwd=folder, env=os.environ | theirs, capture_output=True, text=True)


@pytest.mark.slow
def test_the_fixture_gives_a_users_tests_a_stack_and_takes_it_down(tmp_path: Path) -> None:
    done = run(tmp_path)
    assert "1 passed" in done.stdout, done.stdout
    assert not (tmp_path / "theirs").exists()
    assert list((tmp_path / "tmp").rglob("local.log"))  # the stack was there, and left its logs
    assert not list((tmp_path / "tmp").rglob("running*"))
