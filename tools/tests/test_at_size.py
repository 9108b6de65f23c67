"""What lives here: what docs/operate/at-size.md shows fits its terminals, and its plan is what the command says today.
What never does: the times, which are on the page of benchmarks.
"""

import re
from pathlib import Path
from textwrap import dedent

import pytest
from benchmarks.declared_walk import PAGE, WIDTHS, Step, page_with, write_files
from click.testing import CliRunner

from zae_limiter_cli.main import main

SECTION = re.compile(r"^### (.+?)\n(.*?)(?=^###|^<!-- end)", re.MULTILINE | re.DOTALL)
TAB = re.compile(r'^=== "(\d+) columns"\n\n    ```text\n(.*?)^    ```$', re.MULTILINE | re.DOTALL)
SHOWN = {
    title: {int(width): dedent(text) for width, text in TAB.findall(tabs)}
    for title, tabs in SECTION.findall(PAGE.read_text())
}


def test_each_step_is_shown_in_each_terminal() -> None:
    assert len(SHOWN) == 10
    assert {tuple(tabs) for tabs in SHOWN.values()} == {WIDTHS}


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("title", SHOWN)
def test_no_line_is_longer_than_its_terminal_unless_a_hash_is(title: str, width: int) -> None:
    _, *lines = SHOWN[title][width].splitlines()
    longer = [line for line in lines if len(line) > width and not re.search(r"sha256:[0-9a-f]{64}$", line)]
    assert longer == []


@pytest.mark.slow
@pytest.mark.parametrize(("title", "words"), [("Validate", ["validate"]), ("Plan", ["plan"])])
def test_what_the_page_shows_is_what_the_command_says(title: str, words: list[str], tmp_path: Path) -> None:
    write_files(tmp_path)
    store = ["--store", f"sqlite:///{tmp_path / 'limits.db'}"]
    done = CliRunner().invoke(main, ["limits", *words, "-f", str(tmp_path), *store])
    assert done.exit_code == 0, done.output
    for shown in SHOWN[title].values():
        _, told = shown.split("\n", 1)
        assert told.split() == done.stdout.split()


def test_a_walk_fills_the_page_between_its_markers() -> None:
    page = "before\n<!-- walk -->\nold\n<!-- end -->\nafter\n"
    walks = {80: [Step("plan", "limits plan", 1.0, "a\n")], 60: [Step("plan", "limits plan", 1.0, "b\n")]}
    before, plan, wide, narrow, after = page_with(page, walks).split("\n\n", 4)
    assert (before, plan, wide) == ("before\n<!-- walk -->", "### Plan", '=== "80 columns"')
    assert narrow == "    ```text\n    $ zae-limiter limits plan\n    a\n    ```"
    assert after.startswith('=== "60 columns"\n\n    ```text\n    $ zae-limiter limits plan\n    b\n')
    assert after.endswith("<!-- end -->\nafter\n")
