"""Foreign text in a message: one line, printable, and not long."""

import pickle

from hypothesis import given
from hypothesis import strategies as st

from zae_limiter.printing import LONGEST, printable
from zae_limiter.store_errors import StoreError, Unreadable


@given(st.text())
def test_whatever_text_it_is_it_shows_on_one_printable_line(text: str) -> None:
    shown = printable(text)
    assert shown.isprintable()
    assert (shown == text) is (text.isprintable() and len(text) <= LONGEST)


def test_controls_line_ends_and_marks_of_direction_are_escaped() -> None:
    assert printable("a\r\n\x1b[2J\u202e\u2028é") == "a\\r\\n\\x1b[2J\\u202e\\u2028é"


def test_a_long_text_is_cut() -> None:
    assert printable("x" * 2000) == "x" * LONGEST + "..."


def test_store_errors_are_printable_whoever_wrote_them() -> None:
    for error in (StoreError("a\nb"), Unreadable("p\n", ["s"], "it has no '\u202e'")):
        assert str(error).isprintable()
        assert str(pickle.loads(pickle.dumps(error))) == str(error)
