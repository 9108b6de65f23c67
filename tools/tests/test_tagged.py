from pathlib import Path

import pytest

from tagged import name_of


def _tree(root: Path, version: str) -> Path:
    folder = root / "packages" / "zae-limiter-core"
    folder.mkdir(parents=True)
    urls = '[project.urls]\nRepository = "https://git.example/zae/limiter"\n'
    (folder / "pyproject.toml").write_text(f'[project]\nname = "zae-limiter-core"\nversion = "{version}"\n{urls}')
    return root


def test_a_tag_names_a_distribution_of_its_version(tmp_path: Path) -> None:
    where = {"GITHUB_SERVER_URL": "https://git.example", "GITHUB_REPOSITORY": "zae/limiter"}
    for environ in ({}, where):
        assert name_of("zae-limiter-core/v0.2.0", _tree(tmp_path / str(len(environ)), "0.2.0"), environ) == "core"


@pytest.mark.parametrize(
    ("tag", "reason"),
    [
        ("zae-limiter-core/v0.3.0", "the tree has version 0.2.0"),
        ("zae-limiter-kernel/v0.2.0", "no tag of a release"),
        ("zae-limiter-core/v0.2.0;id", "no tag of a release"),
        ("core-v0.2.0", "no tag of a release"),
    ],
)
def test_a_tag_that_is_no_release_of_this_tree_is_refused(tag: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=reason):
        name_of(tag, _tree(tmp_path, "0.2.0"), {})


def test_a_release_from_another_repository_than_its_links_name_is_refused(tmp_path: Path) -> None:
    where = {"GITHUB_SERVER_URL": "https://git.example", "GITHUB_REPOSITORY": "somebody/limiter"}
    with pytest.raises(ValueError, match=r"names another repository than https://git\.example/somebody"):
        name_of("zae-limiter-core/v0.2.0", _tree(tmp_path, "0.2.0"), where)
