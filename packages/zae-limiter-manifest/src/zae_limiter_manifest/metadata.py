"""Metadata of an entity: a map of JSON values, frozen as its canonical text, and checked as core checks it."""

import json
import math
from collections.abc import Iterator, Mapping
from typing import Any, Final, Self

from attrs import frozen

from .problems import show
from .scalars import OddInteger

MOST_KEYS: Final = 50
LONGEST_KEY: Final = 128
LONGEST_VALUE: Final = 1024
DEEPEST_VALUE: Final = 16
LARGEST_NUMBER: Final = 2**63 - 1
LARGEST: Final = 16 * 1024


@frozen
class Metadata:
    """Metadata, equal if their JSON is: `1`, `1.0` and `true` differ."""

    text: str = "{}"

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Return the metadata with these values."""
        return cls(json.dumps(values, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=_plain))

    def to_dict(self) -> dict[str, Any]:
        """Return the values, as JSON has them."""
        values: dict[str, Any] = json.loads(self.text)
        return values


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"no JSON value: {value!r}")


def find_metadata_problems(values: Mapping[object, object]) -> Iterator[tuple[tuple[object, ...], str]]:
    """Yield the path and the problem of each mistake in a map of metadata."""
    found = False
    for key, value in values.items():
        for problem in (*_key_problems(key), *_value_problems(value, (key,), DEEPEST_VALUE)):
            found = True
            yield problem
    if len(values) > MOST_KEYS:
        yield (), f"must have at most {MOST_KEYS} keys, not {len(values)}: keep the rest elsewhere"
    elif not found and (size := sum(len(str(key).encode()) + _size(value) for key, value in values.items())) > LARGEST:
        yield (), f"must have at most {LARGEST} bytes, not {size}, of all keys and values: keep the rest elsewhere"


def _key_problems(key: object) -> Iterator[tuple[tuple[object, ...], str]]:
    if not isinstance(key, str):
        yield (key,), "a key must be a string: put it in quotes"
    elif not 1 <= len(key) <= LONGEST_KEY:
        yield (key,), f"a key must have 1 to {LONGEST_KEY} characters"


def _value_problems(value: object, path: tuple[object, ...], depth: int) -> Iterator[tuple[tuple[object, ...], str]]:
    match value:
        case None | bool():
            return
        case str():
            if len(value) > LONGEST_VALUE:
                yield path, f"must have at most {LONGEST_VALUE} characters, not {len(value)}"
        case OddInteger():
            yield path, f"must be in decimal digits, not {show(value.text)}: {value.advice}, or put it in quotes"
        case int():
            if not -LARGEST_NUMBER - 1 <= value <= LARGEST_NUMBER:
                yield path, "must be an integer of 64 bits"
        case float():
            if not math.isfinite(value):
                yield path, "must be a finite number"
        case list() | Mapping():
            yield from _nested_problems(value, path, depth)
        case _:
            yield path, "must be text, a number, a boolean, a list or a map: put it in quotes"


def _nested_problems(
    value: list[object] | Mapping[object, object], path: tuple[object, ...], depth: int
) -> Iterator[tuple[tuple[object, ...], str]]:
    if not depth:
        yield path, f"lists and maps may be {DEEPEST_VALUE} deep"
        return
    if isinstance(value, Mapping):
        for key in value:
            yield from _key_problems(key) if not isinstance(key, str) else ()
    for key, part in value.items() if isinstance(value, Mapping) else enumerate(value):
        yield from _value_problems(part, (*path, key), depth - 1)


def _size(value: object) -> int:
    return len((value if isinstance(value, str) else Metadata.of({"": value}).text[4:-1]).encode())
