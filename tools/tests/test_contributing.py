import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
LIBRARY = ROOT / "packages/zae-limiter-core/src/zae_limiter"
DESIGN = "docs/design/"
LINKS = [
    link for link in re.findall(r"\]\(([^)#]+)\)", PAGE) if (ROOT / DESIGN).is_dir() or not link.startswith(DESIGN)
]
CHANGES = re.findall(r"^### ([^\n]+): (\d+) files\n(.*?)(?=^Only where it applies|^##)", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("link", sorted(set(LINKS)))
def test_what_the_page_names_is_there(link: str) -> None:
    assert (ROOT / link).exists()


@pytest.mark.parametrize(("change", "count", "section"), CHANGES, ids=[change for change, *_ in CHANGES])
def test_a_table_has_as_many_files_as_its_heading_counts(change: str, count: str, section: str) -> None:
    files = re.findall(r"^\| \[.+?\]\((.+?)\)", section, re.MULTILINE)
    assert len(set(files)) == len(files) == int(count)


def test_each_kind_of_change_is_described() -> None:
    assert len(CHANGES) == PAGE.count(" files\n") >= 3


def test_every_recipe_of_the_page_is_in_the_justfile() -> None:
    recipes = set(
        re.findall(r"^([a-z-]+)(?: [^:\n]*)?:(?!=)", (ROOT / "justfile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    named = set(re.findall(r"\bjust ([a-z-]+)", PAGE))
    assert {"test-fast", "check"} <= named <= recipes


def test_the_map_has_every_folder_of_the_library() -> None:
    rows = re.findall(r"^\| ((?:`[a-z/]+`(?:, )?)+) \|", PAGE, re.MULTILINE)
    mapped = {name for row in rows for name in re.findall(r"`([a-z/]+)`", row)}
    folders = {path.parent.relative_to(LIBRARY).as_posix() for path in LIBRARY.glob("*/**/*.py")} - {"flows"}
    assert folders <= mapped
