"""What lives here: what readers search for, the page that answers, and whether the site's own search shows it.
What never does: how a page is built (build.py).
"""

from collections.abc import Iterator, Mapping
from typing import Final
from urllib.parse import quote_plus, urlsplit

from playwright.sync_api import Page
from playwright.sync_api import TimeoutError as Late

from .queries import QUERIES

SEEN: Final = 6  # results that fit the search's window
WAIT_MS: Final = 5_000


def not_found(page: Page, address: str, queries: Mapping[str, str] = QUERIES) -> Iterator[str]:
    """Yield a line for each query whose page is not among the first results."""
    page.goto(f"{address}/", wait_until="load")
    page.wait_for_timeout(1_000)  # the script that listens to the key is loaded after the page
    page.keyboard.press("/")
    for query, wanted in queries.items():
        page.locator("input:visible").last.fill(query)
        found = _results(page, query)
        if wanted not in found[:SEEN]:
            yield f"a search for {query!r} does not show {wanted}, but {', '.join(found[:SEEN]) or 'nothing'}"


def _results(page: Page, query: str) -> list[str]:
    """Return the pages of the results, such as ``guides/slots``, best first."""
    results = page.locator(f"a[href*='?h={quote_plus(query)}']:visible")
    try:
        results.first.wait_for(timeout=WAIT_MS)
    except Late:
        return []
    return [urlsplit(str(link.get_attribute("href"))).path.strip("/") for link in results.all()]
