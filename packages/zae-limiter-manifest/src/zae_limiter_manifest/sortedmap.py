"""An immutable map in the order of its keys, which can be hashed and pickled."""

from collections.abc import Callable, Mapping
from operator import itemgetter
from typing import Any, NoReturn, TypeVar

from .naming import in_nfc

V = TypeVar("V")


class SortedMap(dict[str, V]):
    """A copy of a map, sorted by key; equal to any map with the same entries, hashable if its values are."""

    __slots__ = ()

    def __init__(self, items: Mapping[str, V]) -> None:
        super().__init__(sorted(items.items(), key=itemgetter(0)))

    def _refuse(self, *_: object, **__: object) -> NoReturn:
        raise TypeError("a SortedMap cannot be changed")

    __setitem__ = __delitem__ = pop = popitem = clear = update = setdefault = __ior__ = _refuse

    def __hash__(self) -> int:  # type: ignore[override]  # a dict has none, because it can be changed
        return hash(frozenset(self.items()))

    def __reduce__(self) -> tuple[type["SortedMap[V]"], tuple[dict[str, V]]]:
        return SortedMap, (dict(self),)

    def __repr__(self) -> str:
        return f"SortedMap({super().__repr__()})"


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
