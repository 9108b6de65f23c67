"""What can be asked of a store, and what it answers.

Lives here: frozen values only. Never: how a request is written (render) or carried out (stores).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

Value = Any  # an attribute map enters and leaves here: str, int, bool, None, list, dict
Item = dict[str, Value]

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Key(NamedTuple):
    """Partition key and sort key of one item."""

    pk: str
    sk: str


IndexName = Literal["GSI1", "GSI2", "GSI3", "GSI4"]
R_co = TypeVar("R_co", covariant=True)


class Operation(Generic[R_co]):
    """One request to a store, which answers with an ``R_co``."""

    __slots__ = ()


class Found(NamedTuple):
    """What a ``BatchGet`` found; ``unread`` is to be asked again."""

    items: dict[Key, Item]
    unread: tuple[Key, ...] = ()


class Page(NamedTuple):
    """One page of a query; ``next`` is the ``start`` of the page behind it, ``None`` at the end."""

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

    ``begins_with`` narrows the sort key; ``after`` starts behind a sort key (exclusive), for skipping;
    ``start`` is the ``Page.next`` of the page before.
    """

    pk: str
    index: IndexName | None = None
    begins_with: str | None = None
    after: str | None = None
    limit: int | None = None
    descending: bool = False
    start: Mapping[str, str] | None = None


class Conditions(NamedTuple):
    """All of these must hold for the write to be applied; ``exists=("PK",)`` means that the item exists.

    ``below``: each of these strings sorts before the one given, or is not there.
    """

    exists: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    equals: Mapping[str, Value] = NOTHING
    at_least: Mapping[str, int] = NOTHING
    at_most: Mapping[str, int] = NOTHING
    below: Mapping[str, str] = NOTHING


UNCONDITIONAL: Final = Conditions()


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
    """Change one item, creating it where no condition forbids it. The answer is the item as it is now (``ALL_NEW``)."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Delete(Operation[None]):
    """Remove one item; removing what is not there succeeds."""

    key: Key
    when: Conditions = UNCONDITIONAL


@dataclass(frozen=True, slots=True)
class Check:
    """A condition on an item that a transaction does not write."""

    key: Key
    when: Conditions


@dataclass(frozen=True, slots=True)
class Transact(Operation[None]):
    """All of up to 100 writes or none.

    ``token`` makes a repeat within ten minutes idempotent (ClientRequestToken, at most 36 characters).
    """

    writes: tuple[Put | Update | Delete | Check, ...]
    token: str | None = None


class Unwritten(NamedTuple):
    """What a ``BatchWrite`` left undone, to be asked again."""

    writes: tuple[Put | Delete, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchWrite(Operation[Unwritten]):
    """Unconditional puts and deletes of up to 25 items, each on its own."""

    writes: tuple[Put | Delete, ...]


@dataclass(frozen=True, slots=True)
class CreateTable(Operation[None]):
    """Create the table of the schema; answered before the table is active. ``TableExists`` where it exists."""


@dataclass(frozen=True, slots=True)
class DescribeTable(Operation[str]):
    """Ask for the ``TableStatus`` of the table (``ACTIVE``, …). ``TableMissing`` where there is none."""


@dataclass(frozen=True, slots=True)
class EnableTtl(Operation[None]):
    """Switch on expiry by the attribute ``ttl``; nothing happens where it is on."""
