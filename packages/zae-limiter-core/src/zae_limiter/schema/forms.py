"""What the names of an item's attributes say, parsed once for all items that have the same ones.

Nearly every change of a bucket comes with the names of the one before. But any program with write access may write any
names: so few forms are remembered, and none that is larger than a bucket's.
"""

from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

MOST_FORMS: Final = 256
LONGEST: Final = 32_768  # characters of all names together: more than those of a bucket with 32 limits and 64 refusers


def remember_forms(parse: Callable[[tuple[str, ...]], T]) -> Callable[[tuple[str, ...]], T]:
    """Decorate a function of names: its answers are remembered, but not those for names longer than ``LONGEST``."""
    known: dict[tuple[str, ...], T] = {}

    def parsed(names: tuple[str, ...]) -> T:
        found = known.get(names)
        if found is None:
            found = parse(names)
            if sum(map(len, names)) <= LONGEST:
                if len(known) >= MOST_FORMS:
                    known.clear()
                known[names] = found
        return found

    return parsed
