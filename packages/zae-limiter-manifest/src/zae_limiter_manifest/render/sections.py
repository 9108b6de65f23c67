"""Divide the size limit of one comment among Markdown sections, one for each namespace."""

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from ..problems import printable
from . import words

LONGEST: Final = 60_000
"""GitHub accepts comments of up to 65,536 characters."""

_NAMES: Final = 1_000  # for the names of unchanged namespaces
_TAIL: Final = _NAMES + 200  # for these names and the number of omitted sections
_AROUND: Final = 200  # for a table's head, its fold, and the number of further rows
_BACKTICKS: Final = re.compile("`+")


class Section(NamedTuple):
    """A namespace with its summary, remarks and rows; `head` is the head of the rows' table, or empty for a list.

    `digest` is a text before the rows, which are then folded under the title `folded`.
    """

    namespace: str | None
    summary: str
    remarks: Sequence[str]
    head: str
    rows: Sequence[str]
    digest: str = ""
    folded: str = ""

    @property
    def is_quiet(self) -> bool:
        """Whether the section has no changes, remarks or rows."""
        return self.summary in {words.NO_CHANGES, words.NO_DRIFT} and not self.remarks and not self.rows

    @property
    def opening(self) -> str:
        """The text above the rows."""
        title = f"### Limits of {code(self.namespace)}" if self.namespace else "### Limits"
        return "\n\n".join([title, self.summary, *self.remarks, *filter(None, [self.digest])]) + "\n"

    @property
    def least(self) -> int:
        """The number of characters of the section without rows."""
        return len(self.opening) + 1 + _AROUND

    @property
    def size(self) -> int:
        """The number of characters of its rows."""
        return sum(len(row) + 1 for row in self.rows)


def code(text: str) -> str:
    """Return foreign text as code, so that it neither formats nor mentions."""
    shown = printable(text)
    fence = "`" * (1 + max(map(len, _BACKTICKS.findall(shown)), default=0))
    space = " " if shown.startswith("`") or shown.endswith("`") else ""
    return f"{fence}{space}{shown}{space}{fence}"


def code_in_table(text: str) -> str:
    """Return foreign text as code in a row of a table, whose cells end at each `|` that is not escaped."""
    return code(text).replace("\\|", "\\\\u007c").replace("|", "\\|")


def document(sections: Sequence[Section]) -> str:
    """Return the sections within the size of a comment; quiet sections share one line if there are several."""
    reported = [each for each in sections if not each.is_quiet or len(sections) == 1]
    kept = _kept(reported)
    space = LONGEST - _TAIL - sum(each.least for each in kept)
    shown = [_text(*each) for each in zip(kept, _spaces(kept, space), strict=True)]
    left_out = (
        [f"… and {words.counted(len(reported) - len(kept), 'more namespace')}.\n"] if len(kept) < len(reported) else []
    )
    quiet = [each for each in sections if each.is_quiet and len(sections) > 1]
    return "\n".join([*shown, *left_out, *([_quiet_text(quiet)] if quiet else [])])


def _kept(sections: Sequence[Section]) -> list[Section]:
    """Return the first sections, as many as leave half of the space to the rows."""
    space = LONGEST // 2
    kept = []
    for each in sections:
        space -= each.least
        if space < 0:
            break
        kept.append(each)
    return kept


def _spaces(sections: Sequence[Section], space: int) -> list[int]:
    """Return the space for the rows of each section; larger sections share the space that small ones do not need."""
    sizes = [each.size for each in sections]
    spaces = [0] * len(sizes)
    smallest_first = sorted(range(len(sizes)), key=sizes.__getitem__)
    for done, index in enumerate(smallest_first):
        spaces[index] = min(sizes[index], space // (len(sizes) - done))
        space -= spaces[index]
    return spaces


def _text(section: Section, space: int) -> str:
    rows, more = fitting(section.rows, space)
    table = [*([section.head] if section.head and rows else []), *rows]
    blocks = [*(["\n".join(table) + "\n"] if table else []), *([f"… and {more:,} more.\n"] if more else [])]
    if section.folded and blocks:
        blocks = [f"<details><summary>{section.folded}</summary>\n", *blocks, "</details>\n"]
    return "\n".join([section.opening, *blocks])


def fitting(rows: Sequence[str], space: int) -> tuple[list[str], int]:
    """Return the first rows that fit into the space, and the number of further rows."""
    kept: list[str] = []
    for row in rows:
        space -= len(row) + 1
        if space < 0:
            break
        kept.append(row)
    return kept, len(rows) - len(kept)


def _quiet_text(sections: Sequence[Section]) -> str:
    names = [f"{code(each.namespace)}," for each in sections if each.namespace]
    shown, more = fitting(names, _NAMES)
    rest = f" and {more} more" if more else ""
    title = sections[0].summary.removesuffix(".")
    return f"### {title}\n\n{words.counted(len(sections), 'namespace')}: {' '.join(shown).removesuffix(',')}{rest}\n"
