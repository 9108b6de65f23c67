"""Operations and their answers, as frozen values. ``render`` has the form of a request, stores execute it."""

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final, Generic, Literal, TypeVar

from ..runtime.dataclass import dataclass, replace
from ..runtime.named_tuple import NamedTuple
from ..schema.attributes import PK

Value = Any  # str, int, bool, None, list or dict
Item = dict[str, Value]

_PLAIN: Final = frozenset((int, str, bool, type(None)))
NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def sums(some: Mapping[str, int], more: Mapping[str, int]) -> dict[str, int]:
    """Return the sums of the amounts of two mappings, by name."""
    return {name: some.get(name, 0) + more.get(name, 0) for name in {**some, **more}}


class Key(NamedTuple):
    """Partition key and sort key of one item."""

    pk: str
    sk: str


IndexName = Literal["GSI1", "GSI2", "GSI3", "GSI4"]
R_co = TypeVar("R_co", covariant=True)


class Operation(Generic[R_co]):
    """One request to a store; its answer is an ``R_co``."""

    __slots__ = ()


class Found(NamedTuple):
    """The items that a ``BatchGet`` found; ``unread`` keys have to be asked for again."""

    items: dict[Key, Item]
    unread: tuple[Key, ...] = ()


class Page(NamedTuple):
    """One page of a query; ``next`` is the ``start`` of the following page, ``None`` at the end."""

    items: list[Item]
    next: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Get(Operation[Item | None]):
    """Read one item, strongly consistent."""

    key: Key


@dataclass(frozen=True, slots=True)
class BatchGet(Operation[Found]):
    """Read up to 100 items, strongly consistent."""

    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Query(Operation[Page]):
    """Read one page of a partition of the table or of an index.

    ``begins_with`` narrows the sort key; ``after`` skips all sort keys up to this one; ``start`` is the ``next`` of the
    page before.
    """

    pk: str
    index: IndexName | None = None
    begins_with: str | None = None
    after: str | None = None
    limit: int | None = None
    descending: bool = False
    start: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Scan(Operation[Page]):
    """Read one page of the whole table, strongly consistent; ``start`` is the ``next`` of the page before."""

    limit: int
    start: Mapping[str, str] | None = None


class Conditions(NamedTuple):
    """The conditions of a write, all of which must hold; ``exists=("PK",)`` means that the item exists.

    ``below``: each of these attributes is absent, or sorts before the given string, or is less than the given number.
    """

    exists: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    equals: Mapping[str, Value] = NOTHING
    at_least: Mapping[str, int] = NOTHING
    at_most: Mapping[str, int] = NOTHING
    below: Mapping[str, str | int] = NOTHING


UNCONDITIONAL: Final = Conditions()
NEVER: Final = Conditions(exists=(PK,), absent=(PK,))  # no item fulfils it: such a write changes nothing


@dataclass(frozen=True, slots=True)
class Put(Operation[None]):
    """Write a whole item."""

    item: Item
    when: Conditions = UNCONDITIONAL


class _UpdateFields(NamedTuple):
    key: Key
    add: Mapping[str, int] = NOTHING
    set: Mapping[str, Value] = NOTHING
    remove: tuple[str, ...] = ()
    when: Conditions = UNCONDITIONAL


class Update(_UpdateFields, Operation[Item]):
    """Change one item, or create it unless a condition forbids that. Answer: the item afterwards (``ALL_NEW``)."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Delete(Operation[None]):
    """Remove one item; deleting a missing item succeeds."""

    key: Key
    when: Conditions = UNCONDITIONAL


@dataclass(frozen=True, slots=True)
class Check:
    """A condition on an item that a transaction does not write."""

    key: Key
    when: Conditions


@dataclass(frozen=True, slots=True)
class Transact(Operation[None]):
    """Apply up to 100 writes, all or none.

    ``request_token`` makes a repeat within ten minutes idempotent (ClientRequestToken, at most 36 characters).
    """

    writes: tuple[Put | Update | Delete | Check, ...]
    request_token: str | None = None


class Unwritten(NamedTuple):
    """The writes that a ``BatchWrite`` left undone, to be sent again."""

    writes: tuple[Put | Delete, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchWrite(Operation[Unwritten]):
    """Apply up to 25 unconditional puts and deletes, each by itself."""

    writes: tuple[Put | Delete, ...]


WRITES: Final = (Update, Put, Delete, Transact, BatchWrite)


@dataclass(frozen=True, slots=True)
class CreateTable(Operation[None]):
    """Create the table of the schema. The answer comes before the table is active. Raises ``TableExists``."""


@dataclass(frozen=True, slots=True)
class DescribeTable(Operation[str]):
    """Read the ``TableStatus`` of the table (``ACTIVE``, …). Raises ``TableMissing``."""


@dataclass(frozen=True, slots=True)
class EnableTtl(Operation[None]):
    """Switch on expiry by the attribute ``ttl``; no error if it is on."""


def changing_nothing(write: Operation[Any]) -> Put | Update | Delete:
    """Return a write that changes nothing, and needs the permissions of ``write``, or of a part of it: the store takes
    it, and finds that its condition does not hold, if it would take ``write``.
    """
    parts: Iterable[Any] = getattr(write, "writes", (write,))
    part: Put | Update | Delete = next(each for each in parts if not isinstance(each, Check))
    return part._replace(when=NEVER) if isinstance(part, Update) else replace(part, when=NEVER)


def changes_nothing(operation: Operation[Any]) -> bool:
    """Return whether an operation is such a write."""
    return getattr(operation, "when", None) is NEVER


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
