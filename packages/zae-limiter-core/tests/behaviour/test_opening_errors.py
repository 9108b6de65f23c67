"""What a program shows that opens a repository with a setting that is missing: one error, and few lines."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SYNC = "from zae_limiter import SyncRepository\n{}"
ASYNC = "import asyncio\nfrom zae_limiter import Repository\nasync def main():\n    {}\nasyncio.run(main())"


@pytest.mark.long(keep=1)
@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        SYNC.format("SyncRepository.open()"),
        SYNC.format("SyncRepository.builder().build()"),
        ASYNC.format("await Repository.open()"),
        ASYNC.format("await Repository.builder().build()"),
    ],
)
def test_a_missing_region_is_one_error_of_the_program(program: str, tmp_path: Path) -> None:
    script = tmp_path / "main.py"
    script.write_text(program)
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    environment["HOME"] = str(tmp_path)
    done = subprocess.run([sys.executable, str(script)], check=False, env=environment, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.count("Traceback") == 1
    assert "pass region=, or set AWS_REGION" in done.stderr.splitlines()[-1]
    ours = [line for line in done.stderr.splitlines() if "zae_limiter" in line and line.lstrip().startswith("File")]
    assert len(ours) == 1
