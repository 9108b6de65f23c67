"""What the command says where another project's `zae-limiter` is installed beside this one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder of packages with the metadata of the other project."""
    (tmp_path / "zae_limiter-0.9.1.dist-info").mkdir()
    (tmp_path / "zae_limiter-0.9.1.dist-info" / "METADATA").write_text("Name: zae-limiter\nVersion: 0.9.1\n")
    return tmp_path


def command(site: Path, *words: str) -> subprocess.CompletedProcess[str]:
    ask = "import sys; sys.argv[0] = 'zae-limiter'; from zae_limiter_cli.main import main; main()"
    environ = {**os.environ, "PYTHONPATH": str(site)}
    return subprocess.run([sys.executable, "-c", ask, *words], env=environ, capture_output=True, text=True, check=False)


def test_version_tells_what_is_installed_and_then_of_the_namesake(site: Path) -> None:
    done = command(site, "--version")
    assert done.returncode == 1
    assert "zae-limiter-core " in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: the distribution zae-limiter 0.9.1 is another project")
    assert "`pip uninstall zae-limiter zae-limiter-core zae-limiter-cli`" in line


@pytest.mark.parametrize("words", [("demo",), ("status",)])
def test_a_command_that_finds_the_namesakes_module_says_so_in_one_line(site: Path, words: tuple[str, ...]) -> None:
    (site / "zae_limiter").mkdir()
    (site / "zae_limiter" / "__init__.py").touch()
    done = command(site, *words)
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert line.startswith("Error: the distribution zae-limiter 0.9.1 is another project")
