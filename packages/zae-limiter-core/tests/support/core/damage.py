"""The ways in which a value of a record can be damaged.

Lives here: the values of a record, and others in their place. Never: a record, a reader.
"""

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

FORGED: Final = "\x1b[31mred\nError: forged"
GONE: Final = object()


def leaves(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """Each value of a record with its path; of maps and lists also what is in them."""
    if path:
        yield path, value
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inner:
        yield from leaves(each, (*path, name))


def wrong(value: Any, other: Any) -> Mapping[str, Any]:
    """The ways to damage a value; ``other`` is that of another record."""
    ways = {
        "missing": GONE,
        "a text": FORGED,
        "a number": 7,
        "negative": -(10**37),
        "huge": 10**37 if not isinstance(value, str) else 3000 * "x",
        "a flag": True,
        "nothing": None,
        "a map": {"a": FORGED},
        "a list": [FORGED, 1],
        "deep": json.loads(200 * "[" + 200 * "]"),
        "another's": other,
    }
    return {how: damaged for how, damaged in ways.items() if damaged != value or type(damaged) is not type(value)}
