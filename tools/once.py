"""A plugin of pytest: with ``--once`` a session claims each thing once, and leaves to longer runs what takes long.

A test of both variants runs in one of them: what is in ``sync`` is written from ``aio`` by tools/variants.py, so that
most of these tests tell the same twice. Its name says in which: the same at each run, another for its next case. With
the mark ``both_variants`` it runs in both. A test with the mark ``long`` does not run; with ``long(keep=3)`` three of
its cases do, at equal distances in the order of the cases, and none that has the mark ``long`` itself.
"""

import zlib
from collections import defaultdict
from collections.abc import Set
from typing import Final

import pytest

VARIANTS: Final = ("async", "sync")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option."""
    parser.addoption("--once", action="store_true", help="leave out long tests, and of a test of both variants one")


@pytest.hookimpl(trylast=True)  # after a conftest has marked what a target does not offer
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect what other sessions run."""
    if not config.getoption("--once"):
        return
    names = {item.nodeid for item in items}
    told = [
        item for item in items if item.get_closest_marker("both_variants") or not is_told_by_another(item.nodeid, names)
    ]
    cases = defaultdict[str, list[pytest.Item]](list)
    for item in told:
        cases[item.nodeid.partition("[")[0]].append(item)
    kept = {item for each in cases.values() for item in _short(each)}
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = [item for item in items if item in kept]


def _short(cases: list[pytest.Item]) -> list[pytest.Item]:
    """Return the cases of one test that are not long, or as many of the long ones as their mark says."""
    short = [item for item in cases if item.get_closest_marker("long") is None]
    able = [item for item in cases if item.get_closest_marker("skip") is None]  # else it could keep a skip alone
    kept = [(item, _keeps(item)) for item in able if item not in short]
    long = [(item, number) for item, number in kept if number]
    keep = min(max((number for _, number in long), default=0), len(long))
    # the last one is among them: of the targets it is the one with the most abilities
    return short + [long[place * len(long) // keep - 1][0] for place in range(1, keep + 1)]


def _keeps(item: pytest.Item) -> int:
    """Return how many cases of its test are kept; 0 if the case itself is long."""
    return min(int(mark.kwargs.get("keep", 0)) for mark in item.iter_markers("long"))


def is_told_by_another(name: str, names: Set[str]) -> bool:
    """Return whether a test is one of a pair and it is the turn of the other; one of both variants at once has none."""
    test, _, case = name.removesuffix("]").partition("[")
    words = case.split("-")
    if sum(word in VARIANTS for word in words) != 1:
        return False
    turn = zlib.crc32("-".join([test, *(word for word in words if word not in VARIANTS)]).encode()) % 2
    other = f"{test}[{'-'.join(VARIANTS[turn] if word in VARIANTS else word for word in words)}]"
    return other != name and other in names
