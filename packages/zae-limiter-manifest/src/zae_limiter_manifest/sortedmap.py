"""An immutable map in the order of its keys, which can be hashed and pickled."""

from collections.abc import Callable, ItemsView, Iterator, Mapping
from typing import Any, TypeVar

from .naming import in_nfc

V = TypeVar("V")


class SortedMap(Mapping[str, V]):
    """A copy of a map, sorted by key; equal to any map with the same entries, hashable if its values are."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, V]) -> None:
        self._items: dict[str, V] = {key: items[key] for key in sorted(items)}

    def __getitem__(self, key: str) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def items(self) -> ItemsView[str, V]:
        """Return the items view; `Mapping`'s own view looks every key up again."""
        return self._items.items()

    def __eq__(self, other: object) -> bool:
        # Mapping's own method copies both maps, and plans compare tens of thousands.
        return self._items == (other._items if isinstance(other, SortedMap) else other)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return f"SortedMap({self._items!r})"


def freeze(items: Mapping[str, Any]) -> SortedMap[Any]:
    """Convert to a `SortedMap`, for attrs."""
    return items if isinstance(items, SortedMap) else SortedMap(items)


def freeze_names(items: Mapping[str, Any]) -> SortedMap[Any]:
    """Convert to a `SortedMap` of names in NFC, for attrs; names that would become equal stay, for a check to find."""
    named = {in_nfc(name): value for name, value in items.items()}
    return freeze(named if len(named) == len(items) and named.keys() != items.keys() else items)


def values_are(model: type) -> Callable[[object, Any, Mapping[str, Any]], None]:
    """Return the attrs validator of a map from strings to values of one class; raises `TypeError`."""

    def validate(_: object, attribute: Any, items: Mapping[str, Any]) -> None:
        for key, value in items.items():
            if not isinstance(key, str) or not isinstance(value, model):
                raise TypeError(f"{attribute.name} maps strings to {model.__name__}, not {key!r} to {value!r}")

    return validate
