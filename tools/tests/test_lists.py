import re

import pytest

from lists import BLOCK, DOCS, methods, overview, written
from zae_limiter_cli.main import main


@pytest.mark.parametrize("page", ["cli.md", "core.md"])
def test_the_lists_of_a_page_are_what_the_code_says(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert BLOCK.search(text)
    assert written(text) == text, "run `just lists`"


def test_the_overview_has_each_command_at_the_top() -> None:
    assert set(re.findall(r"^\| `(\S+)` \| .+\. \|$", overview([]), re.MULTILINE)) == set(main.entries)


def test_a_method_is_told_by_the_first_sentence_of_its_docstring() -> None:
    table = methods(["buckets"])
    told = "Reset all limits of a bucket to their initial balance, debt included; return whether there was a bucket."
    assert f"| `reset_bucket` | {told} |" in table
    assert not re.search(r"\| `_", table)
