import re
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from check_siblings import ROOT
from parts import EVERYTHING

FOLDER = ROOT / ".github" / "workflows"
WORKFLOWS = {path.name: yaml.safe_load(path.read_text()) for path in FOLDER.glob("*.yml")}
JOBS = {f"{file}: {name}": job for file, each in WORKFLOWS.items() for name, job in each["jobs"].items()}
RECIPES = re.findall(r"^([a-z-]+)(?: [^:\n]*)?:(?!=)", (ROOT / "justfile").read_text(), re.MULTILINE)
RELEASE = WORKFLOWS["release.yml"]["jobs"]


def _steps(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from job["steps"]


def _uses(job: dict[str, Any], action: str) -> bool:
    return any(step.get("uses", "").startswith(f"{action}@") for step in _steps(job))


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_each_step_of_a_workflow_is_a_recipe(job: dict[str, Any]) -> None:
    for command in (step["run"] for step in _steps(job) if "run" in step):
        match = re.fullmatch(r"uv run (?:--locked )?just ([a-z-]+)(?: [^|&;`\n]+)?", command)
        assert match, command
        assert match[1] in RECIPES


def test_a_push_runs_what_proves_a_change_and_the_night_everything() -> None:
    runs = {
        file: [step["run"] for job in each["jobs"].values() for step in _steps(job) if "run" in step]
        for file, each in WORKFLOWS.items()
    }
    assert "uv run just test-all" in runs["ci.yml"]
    at_night = {re.sub(r"^uv run just ", "", line).split()[0] for line in runs["everything.yml"]}
    # `just test` on each Python, for a runner has one
    assert at_night - {"own-networks", "localstack-image", "test"} == {part.split()[0] for part in EVERYTHING} - {
        "test-pythons"
    }


@pytest.mark.parametrize("job", JOBS.values(), ids=JOBS)
def test_no_command_contains_what_an_event_brings(job: dict[str, Any]) -> None:
    commands = [step.get("run", "") for step in _steps(job)]
    assert not [command for command in commands if re.search(r"\$\{\{(?!\s*matrix\.)", command)]


@pytest.mark.parametrize("file", WORKFLOWS)
def test_each_job_has_its_permissions_and_a_time(file: str) -> None:
    default = WORKFLOWS[file]["permissions"]
    for job in WORKFLOWS[file]["jobs"].values():
        assert "permissions" in job or default == {"contents": "read"}
        assert 0 < job["timeout-minutes"] <= 60


def test_nothing_runs_with_a_token_of_the_checkout() -> None:
    checkouts = [step for job in JOBS.values() for step in _steps(job) if "actions/checkout@" in step.get("uses", "")]
    assert checkouts
    assert all(step["with"]["persist-credentials"] is False for step in checkouts)


def test_one_job_alone_may_speak_to_the_index_and_it_runs_nothing_of_ours() -> None:
    (publish,) = [job for job in RELEASE.values() if "id-token" in job["permissions"]]
    assert publish is RELEASE["publish"]
    assert publish["environment"] == "pypi"
    assert publish["permissions"] == {"id-token": "write", "attestations": "write"}
    assert [step["uses"].partition("@")[0] for step in publish["steps"]] == [
        *("actions/download-artifact", "actions/attest-build-provenance", "pypa/gh-action-pypi-publish")
    ]


def test_what_is_published_was_tested_before() -> None:
    assert RELEASE["publish"]["needs"] == ["build", "test"]
    assert RELEASE["page"]["needs"] == "publish"
    assert _uses(RELEASE["test"], "actions/download-artifact")


def test_a_release_reads_no_cache_that_another_run_wrote() -> None:
    steps = [step for job in RELEASE.values() for step in _steps(job) if "setup-uv@" in step.get("uses", "")]
    assert steps
    assert all(step["with"]["enable-cache"] is False and step["with"]["version"] for step in steps)
