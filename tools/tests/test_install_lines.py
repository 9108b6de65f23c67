import re
from pathlib import Path

import pytest

from check_siblings import ROOT
from install_lines import INSTALLS, pages, problems, turn_over
from release import distributions, released_versions

NAMES = distributions(ROOT)
WHEEL = 'pip install "$(echo wheelhouse/zae_limiter_core-*.whl)[flask]" gunicorn'


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the pages."""
    for page in pages(ROOT):
        copy = tmp_path / page.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        copy.write_text(page.read_text("utf-8"), "utf-8")
    return tmp_path


def test_no_page_installs_what_no_index_has_nor_the_wheel_of_what_it_has() -> None:
    assert list(problems(ROOT, [name for name in NAMES if released_versions(ROOT, name)])) == []


@pytest.mark.parametrize("count", range(1, len(NAMES) + 1))
def test_each_first_release_turns_the_lines_of_its_distribution_over(tree: Path, count: int) -> None:
    before = sum(len(INSTALLS.findall(page.read_text("utf-8"))) for page in pages(tree) if page.name != "install.md")
    for name in NAMES[:count]:
        turn_over(tree, name)
    assert list(problems(tree, NAMES[:count])) == []
    assert before > 15
    if count == len(NAMES):
        text = {page.name: page.read_text("utf-8") for page in pages(tree)}
        del text["releasing.md"]  # which describes these lines
        assert {name for name, each in text.items() if "wheelhouse" in each} == {"install.md"}
        assert not re.search(r"<!-- (until|once) ", "".join(text.values()))


@pytest.mark.parametrize(
    ("line", "turned"),
    [
        (WHEEL, 'pip install "zae-limiter-core[flask]" gunicorn'),
        ("pip install wheelhouse/zae_limiter_core-*.whl openai", "pip install zae-limiter-core openai"),
        ("A sentence about wheelhouse/zae_limiter_core-*.whl", "A sentence about wheelhouse/zae_limiter_core-*.whl"),
    ],
)
def test_a_line_is_turned_over(tmp_path: Path, line: str, turned: str) -> None:
    page = tmp_path / "README.md"
    page.write_text(f"{line}\n")
    turn_over(tmp_path, "zae-limiter-core")
    assert page.read_text() == f"{turned}\n"


@pytest.mark.parametrize(
    ("line", "released", "found"),
    [
        ("Run `pip install zae-limiter-core`.", [], "no index has zae-limiter-core"),
        ("uv tool install 'zae-limiter-cli[local]'", ["zae-limiter-core"], "no index has zae-limiter-cli"),
        ("pip install boto3 \\\n  zae-limiter-core", [], "no index has zae-limiter-core"),
        ("pip install zae-limiter", NAMES, "no index has zae-limiter"),
        (WHEEL, ["zae-limiter-core"], "it is released"),
    ],
)
def test_a_wrong_line_is_found(tmp_path: Path, line: str, released: list[str], found: str) -> None:
    (tmp_path / "README.md").write_text(f"{line}\n")
    (problem,) = problems(tmp_path, released)
    assert problem.endswith(found)


def test_no_message_tells_to_install_a_distribution_of_ours() -> None:
    for source in ROOT.glob("packages/*/src/**/*.py"):
        for command in INSTALLS.findall(source.read_text("utf-8")):
            assert "zae-limiter" not in command, source
