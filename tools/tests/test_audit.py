"""What lives here: what an audit of dependencies asks about, and that no file admits an older release than another.
What never does: which releases have holes; `just audit` asks that.
"""

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

import audit
from check_siblings import ROOT

BOUND = re.compile(r"(?P<name>[A-Za-z0-9_.-]+)(\[[^]]*\])?>=(?P<version>[0-9][0-9a-z.]*)")
PROJECTS = [ROOT / "pyproject.toml", *sorted(ROOT.glob("packages/*/pyproject.toml"))]
WITHOUT_HOLES = {"jinja2": (3, 1, 6), "starlette": (1, 3, 1)}
"""The first release with no hole known on 28 November 2026."""


def bounds(path: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The lower bound of each requirement of a file, in extras and groups as well."""
    plain = tomllib.loads(path.read_text("utf-8"))
    project = plain["project"]
    lists = [*project.get("optional-dependencies", {}).values(), *plain.get("dependency-groups", {}).values()]
    for each in [*project.get("dependencies", []), *(each for those in lists for each in those)]:
        if match := BOUND.match(each):
            yield match["name"], tuple(int(part) for part in re.findall(r"\d+", match["version"]))


def test_each_extra_is_audited_without_our_own_packages() -> None:
    asked = dict(audit.requirements())
    assert {"zae-limiter-core", "zae-limiter-core[fastapi]", "zae-limiter-cli[console]"} <= set(asked)
    for path in PROJECTS[1:]:
        project = tomllib.loads(path.read_text("utf-8"))["project"]
        for extra, wanted in project.get("optional-dependencies", {}).items():
            assert asked[f"{project['name']}[{extra}]"] == [each for each in wanted if "zae-limiter" not in each]
    assert not [each for wanted in asked.values() for each in wanted if each.startswith("zae-limiter")]


def test_the_audit_asks_of_both_locks_and_of_the_lowest_and_newest_releases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its requests are played: there are no advisories without a network."""
    asked: list[tuple[str, ...]] = []
    scripts: list[str] = []

    def run(*command: str, cwd: Path | None = None) -> None:
        asked.append(command)
        if "--script" in command:
            scripts.append(Path(command[command.index("--script") + 1]).read_text("utf-8"))

    monkeypatch.setattr(audit, "run", run)
    audit.main()
    assert asked[0] == (*audit.UV_AUDIT, "--locked")
    assert asked[-1][:2] == ("npm", "audit")
    assert {command[-1] for command in asked[1:-1]} == {"lowest-direct", "highest"}
    assert any("'starlette>=1.3.1'" in script for script in scripts)
    assert len(scripts) == 2 * len([*audit.requirements()]) - len(audit.NEWEST_ALONE)
    for script in scripts:  # as PEP 723 reads it
        lines = script.splitlines()
        assert (lines[0], lines[-1]) == ("# /// script", "# ///")
        assert "dependencies" in tomllib.loads("\n".join(line.removeprefix("# ") for line in lines[1:-1]))


def test_an_extra_whose_oldest_releases_have_holes_is_told_in_the_guide() -> None:
    page = (ROOT / "docs" / "guides" / "llm.md").read_text("utf-8")
    assert set(audit.NEWEST_ALONE) <= {name for name, _ in audit.requirements()}
    assert "LiteLLM before 1.88 and LangChain core before 1.3.3 have known holes" in page


def test_what_an_extra_requires_has_one_lower_bound_everywhere() -> None:
    found: defaultdict[str, set[tuple[int, ...]]] = defaultdict(set)
    extras = set()
    for path in PROJECTS:
        for name, version in bounds(path):
            found[name].add(version)
        for wanted in tomllib.loads(path.read_text("utf-8"))["project"].get("optional-dependencies", {}).values():
            extras |= {match["name"] for each in wanted if (match := BOUND.match(each))}
    assert {name: found[name] for name in extras if len(found[name]) > 1} == {}


@pytest.mark.parametrize("name", WITHOUT_HOLES)
def test_no_file_admits_a_release_with_a_known_hole(name: str) -> None:
    lowest = [version for path in PROJECTS for each, version in bounds(path) if each == name]
    assert lowest
    assert min(lowest) >= WITHOUT_HOLES[name]


def test_the_workflow_audits_every_day() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "audit.yml").read_text("utf-8"))
    assert set(workflow[True]) == {"push", "pull_request", "schedule"}  # YAML 1.1 reads `on` as true
    (job,) = workflow["jobs"].values()
    assert job["steps"][-1] == {"run": "uv run --locked just audit"}
