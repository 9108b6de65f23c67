import re
import tomllib
from pathlib import Path

import pytest

from house_rules import RULES

ROOT = Path(__file__).parents[2]
ROOT_PAGE = ROOT / "CONTRIBUTING.md"
FOLDER = ROOT / "docs/contribute"
PAGES = {path: path.read_text(encoding="utf-8") for path in (ROOT_PAGE, *sorted(FOLDER.glob("*.md")))}
LIBRARY = ROOT / "packages/zae-limiter-core/src/zae_limiter"
RUFF = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["ruff"]["lint"]
LINKS = {
    (path.parent / link).resolve().relative_to(ROOT).as_posix()
    for path, text in PAGES.items()
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", text)
}
RECIPES = PAGES[FOLDER / "changes.md"]
CHANGES = re.findall(
    r"^## ([^\n]+): (\d+) files\n(.*?)(?=^Only where it applies|^##|\Z)", RECIPES, re.MULTILINE | re.DOTALL
)
STYLE = ROOT_PAGE.read_text(encoding="utf-8").partition("## House style")[2].partition("\n## ")[0]


def test_the_page_that_is_read_first_is_short() -> None:
    assert len(ROOT_PAGE.read_bytes()) < 6_500


def test_the_pages_of_the_folder_are_those_that_the_first_one_names() -> None:
    assert {f"docs/contribute/{path.name}" for path in FOLDER.glob("*.md")} == set(
        re.findall(r"\]\((docs/contribute/[^)#]+)", PAGES[ROOT_PAGE])
    )


@pytest.mark.parametrize("link", sorted(LINKS))
def test_what_the_pages_name_is_there(link: str) -> None:
    assert (ROOT / link).exists()


@pytest.mark.parametrize(("change", "count", "section"), CHANGES, ids=[change for change, *_ in CHANGES])
def test_a_table_has_as_many_files_as_its_heading_counts(change: str, count: str, section: str) -> None:
    files = re.findall(r"^\| \[.+?\]\((.+?)\)", section, re.MULTILINE)
    assert len(set(files)) == len(files) == int(count)


def test_each_kind_of_change_is_described() -> None:
    assert len(CHANGES) == RECIPES.count(" files\n") >= 3


def test_every_recipe_of_the_pages_is_in_the_justfile() -> None:
    recipes = set(
        re.findall(r"^([a-z-]+)(?: [^:\n]*)?:(?!=)", (ROOT / "justfile").read_text(encoding="utf-8"), re.MULTILINE)
    )
    named = {name for text in PAGES.values() for name in re.findall(r"\bjust ([a-z-]+)", text)}
    assert {"test-fast", "check", "coverage"} <= named <= recipes


def test_the_map_has_every_folder_of_the_library() -> None:
    rows = re.findall(r"^\| ((?:`[a-z/]+`(?:, )?)+) \|", PAGES[FOLDER / "code.md"], re.MULTILINE)
    mapped = {name for row in rows for name in re.findall(r"`([a-z/]+)`", row)}
    folders = {path.parent.relative_to(LIBRARY).as_posix() for path in LIBRARY.glob("*/**/*.py")} - {"flows"}
    assert folders <= mapped


@pytest.mark.parametrize("rule", re.findall(r"`([A-Z]{1,4}[0-9]*)`", STYLE))
def test_a_rule_of_ruff_that_the_page_names_is_switched_on(rule: str) -> None:
    assert any(rule.startswith(each) for each in RUFF["select"])
    assert not any(rule.startswith(each) for each in RUFF["ignore"])


def test_each_rule_of_style_says_what_checks_it() -> None:
    rows = re.findall(r"^\| ([^|]+) \| ([^|]+) \|$", STYLE, re.MULTILINE)[1:]
    assert len(rows) >= 6
    checkers = ("ruff `", "house rule `", "import-linter", "`test_parity.py`")
    assert [rule for rule, checker in rows if not checker.startswith(checkers)] == []
    assert set(re.findall(r"house rule `([a-z-]+)`", STYLE)) == {*RULES, "prose"}
    assert f"at most {RUFF['pylint']['max-statements']} statements" in STYLE


def test_the_tests_that_the_page_names_are_there() -> None:
    assert len(list(ROOT.glob("packages/*/tests/**/test_parity.py"))) == 1
