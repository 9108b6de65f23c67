"""docs/museum.md and the tests of this folder: each exhibit is on the page, each entry of the page is a test."""

import re
from importlib import import_module
from pathlib import Path

from museum.exhibits import EXHIBITS

HERE = Path(__file__).parent
PAGE = HERE.parents[3] / "docs/museum.md"
LINK = re.compile(r"\[#(\d+)\]\((https://github\.com/[^)]+)\)")
TEST = re.compile(r"`(test_\w+)`")


def entries() -> dict[str, set[str]]:
    """The addresses of each entry of the page, by the name of its test."""
    found: dict[str, set[str]] = {}
    for entry in re.split(r"^(?=- )", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        (name,) = TEST.findall(entry)
        links = LINK.findall(entry)
        assert all(url.endswith(f"/{number}") for number, url in links)
        found[name] = {url for _, url in links}
    return found


def test_the_page_has_each_exhibit_with_its_thread() -> None:
    for path in HERE.glob("test_*.py"):
        import_module(f"museum.{path.stem}")
    on_page = entries()
    assert on_page.keys() == EXHIBITS.keys()
    assert {name for name, thread in EXHIBITS.items() if thread.url not in on_page[name]} == set()
    assert len(EXHIBITS) == len({thread.url for thread in EXHIBITS.values()}) == 27
