"""What an import says where another project's `zae-limiter` is installed beside this one."""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages that has the library, as an environment has it."""
    spec = find_spec("zae_limiter")
    assert spec is not None
    assert spec.origin is not None
    (tmp_path / "zae_limiter").symlink_to(Path(spec.origin).parent)
    (tmp_path / "zae_limiter_core-0.1.0.dist-info").mkdir()
    return tmp_path


def imported(site: Path, *options: str) -> subprocess.CompletedProcess[str]:
    ask = "import zae_limiter; print(zae_limiter.Limit.per_minute('rpm', 1).name, zae_limiter.__path__[0])"
    environ = {**os.environ, "PYTHONPATH": str(site), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, *options, "-c", ask]
    return subprocess.run(command, env=environ, capture_output=True, text=True, check=True)


def test_an_import_warns_of_a_namesake_and_tells_what_to_do(site: Path) -> None:
    (site / "zae_limiter-0.9.1.dist-info").mkdir()
    done = imported(site)
    assert done.stdout == f"rpm {site}/zae_limiter\n"
    warning = done.stderr.splitlines()[0]
    assert "RuntimeWarning: the distribution zae-limiter is another project" in warning
    assert "`pip uninstall zae-limiter zae-limiter-core`" in warning


def test_without_one_it_says_nothing(site: Path) -> None:
    assert imported(site, "-W", "always").stderr == ""
