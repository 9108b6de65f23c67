"""What lives here: what readers search for stands in one section of the page that answers, as the site's search needs.
What never does: the order of results, which needs a browser (website/search.py).
"""

import re

import pytest

from check_siblings import ROOT
from website.queries import QUERIES

WORD = re.compile(r"[a-z0-9]+")
WRITTEN = {query: page for query, page in QUERIES.items() if not page.startswith("reference/")}


def sections(page: str) -> list[set[str]]:
    """Return the words of each section of a page, its heading included."""
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8").lower()
    return [set(WORD.findall(section)) for section in re.split(r"^#+ ", text, flags=re.MULTILINE)]


@pytest.mark.parametrize(("query", "page"), WRITTEN.items())
def test_one_section_has_the_words_searched(query: str, page: str) -> None:
    words = WORD.findall(query)
    assert any(all(any(has.startswith(word) for has in section) for word in words) for section in sections(page))
