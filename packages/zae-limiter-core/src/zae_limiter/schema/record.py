"""Kinds of records as data: which fields the value of a record has, and how an item stores each of them.

A writer, a reader and a list of attributes would have to agree. So a kind has one table of fields: what is written,
what is read, and what is wrong with a damaged item follow from it. An attribute has the name of its field, unless the
table names another one; a test compares the page of the table with what is written. Each field costs a look
into the table, so buckets and the limits of configs, which acquires read, do without.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Generic, NamedTuple, TypeVar

from . import keys
from .attributes import GSI4PK, GSI4SK, PK, SK
from .reading import flag, number, reads, text, texts

Item = dict[str, Any]
T = TypeVar("T")

ALWAYS: Final = object()
"""In the place of a default: each item of the record has the attribute."""


class Field(NamedTuple):
    """How a field is stored: ``read`` takes its value from an item, ``write`` returns what is stored.

    ``default`` is the value for which an item has no attribute, nor has it one if ``write`` returns ``None``.
    ``attribute`` is the name of the attribute, if that is not the field's.
    """

    read: Callable[[Item, str], Any]
    write: Callable[[Any], Any] = lambda value: value
    default: Any = ALWAYS
    attribute: str = ""

    def optional(self, default: Any = None) -> "Field":
        """Return the field of a record that has it only if it is not the default."""
        return self._replace(default=default)

    def named(self, attribute: str) -> "Field":
        """Return the field whose attribute has another name."""
        return self._replace(attribute=attribute)


def a_map(item: Item, name: str) -> dict[str, Any]:
    """Return an attribute that is a map. Raises ``TypeError``, ``KeyError``."""
    found = item[name]
    if not isinstance(found, dict):
        raise TypeError(f"{name} is no map")
    return found


def checked(check: Callable[[str, Any], Any]) -> Field:
    """Return the field of a name that a check of ``naming`` admits."""
    return Field(lambda item, name: check(name, item[name]))


AS_IS: Final = Field(lambda item, name: item[name])  # its value checks it
TEXT: Final = Field(text)
NUMBER: Final = Field(number)
FLAG: Final = Field(flag)
TEXTS: Final = Field(lambda item, name: texts(item[name], name), list)


class Record(Generic[T]):
    """A kind of record: ``value`` makes its value of the ``fields``, in the order in which they are read."""

    def __init__(self, value: Callable[..., T], **fields: Field) -> None:
        self._value = value
        self._fields: Mapping[str, Field] = {
            name: each if each.attribute else each._replace(attribute=name) for name, each in fields.items()
        }
        self.read: Callable[[Item], T] = reads(self.inner)

    def write(self, value: T) -> Item:
        """Return the attributes of a value; its place has others."""
        fields = ((each, getattr(value, name)) for name, each in self._fields.items())
        stored = {each.attribute: each.write(found) for each, found in fields if found != each.default}
        return {name: each for name, each in stored.items() if each is not None}

    def values(self, item: Item) -> dict[str, Any]:
        """Return the fields in an item. Raises an error of ``UNREADABLE``."""
        return {
            name: each.default if _is_left_out(each, item) else each.read(item, each.attribute)
            for name, each in self._fields.items()
        }

    def inner(self, item: Item) -> T:
        """Return the value of a map within an item. Raises an error of ``UNREADABLE``."""
        return self._value(**self.values(item))


def _is_left_out(field: Field, item: Item) -> bool:
    if field.default is None:
        return item.get(field.attribute) is None
    return field.default is not ALWAYS and field.attribute not in item


def item_keys(ns: str, pk: str, sk: str, row: str | None = None, suffix: int | None = None) -> Item:
    """Return the keys of an item of a namespace, with those of its row in GSI4, whose sort key is ``row``, by default
    the partition key.
    """
    return {PK: pk, SK: sk, GSI4PK: keys.gsi4_pk(ns, suffix), GSI4SK: pk if row is None else row}
