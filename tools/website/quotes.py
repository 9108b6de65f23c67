"""Fill in the figures of docs/benchmarks.md that other pages quote, so that no page has a figure of another run.

A quote is ``<!-- row TABLE: WHAT -->FIGURE<!-- /row -->`` in a sentence.

python -m website.quotes   (with tools on PYTHONPATH; `just pictures` and `just bench` call it)
"""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from .tables import DOCS, measured

QUOTE: Final = re.compile(r"<!-- row (?P<table>\w+): (?P<what>.+?) -->.*?<!-- /row -->", re.DOTALL)


def pages() -> Iterator[Path]:
    """Yield the README and the pages of the docs."""
    yield DOCS.parent / "README.md"
    yield from sorted(DOCS.rglob("*.md"))


def quoted(page: str) -> list[tuple[str, str]]:
    """Return the table and the row of each quote of a page."""
    return [(found["table"], found["what"]) for found in QUOTE.finditer(page)]


def filled(page: str) -> str:
    """Return the page with the figures of its quotes. Raise ``LookupError`` if a row is gone."""

    def figure(found: "re.Match[str]") -> str:
        table, what = found["table"], found["what"]
        return f"<!-- row {table}: {what} -->{measured(table)[what]}<!-- /row -->"

    return QUOTE.sub(figure, page)


def write() -> None:
    """Fill in the quotes of every page."""
    for path in pages():
        page = path.read_text(encoding="utf-8")
        if (new := filled(page)) != page:
            path.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    write()
