import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).resolve().parents[5] / "docs/guides/testing.md"
OTHER_PROCESSES = """
import os, subprocess, sys
from zae_limiter import SyncRepository

def test_a_process_finds_the_table_and_nothing_of_the_users_account_is_left(local_stack):
    program = "from zae_limiter import SyncRepository; print(SyncRepository.open().namespace_id)"
    told = subprocess.check_output([sys.executable, "-c", program], text=True).strip()
    assert told == SyncRepository.open().namespace_id
    assert ("AWS_PROFILE" in os.environ, os.environ["ZAEL_STACK"]) == (False, local_stack)
"""
THEIRS = {"AWS_PROFILE": "theirs", "ZAEL_STACK": "theirs"}


@pytest.mark.slow
def test_a_users_tests_get_a_stack_until_they_end(tmp_path: Path) -> None:
    section = PAGE.read_text(encoding="utf-8").partition("## Over a table")[2]
    for name, code in re.findall(r"^```python (\S+)\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)[:2]:
        (tmp_path / name).write_text(code, encoding="utf-8")
    (tmp_path / "test_others.py").write_text(OTHER_PROCESSES, encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", f"--basetemp={tmp_path / 'tmp'}", str(tmp_path)]
    environment = os.environ | THEIRS | {"XDG_STATE_HOME": str(tmp_path / "theirs")}
    done = subprocess.run(command, check=False, cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert "2 passed" in done.stdout, done.stdout
    assert not (tmp_path / "theirs").exists()
    assert list((tmp_path / "tmp").rglob("local.log"))  # the stack was there
    assert not list((tmp_path / "tmp").rglob("running.json"))  # and is down
