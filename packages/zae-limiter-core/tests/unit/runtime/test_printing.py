"""Foreign text in a message: one line, printable, and not long."""

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zae_limiter.runtime.printing import INVISIBLE, LONGEST, printable
from zae_limiter.schema.store_errors import StoreError, Unreadable


@given(st.text())
def test_whatever_text_it_is_it_shows_on_one_printable_line(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    plain = text.isprintable() and not INVISIBLE.search(text)
    assert (shown == text) is (plain and len(text) <= LONGEST)


def test_controls_line_ends_and_marks_of_direction_are_escaped() -> None:
    assert printable("a\r\n\x1b[2J\u202e\u2028é") == "a\\r\\n\\x1b[2J\\u202e\\u2028é"


@pytest.mark.parametrize(
    "character",
    ["\ufe0f", "\u3164", "\u115f", "\u2800", "\u2d7f", "\U00016fe4", "\U0001d159", "\U0001107f", "\U000e0100"],
)
def test_an_invisible_character_is_escaped_so_that_ids_that_differ_look_different(character: str) -> None:
    assert printable(f"gpt-4{character}é") == f"gpt-4{character.encode('unicode_escape').decode()}é"


def test_a_long_text_is_cut() -> None:
    assert printable("x" * 2000) == "x" * LONGEST + "..."


def test_store_errors_are_printable_whoever_wrote_them() -> None:
    for error in (StoreError("a\nb"), Unreadable("p\n", ["s"], "it has no '\u202e'")):
        assert str(error).isprintable()
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
