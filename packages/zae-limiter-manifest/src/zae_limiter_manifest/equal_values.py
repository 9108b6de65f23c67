"""Keys of plain values, so that what was worked out for one holds for its equals: many entities have equal limits.

Equality of Python is too coarse for that: to it `1`, `1.0` and `true` are one value.
"""

from collections.abc import Hashable
from typing import Any, Final

MOST_REMEMBERED: Final = 512  # of the largest levels that are valid, some 40 MB
_LONGEST: Final = 256  # characters of a text: what is remembered stays small whatever a manifest has
_DEEPEST: Final = 6  # a weight of a limit of a level has four above it
_SCALARS: Final = frozenset({bool, int, float, type(None)})


class NoKey(Exception):
    """The value has a part of a type that only reading makes, a long text, or is nested deeper than any valid one."""


def key_of(value: object, levels: int = _DEEPEST) -> Hashable:
    """Return a key that a value shares with its equals alone, from which `value_of` makes it. Raises `NoKey`."""
    kind = type(value)
    if kind is str and len(value) <= _LONGEST:  # type: ignore[arg-type]
        return value
    if kind in _SCALARS:
        return kind, value
    if not levels:
        raise NoKey
    if kind is dict:
        entries: list[Hashable] = [dict]
        for name, each in value.items():  # type: ignore[attr-defined]
            if type(name) is not str or len(name) > _LONGEST:
                raise NoKey
            entries += name, key_of(each, levels - 1)
        return tuple(entries)
    if kind is list:
        return list, *[key_of(each, levels - 1) for each in value]  # type: ignore[attr-defined]
    raise NoKey


def value_of(key: Any) -> Any:
    """Return the value of a key."""
    if isinstance(key, str):
        return key
    kind, *parts = key
    if kind is dict:
        return dict(zip(parts[::2], map(value_of, parts[1::2]), strict=True))
    return list(map(value_of, parts)) if kind is list else parts[0]
