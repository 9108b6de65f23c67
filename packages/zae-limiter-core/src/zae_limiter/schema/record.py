"""Kinds of records as data: which fields the value of a record has, and how an item stores each of them.

A writer, a reader and a list of attributes would have to agree. So a kind has one table of fields: what is written,
what is read, and what is wrong with a damaged item follow from it. An attribute has the name of its field, unless the
table names another one; a test compares the page of the table with what is written. Each field costs a look
into the table, so buckets and the limits of configs, which acquires read, do without.

One rule for all kinds: a missing attribute, one of the wrong type, or an invalid value makes an item unreadable. Each
reader of a record has ``reads``, and takes attributes by their types. So what it returns is sound, and what it raises
names the key.
"""

from collections.abc import Callable, Mapping
from functools import wraps
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar

from ..runtime.named_tuple import NamedTuple
from . import keys
from .attributes import GSI4PK, GSI4SK, PK, SK
from .store_errors import Unreadable
from .table import KEY_ATTRIBUTES

Item = dict[str, Any]
I = TypeVar("I", bound=Item | None)  # noqa: E741  an item, or none where a record may be missing
P = ParamSpec("P")
T = TypeVar("T")

MOST: Final = 10**38  # DynamoDB's numbers have 38 digits
UNREADABLE: Final = (Unreadable, LookupError, ValueError, TypeError, AttributeError, ArithmeticError, RecursionError)

_PLACES: Final = frozenset(KEY_ATTRIBUTES)
_NAMES: Final[dict[type, str]] = {str: "text", int: "a whole number", bool: "a boolean", dict: "a map", list: "a list"}


def reads(reader: Callable[Concatenate[I, P], T]) -> Callable[Concatenate[I, P], T]:
    """Make a reader raise ``Unreadable`` for an item that it cannot read, whatever is wrong with it."""

    @wraps(reader)
    def read(item: I, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return reader(item, *args, **kwargs)
        except Unreadable:
            raise
        except UNREADABLE as error:
            raise unreadable(item, error) from error

    return read


@reads
def check_item(item: Item) -> Item:
    """Return an item of any record that a table can take. Raises ``Unreadable``.

    A store reads an item with a value that no record has as its keys alone.
    """
    if item.keys() <= _PLACES:
        raise ValueError("it has a value that no record has, or nothing but its keys")
    for name in _PLACES & item.keys():
        if not text(item, name):
            raise ValueError(f"{name} is empty")
    for name in [name for name, value in item.items() if type(value) is int]:
        number(item, name)
    return item


def unreadable(item: Item | None, error: BaseException) -> Unreadable:
    """Return the error that names the item, and says why it cannot be read."""
    told = f"it has no {error}" if isinstance(error, KeyError) else str(error) or type(error).__name__
    return Unreadable((item or {}).get(PK), (item or {}).get(SK), told)


def text(item: Item, name: str) -> str:
    """Return an attribute that is a text. Raises ``TypeError``, ``KeyError``."""
    return _of_type(item[name], name, str)


def number(item: Item, name: str) -> int:
    """Return an attribute that is a whole number of at most 38 digits. Raises ``TypeError``, ``KeyError``."""
    found = _of_type(item[name], name, int)
    if not -MOST < found < MOST:
        raise ValueError(f"{name} has more than 38 digits")
    return found


def flag(item: Item, name: str) -> bool:
    """Return an attribute that is true or false. Raises ``TypeError``, ``KeyError``."""
    return _of_type(item[name], name, bool)


def optional(read: Callable[[Item, str], T], item: Item, name: str) -> T | None:
    """Return what ``read`` makes of an attribute, ``None`` if there is none."""
    return read(item, name) if item.get(name) is not None else None


def texts(values: object, name: str) -> list[str]:
    """Return a list of texts. Raises ``TypeError``."""
    return [_of_type(value, name, str) for value in _of_type(values, name, list)]


def numbers(values: object, name: str) -> list[int]:
    """Return a list of whole numbers. Raises ``TypeError``."""
    return [_of_type(value, name, int) for value in _of_type(values, name, list)]


def _of_type(value: object, name: str, kind: type[T]) -> T:
    if type(value) is not kind:
        raise TypeError(f"{name} is not {_NAMES[kind]}")
    return value


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
        raise TypeError(f"{name} is not a map")
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
            # ``None`` is stored as no attribute; that of another default may be there, and damaged
            name: each.default
            if (each.default is None and item.get(each.attribute) is None)
            or (each.default is not ALWAYS and each.attribute not in item)
            else each.read(item, each.attribute)
            for name, each in self._fields.items()
        }

    def inner(self, item: Item) -> T:
        """Return the value of a map within an item. Raises an error of ``UNREADABLE``."""
        return self._value(**self.values(item))


def item_keys(ns: str, pk: str, sk: str, row: str | None = None, suffix: int | None = None) -> Item:
    """Return the keys of an item of a namespace, with those of its row in GSI4, whose sort key is ``row``, by default
    the partition key.
    """
    return {PK: pk, SK: sk, GSI4PK: keys.gsi4_pk(ns, suffix), GSI4SK: pk if row is None else row}
