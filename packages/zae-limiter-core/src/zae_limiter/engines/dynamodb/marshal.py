"""Python values as DynamoDB's ``AttributeValue``, and back, in one normal form; and stored items with their keys.

A key that is not a string is rejected.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from ...operations.errors import OutcomeUnknown, Unreadable
from ...operations.values import Item, Key, Value, is_flat, plain
from ...schema.attributes import PK, SK
from ...schema.record import UNREADABLE

AttributeValue = dict[str, Any]
Stored = Mapping[str, Any]

MOST_LEVELS: Final = 32  # of lists and maps in each other, as DynamoDB has them

_KINDS: Final[dict[str, type]] = {"S": str, "BOOL": bool, "NULL": bool}


def write_value(value: Value) -> AttributeValue:
    """Return ``value`` as an ``AttributeValue``. Raises ``TypeError`` for any type outside the schema, floats too."""
    kind = type(value)
    if kind is int:
        return {"N": str(value)}
    if kind is str:
        return {"S": value}
    if kind is bool:
        return {"BOOL": value}
    if value is None:
        return {"NULL": True}
    if kind is list:
        return {"L": [write_value(part) for part in value]}
    if kind is dict:
        return {"M": {name: write_value(part) for name, part in value.items()}}
    return write_value(plain(value))


def write_item(item: Mapping[str, Value]) -> dict[str, AttributeValue]:
    """Return an item as a map of ``AttributeValue``."""
    return {name: write_value(value) for name, value in item.items()}


def read_value(value: AttributeValue, levels: int = MOST_LEVELS) -> Value:
    """Return the value of an ``AttributeValue``; a number as ``int``.

    Raises an error of ``UNREADABLE`` for a fraction, for a set or bytes, which no record has, and for damage.
    """
    [(kind, content)] = value.items()
    if not levels:
        raise ValueError(f"a value has more than {MOST_LEVELS} levels")
    if kind == "N":
        return int(content)
    if kind == "L":
        return [read_value(part, levels - 1) for part in content]
    if kind == "M":
        return {name: read_value(part, levels - 1) for name, part in content.items()}
    if type(content) is not _KINDS.get(kind):
        raise TypeError(f"no record has such a value of the kind {kind!r:.9}")
    return None if kind == "NULL" else content


def read_stored(item: Mapping[str, AttributeValue]) -> Item:
    """Return the item in a map of ``AttributeValue``. Raises an error of ``UNREADABLE``."""
    found = read_item(item)
    return found if is_flat(found) else {name: read_value(value) for name, value in item.items()}


def read_item(item: Mapping[str, AttributeValue]) -> Item:
    """Return what ``read_stored`` does, but a text as it comes, unchecked."""
    # Every acquire reads an item of mostly numbers: no function call for the two common kinds.
    return {
        name: int(value["N"]) if "N" in value else value["S"] if "S" in value else read_value(value)
        for name, value in item.items()
    }


def read_key(stored: Stored) -> Key:
    """Return the key of an item. Raises an error of ``UNREADABLE`` where there is none."""
    pk, sk = stored[PK]["S"], stored[SK]["S"]
    if type(pk) is not str or type(sk) is not str:
        raise TypeError("a key is not a string")
    return Key(pk, sk)


def read_one(key: Key, stored: Stored, read: Callable[[Stored], Item] = read_stored) -> Item:
    """Return the item that was asked for by its key, and no other. Raises ``OutcomeUnknown``, ``Unreadable``."""
    try:
        found = read(stored)
    except UNREADABLE as error:
        if read_key(stored) == key:
            raise Unreadable(*key, f"it has a value that no record has: {error}") from error
        found = {}
    if found.get(PK) != key.pk or found.get(SK) != key.sk:
        raise OutcomeUnknown(f"the answer has another item than {key.pk!r}, {key.sk!r}")
    return found


def read_row(stored: Stored) -> Item:
    """Return an item among others, or its key alone if it has a value that no record has, as the items of others may.

    Every reader of a record refuses a key alone: it lacks what the record needs.
    """
    key = read_key(stored)
    try:
        return read_stored(stored)
    except UNREADABLE:
        return {PK: key.pk, SK: key.sk}
