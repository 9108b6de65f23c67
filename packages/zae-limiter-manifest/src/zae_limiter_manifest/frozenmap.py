"""A map that cannot change, with a hash and a pickle.
Never knows what it holds."""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from attrs.validators import deep_mapping, instance_of

V = TypeVar("V")


class FrozenMap(Mapping[str, V]):
    """A copy of a map, in its order; equal to any map of the same entries, hashable where its values are."""

    __slots__ = ("_items",)

    def __init__(self, items: Mapping[str, V]) -> None:
        self._items: dict[str, V] = dict(items)

    def __getitem__(self, key: str) -> V:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)

    def __hash__(self) -> int:
        return hash(frozenset(self._items.items()))

    def __repr__(self) -> str:
        return f"FrozenMap({self._items!r})"


def freeze(items: Mapping[str, Any]) -> FrozenMap[Any]:
    """The attrs converter to a frozen map."""
    return FrozenMap(items)


def values_are(model: type) -> Any:
    """The attrs validator of a map from strings to values of one class; raises `TypeError`."""
    return deep_mapping(key_validator=instance_of(str), value_validator=instance_of(model))
