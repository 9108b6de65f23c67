"""Python values as DynamoDB's ``AttributeValue``, and back, in one normal form."""

from collections.abc import Mapping
from typing import Any, Final

from ...operations.plain import is_flat, plain
from ...operations.values import Item, Value

AttributeValue = dict[str, Any]

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
