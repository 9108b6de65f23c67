"""Make foreign text fit for messages and log lines: on one line, in printable characters, at most a page long."""

import re
from typing import Final

LONGEST: Final = 1000
# Printable for Python, and nothing to see: Unicode's Default_Ignorable_Code_Point, and what is blank by itself:
# the blank pattern of Braille, joiners of Tifinagh and Brahmi, the filler of Khitan, a head of no note.
INVISIBLE: Final = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u2d7f\u3164\ufe00-\ufe0f\uffa0"
    "\U0001107f\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)


def printable(text: str) -> str:
    """Return the text with escapes for what no terminal should obey: control characters, line ends, marks of direction.

    Invisible characters are escaped, too, so that two names that differ look different. A text of more than a thousand
    characters is cut.
    """
    text = text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
    if text.isprintable() and (text.isascii() or not INVISIBLE.search(text)):
        return text
    seen = [each.isprintable() and not INVISIBLE.search(each) for each in text]
    return "".join(
        each if is_seen else each.encode("unicode_escape").decode() for each, is_seen in zip(text, seen, strict=True)
    )
