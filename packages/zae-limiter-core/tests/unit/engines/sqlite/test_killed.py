import subprocess
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[3]


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="needs a system with fork and SIGKILL")
def test_killed_processes_leave_the_file_exact() -> None:
    command = [sys.executable, "-m", "support.core.killed", "--seconds", "3"]
    done = subprocess.run(command, cwd=TESTS, capture_output=True, text=True, timeout=120, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Account(") == 3
