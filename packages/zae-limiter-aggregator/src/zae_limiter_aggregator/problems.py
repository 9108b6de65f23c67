"""Describe what went wrong, for logs: without the keys and values of items, which have ids of callers.

The stream has the item, by the record's sequence number, and the dead letter has its key.
"""

import re
import traceback
from collections.abc import Callable
from typing import Final

_QUOTED: Final = re.compile(r"""'.*'|".*\"""", re.DOTALL)
_WORD: Final = re.compile(r"\S+")
_PLAIN: Final = re.compile(r"[A-Za-z_.,;:()-]+")  # a word, or the name of an attribute
OF_CONTENTS: Final = (
    *(TypeError, ValueError, LookupError, RecursionError, ArithmeticError, AttributeError, AssertionError),
)


def problem_of(error: Exception) -> str:
    """Return the kind of an error and its reason; the kind alone where the text may quote an item."""
    kind = type(error).__name__
    reason = getattr(error, "problem", None)  # of an item that cannot be read, or a name that is invalid
    if isinstance(reason, str):
        return f"{kind}: {_without(reason, _is_value)}"
    if isinstance(error, OF_CONTENTS) or not all(isinstance(each, str | int) for each in error.args):
        return kind
    return f"{kind}: {_without(str(error), _is_place)}"


def places_of(error: Exception) -> str:
    """Return the lines of code that an error came through, as a traceback has them, without the error's text."""
    return "".join(traceback.format_tb(error.__traceback__))


def _without(text: str, is_left_out: Callable[[str], bool]) -> str:
    """Return a text without what it quotes, and without some words. Takes linear time."""
    return _WORD.sub(lambda word: "..." if is_left_out(word[0]) else word[0], _QUOTED.sub("...", text))


def _is_value(word: str) -> bool:
    return not _PLAIN.fullmatch(word)


def _is_place(word: str) -> bool:
    """Whether a word may be a key or a path."""
    return "/" in word or "#" in word
