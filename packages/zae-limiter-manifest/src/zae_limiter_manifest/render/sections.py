"""A section of Markdown for each namespace, and the room of one comment that all of them share.
Never says what has changed or drifted."""

from collections.abc import Sequence
from typing import Final, NamedTuple

from ..problems import printable
from . import words

LONGEST: Final = 60_000
"""GitHub takes comments of up to 65,536 characters."""

_NAMES: Final = 1_000  # for the names of the namespaces of which there is nothing to tell
_TAIL: Final = _NAMES + 200  # for them, and for how many sections were left out
_AROUND: Final = 100  # for a table's head, and for how many rows more there are


class Section(NamedTuple):
    """A namespace, what is to be said of it, and rows; `head` is that of their table, or empty for a list."""

    namespace: str | None
    summary: str
    remarks: Sequence[str]
    head: str
    rows: Sequence[str]

    @property
    def is_quiet(self) -> bool:
        """Whether there is nothing to tell."""
        return self.summary in {words.NO_CHANGES, words.NO_DRIFT} and not self.remarks and not self.rows

    @property
    def opening(self) -> str:
        """All above the rows."""
        title = f"### Limits of {code(self.namespace)}" if self.namespace else "### Limits"
        return "\n\n".join([title, self.summary, *self.remarks]) + "\n"

    @property
    def least(self) -> int:
        """How many characters it takes without a row."""
        return len(self.opening) + 1 + _AROUND

    @property
    def size(self) -> int:
        """How many characters its rows take."""
        return sum(len(row) + 1 for row in self.rows)


def code(text: str) -> str:
    """A text of others, which neither formats nor mentions."""
    return f"`{printable(text).replace('`', chr(39))}`"


def document(sections: Sequence[Section]) -> str:
    """The sections in so many characters as a comment may have; of several the quiet ones in one line."""
    told = [each for each in sections if not each.is_quiet or len(sections) == 1]
    kept = _kept(told)
    room = LONGEST - _TAIL - sum(each.least for each in kept)
    shown = [_text(*each) for each in zip(kept, _rooms(kept, room), strict=True)]
    left_out = [f"… and {words.counted(len(told) - len(kept), 'more namespace')}.\n"] if len(kept) < len(told) else []
    quiet = [each for each in sections if each.is_quiet and len(sections) > 1]
    return "\n".join([*shown, *left_out, *([_quiet_text(quiet)] if quiet else [])])


def _kept(sections: Sequence[Section]) -> list[Section]:
    """The first ones, whose openings leave half of the room to the rows."""
    room = LONGEST // 2
    kept = []
    for each in sections:
        room -= each.least
        if room < 0:
            break
        kept.append(each)
    return kept


def _rooms(sections: Sequence[Section], room: int) -> list[int]:
    """How many characters the rows of each may take: what a small one does not need, the larger ones share."""
    sizes = [each.size for each in sections]
    rooms = [0] * len(sizes)
    smallest_first = sorted(range(len(sizes)), key=sizes.__getitem__)
    for done, index in enumerate(smallest_first):
        rooms[index] = min(sizes[index], room // (len(sizes) - done))
        room -= rooms[index]
    return rooms


def _text(section: Section, room: int) -> str:
    rows, more = _fitting(section.rows, room)
    table = [*([section.head] if section.head and rows else []), *rows]
    blocks = [section.opening, *(["\n".join(table) + "\n"] if table else [])]
    return "\n".join([*blocks, *([f"… and {more} more.\n"] if more else [])])


def _fitting(rows: Sequence[str], room: int) -> tuple[list[str], int]:
    """The rows from the first that fit into so many characters, and how many more there are."""
    kept: list[str] = []
    for row in rows:
        room -= len(row) + 1
        if room < 0:
            break
        kept.append(row)
    return kept, len(rows) - len(kept)


def _quiet_text(sections: Sequence[Section]) -> str:
    names = [f"{code(each.namespace)}," for each in sections if each.namespace]
    shown, more = _fitting(names, _NAMES)
    rest = f" and {more} more" if more else ""
    title = sections[0].summary.removesuffix(".")
    return f"### {title}\n\n{words.counted(len(sections), 'namespace')}: {' '.join(shown).removesuffix(',')}{rest}\n"
