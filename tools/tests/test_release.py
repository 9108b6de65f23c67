import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

from check_siblings import ROOT, from_project, problems
from release import Refused, bound, check, release, released_versions

NAMES = ["core", "manifest", "provisioner", "aggregator", "cli"]  # each after those that it requires


@pytest.fixture(scope="session", autouse=True)
def author() -> Iterator[None]:
    """Commits have an author, whatever the machine's settings."""
    with pytest.MonkeyPatch.context() as patch:
        for role in ("AUTHOR", "COMMITTER"):
            patch.setenv(f"GIT_{role}_NAME", "Ann")
            patch.setenv(f"GIT_{role}_EMAIL", "ann@example.com")
        yield


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A clone of what is committed."""
    return _clone(ROOT, tmp_path / "clone")


@pytest.fixture(scope="session")
def first_releases(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A clone in which every distribution has its first release."""
    clone = _clone(ROOT, tmp_path_factory.mktemp("released") / "clone")
    for name in NAMES:
        release(clone, f"zae-limiter-{name}", "0.1.0")
    return clone


@pytest.fixture
def released(first_releases: Path, tmp_path: Path) -> Path:
    """A clone of that one."""
    return _clone(first_releases, tmp_path / "released")


def _clone(source: Path, folder: Path) -> Path:
    subprocess.run(["git", "clone", "--quiet", "--no-hardlinks", source, folder], check=True)
    return folder


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=True).stdout.strip()


def _news(clone: Path, name: str) -> None:
    fragment = clone / "packages" / f"zae-limiter-{name}" / "changelog.d" / "+news.feature.md"
    fragment.write_text("Something new.\n")
    _git(clone, "add", "--all")
    _git(clone, "commit", "--quiet", "--message", "Add something new")


def _versions(clone: Path) -> dict[str, str]:
    projects = [from_project(path.read_text()) for path in clone.glob("packages/*/pyproject.toml")]
    return {each.name.removeprefix("zae-limiter-"): each.version for each in projects}


def _locked(clone: Path, name: str) -> str:
    packages = tomllib.loads((clone / "uv.lock").read_text())["package"]
    return next(str(each["version"]) for each in packages if each["name"] == f"zae-limiter-{name}")


@pytest.mark.parametrize(
    ("version", "expected"),
    [("0.2.0", ">=0.2.0,<0.3"), ("0.2.7", ">=0.2.7,<0.3"), ("1.0.0", ">=1.0.0,<2"), ("1.4.2", ">=1.4.2,<2")],
)
def test_a_bound_ends_below_the_next_version_that_may_break(version: str, expected: str) -> None:
    assert bound(version) == expected


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_one_distribution_moves_while_the_others_stay(name: str, released: Path) -> None:
    _news(released, name)
    release(released, f"zae-limiter-{name}", "0.2.0")
    assert _versions(released) == {**dict.fromkeys(NAMES, "0.1.0"), name: "0.2.0"}
    assert [_locked(released, each) for each in NAMES] == [_versions(released)[each] for each in NAMES]
    subprocess.run(["uv", "lock", "--quiet", "--check"], cwd=released, check=True)
    package = released / "packages" / f"zae-limiter-{name}"
    assert list((package / "changelog.d").glob("*.md")) == []
    first, second = (package / "CHANGELOG.md").read_text().split("\n## ")[1:]
    assert first.startswith("0.2.0 (20")
    assert "Something new." in first
    assert second.startswith("0.1.0 (20")
    assert _git(released, "status", "--porcelain") == ""
    assert _git(released, "cat-file", "-t", f"zae-limiter-{name}/v0.2.0") == "tag"
    assert _git(released, "rev-list", "-1", f"zae-limiter-{name}/v0.2.0") == _git(released, "rev-parse", "HEAD")
    assert _git(released, "worktree", "list").count("\n") == 0


@pytest.mark.slow
def test_the_bounds_of_siblings_move_with_what_may_break_them_and_only_then(released: Path) -> None:
    before = (released / "packages/zae-limiter-cli/pyproject.toml").read_text()
    _news(released, "core")
    assert "its bound moved" not in release(released, "zae-limiter-core", "0.1.1")
    assert (released / "packages/zae-limiter-cli/pyproject.toml").read_text() == before
    _news(released, "core")
    told = release(released, "zae-limiter-core", "0.2.0")
    assert "release them next, in this order: zae-limiter-aggregator, zae-limiter-provisioner, zae-limiter-cli" in told
    after = (released / "packages/zae-limiter-cli/pyproject.toml").read_text()
    assert after == before.replace("zae-limiter-core>=0.1.0,<0.2", "zae-limiter-core>=0.2.0,<0.3")
    projects = [from_project(path.read_text()) for path in released.glob("packages/*/pyproject.toml")]
    assert problems(projects) == []
    for name in ("aggregator", "provisioner", "cli"):
        release(released, f"zae-limiter-{name}", "0.1.1")
        changelog = (released / "packages" / f"zae-limiter-{name}" / "CHANGELOG.md").read_text()
        assert "- Requires `zae-limiter-core>=0.2.0,<0.3`." in changelog
    assert "zae-limiter-manifest" not in _git(released, "diff", "--name-only", "HEAD~4")


@pytest.mark.slow
def test_a_dry_run_shows_the_commit_and_leaves_everything(clone: Path) -> None:
    before = _git(clone, "for-each-ref")
    shown = release(clone, "zae-limiter-core", "0.2.0", dry_run=True)
    assert shown.startswith("Release zae-limiter-core 0.2.0")
    assert "packages/zae-limiter-core/CHANGELOG.md" in shown
    assert "zae-limiter-cli requires zae-limiter-core>=0.2.0,<0.3." in shown
    assert (_git(clone, "for-each-ref"), _git(clone, "status", "--porcelain")) == (before, "")


def test_a_release_that_fails_half_way_leaves_everything(clone: Path) -> None:
    (clone / "pyproject.toml").write_text("[project\n")
    _git(clone, "commit", "--quiet", "--all", "--message", "Break the workspace")
    before = _git(clone, "for-each-ref")
    with pytest.raises(Refused, match="nothing is released"):
        release(clone, "zae-limiter-core", "0.2.0")
    assert (_git(clone, "for-each-ref"), _git(clone, "status", "--porcelain")) == (before, "")
    assert _git(clone, "worktree", "list").count("\n") == 0


@pytest.mark.parametrize(
    ("name", "version", "reason"),
    [
        ("kernel", "0.2.0", "no such distribution; there are zae-limiter-"),
        ("core", "0.2", "a version is three numbers"),
        ("core", "0.2.0rc1", "a version is three numbers"),
        ("core", "00.2.0", "a version is three numbers"),
        ("core", "0.0.9", "0.0.9 is older than "),
        ("cli", "0.2.0", "needs zae-limiter-core.* release zae-limiter-core first"),
    ],
)
def test_a_release_that_cannot_be_is_refused(clone: Path, name: str, version: str, reason: str) -> None:
    for changelog in clone.glob("packages/*/CHANGELOG.md"):
        changelog.write_text("")
    _git(clone, "commit", "--quiet", "--allow-empty", "--all", "--message", "Forget every release")
    with pytest.raises(Refused, match=reason):
        check(clone, f"zae-limiter-{name}", version)


def test_a_tree_with_changes_is_refused(clone: Path) -> None:
    (clone / "notes.txt").write_text("mine")
    with pytest.raises(Refused, match="the tree has changes"):
        check(clone, "zae-limiter-core", "9.0.0")


def test_an_existing_tag_is_refused(clone: Path) -> None:
    _git(clone, "tag", "zae-limiter-core/v9.0.0")
    with pytest.raises(Refused, match=r"the tag zae-limiter-core/v9\.0\.0 exists"):
        check(clone, "zae-limiter-core", "9.0.0")


@pytest.mark.parametrize("version", ["0.9.9", "1.0.0"])
def test_a_version_that_is_not_newer_than_the_last_release_is_refused(clone: Path, version: str) -> None:
    with (clone / "packages/zae-limiter-core/CHANGELOG.md").open("a") as changelog:
        changelog.write("\n## 1.0.0 (2030-01-01)\n\n## 0.9.0 (2029-01-01)\n")
    _git(clone, "commit", "--quiet", "--all", "--message", "Write down a release")
    with pytest.raises(Refused, match=f"{version} is not newer than 1.0.0"):
        check(clone, "zae-limiter-core", version)


def test_a_release_without_news_is_refused(clone: Path) -> None:
    _git(clone, "rm", "--quiet", "--ignore-unmatch", "packages/zae-limiter-core/changelog.d/*.md")
    _git(clone, "commit", "--quiet", "--allow-empty", "--message", "Say nothing")
    with pytest.raises(Refused, match="has no fragment"):
        check(clone, "zae-limiter-core", "9.0.0")


@pytest.mark.parametrize("name", NAMES)
def test_before_its_first_release_a_distribution_has_one_short_text(name: str) -> None:
    """Nobody reads how something came to be that was never released."""
    distribution = f"zae-limiter-{name}"
    fragments = [path.name for path in (ROOT / "packages" / distribution / "changelog.d").glob("*.md")]
    assert released_versions(ROOT, distribution) or fragments == ["+first-release.feature.md"]
