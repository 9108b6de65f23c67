"""A replay goes by the patterns of resources as a manifest leaves them, and by levels below one that extends them."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from zae_limiter import SyncRateLimiter, SyncRepository
from zae_limiter_cli.main import main

MANIFEST = """\
namespace: a
ignore: [lone-limit]
system: {{limits: {{{system}}}}}
resources:
  "*": {{limits: {{rpm: {all}/hour}}, extends: true}}
  "gpt-*": {{limits: {{tpm: 900/hour}}, extends: true}}
"""


def told(*args: str) -> str:
    done = CliRunner().invoke(main, ["limits", *args])
    assert (done.exit_code, done.stderr) == (0, ""), done.output
    return done.stdout


def written(**values: object) -> str:
    Path("limits.yaml").write_text(MANIFEST.format(**{"system": "rpm: 500/hour", "all": 100} | values))
    return "limits.yaml"


@pytest.fixture(autouse=True)
def used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table on which one entity was admitted fifty times."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ZAEL_STORE", "sqlite:///limits.db")
    told("apply", "--yes", "-f", written())
    with SyncRateLimiter(repository=SyncRepository.sqlite("limits.db", "a")) as limiter:
        for _ in range(50):
            with limiter.acquire("key", "gpt-4", {"rpm": 1, "tpm": 10}):
                pass


def refused(path: str) -> list[str]:
    shown = told("plan", "-f", path, "--replay", "24h").partition("Replay of")[2]
    return [" ".join(line.split()[1:4]) for line in shown.splitlines() if line.startswith("  key ")]


def test_a_cut_of_a_pattern_reaches_a_longer_one_that_extends_it() -> None:
    assert refused(written(all=20)) == ["gpt-4 rpm 20/hour"]


def test_a_cut_of_what_a_pattern_overrides_refuses_no_call() -> None:
    assert refused(written(system="rpm: 5/hour")) == []
