"""What lives here: the release of one distribution: changelog, version, bounds of its siblings, lock file, commit, tag.
What never does: a push, or an upload.

    release.py [--dry-run] NAME VERSION     NAME without `zae-limiter-`

Everything happens in a worktree of its own; the branch moves to the finished commit, or stays.
"""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from graphlib import TopologicalSorter
from pathlib import Path
from typing import Final

from packaging.requirements import Requirement
from packaging.version import Version

from check_siblings import ROOT, Distribution, from_project
from install_lines import turn_over

VERSION: Final = re.compile(r"(0|[1-9]\d*)(\.(0|[1-9]\d*)){2}")
RELEASED: Final = re.compile(r"^## (\d+\.\d+\.\d+) \(", re.MULTILINE)


class Refused(Exception):
    """Why there is no release, and what to do."""


def bound(version: str) -> str:
    """Return what a sibling requires: this version at least, and less than the next one that may break it."""
    major, minor, _ = Version(version).release
    return f">={version},<{major + 1}" if major else f">={version},<0.{minor + 1}"


def tag_of(distribution: str, version: str) -> str:
    """Return ``zae-limiter-core/v0.2.0``."""
    return f"{distribution}/v{version}"


def release(root: Path, distribution: str, version: str, *, dry_run: bool = False) -> str:
    """Make commit and tag, without ``dry_run``; what to do next. Raises ``Refused`` with everything as it was."""
    before = _git(root, "rev-parse", "HEAD")
    check(root, distribution, version)
    with _worktree(root) as tree:
        moved = _prepare(tree, distribution, version)
        commit = _git(tree, "rev-parse", "HEAD")
        if dry_run:
            return _git(tree, "show", "--stat", "--format=%s%n%n%b", commit)
    tag = tag_of(distribution, version)
    _git(root, "merge", "--quiet", "--ff-only", commit)
    try:
        _git(root, "tag", "--annotate", "--message", f"{distribution} {version}", tag)
    except Refused:
        _git(root, "reset", "--quiet", "--keep", before)
        raise
    lines = [f"{distribution} {version}: commit {commit[:7]}, tag {tag}"]
    if moved:
        lines.append(f"its bound moved, release them next, in this order: {', '.join(moved)}")
    return "\n".join([*lines, f"publish it: git push origin HEAD {tag}"])


def check(root: Path, distribution: str, version: str) -> None:
    """Raise ``Refused`` where the release cannot be."""
    projects = {each.name: each for each in _projects(root)}
    if distribution not in projects:
        raise Refused(f"{distribution}: no such distribution; there are {', '.join(projects)}")
    if not VERSION.fullmatch(version):
        raise Refused(f"{version}: a version is three numbers, such as 0.2.0")
    if _git(root, "status", "--porcelain"):
        raise Refused("the tree has changes that are not committed: commit them, or put them aside")
    if _git(root, "tag", "--list", tag_of(distribution, version)):
        raise Refused(f"the tag {tag_of(distribution, version)} exists: choose a newer version")
    if not list((root / "packages" / distribution / "changelog.d").glob("*.md")):
        raise Refused(f"packages/{distribution}/changelog.d has no fragment: say what is new in one")
    _check_newer(root, projects[distribution], version)
    for requirement in map(Requirement, projects[distribution].requires):
        if requirement.name in projects and not any(
            requirement.specifier.filter(released_versions(root, requirement.name))
        ):
            raise Refused(f"{distribution} needs {requirement}, which has no release: release {requirement.name} first")


def _check_newer(root: Path, project: Distribution, version: str) -> None:
    latest = max(released_versions(root, project.name), key=Version, default=None)
    if latest and Version(version) <= Version(latest):
        raise Refused(f"{version} is not newer than {latest}, which {project.name} has released")
    if Version(version) < Version(project.version):
        raise Refused(f"{version} is older than {project.version}, which {project.name} has")


def _prepare(tree: Path, distribution: str, version: str) -> list[str]:
    """Commit the release; the siblings with another bound than before."""
    moved = [each.name for each in _projects(tree) if _move_bound(tree, each, distribution, version)]
    _run(tree, "uv", "version", "--quiet", "--frozen", "--package", distribution, version)
    _run(tree, "uv", "lock", "--quiet")
    _run(
        tree,
        *(sys.executable, "-m", "towncrier", "build", "--yes", "--version", version),
        *("--config", "pyproject.toml", "--dir", f"packages/{distribution}"),
    )
    turn_over(tree, distribution)
    _git(tree, "add", "--all")
    body = "".join(f"\n{sibling} requires {distribution}{bound(version)}." for sibling in moved)
    _git(tree, "commit", "--quiet", "--message", f"Release {distribution} {version}\n{body}")
    return moved


def _move_bound(tree: Path, sibling: Distribution, distribution: str, version: str) -> bool:
    (old,) = [each for each in sibling.requires if Requirement(each).name == distribution] or [""]
    if not old or Requirement(old).specifier.contains(version):
        return False
    new = distribution + bound(version)
    folder = tree / "packages" / sibling.name
    project = folder / "pyproject.toml"
    project.write_text(project.read_text("utf-8").replace(f'"{old}"', f'"{new}"'), "utf-8")
    (folder / "changelog.d" / f"+{distribution}.feature.md").write_text(f"Requires `{new}`.\n", "utf-8")
    return True


def distributions(root: Path) -> list[str]:
    """Return the names of all, each after those that it requires: the order of first releases."""
    return [each.name for each in _projects(root)]


def _projects(root: Path) -> list[Distribution]:
    """All, each after those that it requires: the order of releases."""
    found = [from_project(path.read_text("utf-8")) for path in sorted(root.glob("packages/*/pyproject.toml"))]
    by_name = {each.name: each for each in found}
    needs = {each.name: [Requirement(other).name for other in each.requires] for each in found}
    return [by_name[name] for name in TopologicalSorter(needs).static_order() if name in by_name]


def released_versions(root: Path, distribution: str) -> list[str]:
    """Return the versions that a distribution's changelog has, the newest first."""
    return RELEASED.findall((root / "packages" / distribution / "CHANGELOG.md").read_text("utf-8"))


@contextmanager
def _worktree(root: Path) -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch) / "tree"
        _git(root, "worktree", "add", "--quiet", "--detach", str(tree))
        try:
            yield tree
        finally:
            _git(root, "worktree", "remove", "--force", str(tree))


def _git(folder: Path, *arguments: str) -> str:
    return _run(folder, "git", *arguments)


def _run(folder: Path, *command: str) -> str:
    environ = {name: value for name, value in os.environ.items() if name != "VIRTUAL_ENV"}
    done = subprocess.run(command, cwd=folder, env=environ, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Refused(f"`{' '.join(command)}` failed, and nothing is released:\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout.strip()


def main() -> int:
    """Print what was done, or why not."""
    parser = argparse.ArgumentParser(description="Release one distribution.")
    parser.add_argument("name", help="without zae-limiter-: core")
    parser.add_argument("version", help="such as 0.2.0")
    parser.add_argument("--dry-run", action="store_true", help="show the commit, and leave everything as it is")
    given = parser.parse_args()
    try:
        print(release(ROOT, f"zae-limiter-{given.name}", given.version, dry_run=given.dry_run))
    except Refused as refused:
        print(f"error: {refused}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
