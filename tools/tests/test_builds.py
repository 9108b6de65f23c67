import hashlib
from pathlib import Path

import pytest

from builds import newest_section, sums

CHANGELOG = (
    "# Changelog of it\n\n<!-- start -->\n\n## 0.2.0 (2026-01-02)\n\n### New\n\n- Two.\n\n## 0.1.0 (2026-01-01)\n"
)


def test_the_page_of_a_release_has_the_newest_section_alone() -> None:
    assert newest_section(CHANGELOG) == "## 0.2.0 (2026-01-02)\n\n### New\n\n- Two.\n\n"
    assert newest_section(CHANGELOG.partition("## 0.1.0")[0]) == newest_section(CHANGELOG)


def test_a_changelog_without_a_release_has_no_page() -> None:
    with pytest.raises(SystemExit, match="no release"):
        newest_section("# Changelog of it\n")


def test_sums_are_those_that_sha256sum_checks(tmp_path: Path) -> None:
    for name in ("b.whl", "a.tar.gz"):
        (tmp_path / name).write_text(name)
    digests = [hashlib.sha256(name.encode()).hexdigest() for name in ("a.tar.gz", "b.whl")]
    assert sums(tmp_path) == f"{digests[0]}  a.tar.gz\n{digests[1]}  b.whl\n"
    assert sums(tmp_path, "*.whl") == f"{digests[1]}  b.whl\n"


def test_a_folder_without_files_is_not_published(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="is empty"):
        sums(tmp_path)
