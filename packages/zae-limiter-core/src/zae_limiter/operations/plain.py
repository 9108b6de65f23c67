"""Values in the one form that every engine stores and returns, and copies of items."""

from collections.abc import Mapping
from typing import Final

from .values import Item, Value

_PLAIN: Final = frozenset((int, str, bool, type(None)))


def plain(value: Value) -> Value:
    """Return ``value`` as a read returns it: containers copied to ``list`` and ``dict``, enums as their values."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, Mapping):
        return {plain(name): plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [plain(part) for part in value]
    raise TypeError(f"cannot be stored: a {type(value).__name__}")


def copy_of(item: Item) -> Item:
    """Return a copy of a stored item that shares no mutable value with it."""
    # Nearly all items are flat; plain() on each value would cost ten times as much.
    return item.copy() if is_flat(item) else {name: plain(value) for name, value in item.items()}


def is_flat(values: Mapping[str, Value]) -> bool:
    """Return whether no value is a container, so that a shallow copy shares nothing mutable."""
    return _PLAIN.issuperset(map(type, values.values()))
