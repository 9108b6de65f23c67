import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from zae_limiter_cli.main import main

HERE = Path(__file__).parents[1]
FILE = HERE / ".github/workflows/limits.yaml"
WORKFLOW: dict[Any, Any] = yaml.safe_load(FILE.read_text())
SCRIPTS = {name: [step["run"] for step in job["steps"] if "run" in step] for name, job in WORKFLOW["jobs"].items()}
COMMANDS = [
    line for scripts in SCRIPTS.values() for line in re.findall(r"^zae-limiter .*", "\n".join(scripts), re.MULTILINE)
]
GH = """#!/usr/bin/env bash
# GitHub, with one pull request and one comment
case "$1 $2" in
    "pr comment") cp "${!#}" comment.md ;;
    "pr view") grep -o "sha256:[0-9a-f]\\{64\\}" comment.md | tail -n 1 ;;
    "api "*) echo 7 ;;
    *) exit 1 ;;
esac
"""


def test_each_job_has_a_machine_and_its_own_permissions() -> None:
    assert (WORKFLOW["permissions"], set(WORKFLOW[True])) == ({}, {"pull_request", "push", "schedule"})  # YAML's `on`
    for job in WORKFLOW["jobs"].values():
        assert job["runs-on"] == "ubuntu-latest"
        assert job["permissions"]["contents"] == "read"
        assert all(("run" in step) != ("uses" in step) for step in job["steps"])


def test_actions_are_pinned_by_commit() -> None:
    used = re.findall(r"uses: (.*)", FILE.read_text())
    assert used
    assert all(re.fullmatch(r"[\w./-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", each) for each in used)


@pytest.mark.parametrize("command", COMMANDS)
def test_the_command_line_knows_every_command_and_option(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(HERE)
    words = shlex.split(command.partition(">")[0])[1:]
    found: click.Command = main
    while isinstance(found, click.Group):
        found = found.get_command(click.Context(found), words.pop(0))
    found.make_context(found.name, words)


class Repository:
    """A clone in which the jobs of the workflow run."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.limits = folder / "limits/tenant-alpha.yaml"
        shutil.copytree(HERE / "limits", folder / "limits")
        (folder / "bin").mkdir()
        (folder / "bin/gh").write_text(GH)
        (folder / "bin/gh").chmod(0o755)

    def run(self, job: str) -> subprocess.CompletedProcess[str]:
        """Run a job, but for the step that installs the command line."""
        script = "\n".join(each for each in SCRIPTS[job] if "uv tool install" not in each)
        script = script.replace("${{ github.event.number }}", "7")
        path = os.pathsep.join([str(self.folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
        environ = os.environ | {"PATH": path, "GITHUB_REPOSITORY": "acme/limits", "GITHUB_SHA": "9f3c2e1"}
        command = ["bash", "-eo", "pipefail", "-c", script]
        return subprocess.run(command, check=False, cwd=self.folder, env=environ, capture_output=True, text=True)

    def change(self, before: str, after: str) -> None:
        self.limits.write_text(self.limits.read_text().replace(before, after))


def test_a_merge_applies_what_the_pull_request_has_shown_and_nothing_else(local_stack: str, tmp_path: Path) -> None:
    repository = Repository(tmp_path)
    assert repository.run("plan").returncode == 0
    assert "| `rpm` | `100/min` |" in (tmp_path / "comment.md").read_text()
    repository.change("capacity: 100}", "capacity: 1000}")  # after the plan was approved
    refused = repository.run("apply")
    assert (refused.returncode, "sha256:" in refused.stderr) == (1, True)
    repository.change("capacity: 1000}", "capacity: 100}")
    applied = repository.run("apply")
    assert applied.returncode == 0, applied.stderr
    assert repository.run("drift").returncode == 0
    by_hand = ["resource", "set-defaults", "gpt-5", "--limit", "rpm:999", "--namespace", "tenant-alpha", "--yes"]
    main(by_hand, standalone_mode=False)
    assert repository.run("drift").returncode == 2
