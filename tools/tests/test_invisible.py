"""What lives here: core and manifest, which import nothing of each other, agree on which characters nobody sees."""

import sys

import pytest

from zae_limiter.runtime import printing
from zae_limiter_manifest import problems


def test_both_packages_list_the_same_invisible_characters() -> None:
    assert printing.INVISIBLE.pattern == problems.INVISIBLE.pattern


def shown(text: str) -> tuple[bool, bool]:
    return printing.printable(text) == text, problems.printable(text) == text


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("plane", range(17))
def test_both_packages_escape_the_same_characters(plane: int) -> None:
    codes = range(plane << 16, min((plane + 1) << 16, sys.maxunicode + 1))
    assert [code for code in codes if len({*shown(chr(code))}) > 1] == []
