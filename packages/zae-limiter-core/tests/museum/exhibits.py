"""What an exhibit is: a test that plays a published failure, with the thread that tells it.

Each test plays its scene twice: with this limiter, and with a few lines that have the fault. Only the second must go
wrong, so no exhibit is a test that cannot fail. docs/museum.md has a row for each.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

Test = TypeVar("Test", bound=Callable[..., object])


@dataclass(frozen=True, slots=True)
class Thread:
    """A public thread, by its address and title as found."""

    url: str
    title: str


EXHIBITS: Final[dict[str, Thread]] = {}
"""The threads by the names of the tests."""


def shows(url: str, title: str) -> Callable[[Test], Test]:
    """Return a decorator that makes a test an exhibit of this thread."""

    def enter(test: Test) -> Test:
        EXHIBITS[test.__name__] = Thread(url, title)
        return test

    return enter
