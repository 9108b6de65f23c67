"""Foreign text in messages and log lines: on one line, in printable characters, and no longer than a page."""

from typing import Final

LONGEST: Final = 1000


def printable(text: str) -> str:
    """Return the text with what no terminal should obey as escapes: control characters, line ends, marks of direction.

    A text of more than a thousand characters is cut.
    """
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    return text if text.isprintable() else "".join(map(_shown, text))


def _shown(character: str) -> str:
    return character if character.isprintable() else character.encode("unicode_escape").decode()
