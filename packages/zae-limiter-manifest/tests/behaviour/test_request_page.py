"""What lives here: the page of the provisioner has every action and every key of a request."""

import re
from pathlib import Path

import attrs

from zae_limiter_manifest.requests import ACTIONS, Request

PAGE = Path(__file__).parents[4] / "packages/zae-limiter-provisioner/README.md"


def first_column(heading: str) -> list[str]:
    """The names in the first column of the table with this heading."""
    table = PAGE.read_text(encoding="utf-8").partition(f"| {heading} |")[2].partition("\n\n")[0]
    return [name for line in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", line.split("|")[1])]


def test_the_table_of_actions_has_all() -> None:
    assert first_column("action") == list(ACTIONS)


def test_the_table_of_keys_has_all_that_a_request_may_leave_out() -> None:
    optional = {each.name for each in attrs.fields(Request) if each.default is not attrs.NOTHING} - {"manifest"}
    assert set(first_column("key of a request")) == optional
