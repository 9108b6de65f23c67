"""docs/museum.md and the tests of this folder: each exhibit is on the page, each entry of the page is a test."""

import re
from importlib import import_module
from pathlib import Path

from museum.exhibits import EXHIBITS, Thread

HERE = Path(__file__).parent
PAGE = HERE.parents[3] / "docs/museum.md"
LINK = re.compile(r"\[((?:\\.|[^\]\\])+)\]\((https://github\.com/[^)]+)\)")
TEST = re.compile(r"`(test_\w+)`")


def entries() -> dict[str, set[Thread]]:
    """The links of each entry of the page, by the name of its test."""
    found: dict[str, set[Thread]] = {}
    for entry in re.split(r"^(?=- )", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        (name,) = TEST.findall(entry)
        found[name] = {Thread(url, re.sub(r"\\(.)", r"\1", title)) for title, url in LINK.findall(entry)}
    return found


def test_the_page_has_each_exhibit_with_its_thread() -> None:
    for path in HERE.glob("test_*.py"):
        import_module(f"museum.{path.stem}")
    on_page = entries()
    assert on_page.keys() == EXHIBITS.keys()
    assert {name for name, thread in EXHIBITS.items() if thread not in on_page[name]} == set()
    assert len(EXHIBITS) == len({thread.url for thread in EXHIBITS.values()}) == 27
