"""The one rule for reading items: a missing attribute, one of the wrong type, or an invalid value makes one unreadable.

Each reader of a record has ``reads``, and takes attributes by their types. So what it returns is sound, and what it
raises names the key. The module of a record has its attributes.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec, TypeVar

from .attributes import PK, SK
from .store_errors import Unreadable
from .table import KEY_ATTRIBUTES

Item = dict[str, Any]
I = TypeVar("I", bound=Item | None)  # noqa: E741  an item, or none where a record may be missing
P = ParamSpec("P")
T = TypeVar("T")

MOST: Final = 10**38  # DynamoDB's numbers have 38 digits
UNREADABLE: Final = (
    Unreadable,
    LookupError,
    ValueError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)

_PLACES: Final = frozenset(KEY_ATTRIBUTES)
_NAMES: Final[dict[type, str]] = {str: "text", int: "whole number", bool: "boolean", dict: "map", list: "list"}


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
        raise TypeError(f"{name} is no {_NAMES[kind]}")
    return value
