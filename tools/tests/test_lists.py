import re

import pytest

from lists import BLOCK, DOCS, commands, methods, written
from zae_limiter_cli.main import main

BY_FILE = {"limits", "local"}  # of `limits` every command has a section, of `local` its page tells all
ELSEWHERE = {"demo", "copy", "deploy", "status", "list", "check", "upgrade", "delete", "cfn-template", "lambda-export"}


@pytest.mark.parametrize("page", ["cli.md", "core.md"])
def test_the_lists_of_a_page_are_what_the_code_says(page: str) -> None:
    text = (DOCS / page).read_text(encoding="utf-8")
    assert len(BLOCK.findall(text)) >= 4
    assert written(text) == text, "run `just lists`"


def test_each_command_is_in_a_list_or_has_its_options_in_a_section() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    listed = {name for _, kind, names, _ in BLOCK.findall(text) if kind == "commands" for name in names.split(", ")}
    assert listed | BY_FILE | ELSEWHERE | {"version"} == set(main.entries)


def test_a_command_is_told_with_its_own_options_and_those_of_all_are_left_out() -> None:
    assert (
        "| `bucket credit ENTITY_ID -r NAME -t name:amount [--idempotency-key KEY]` | Add tokens to a bucket. |"
        in commands(["bucket"]).splitlines()
    )


def test_a_method_is_told_by_the_first_sentence_of_its_docstring() -> None:
    table = methods(["buckets"])
    told = "Reset all limits of a bucket to their initial balance, debt included; return whether there was a bucket."
    assert f"| `reset_bucket` | {told} |" in table
    assert not re.search(r"\| `_", table)
