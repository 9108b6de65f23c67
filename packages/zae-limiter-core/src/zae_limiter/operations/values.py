"""What can be asked of a store, and what it answers.

Lives here: frozen values only. Never: how a request is written (render) or carried out (stores).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

Value = Any  # an attribute map enters and leaves here: str, int, bool, None, list, dict
Item = dict[str, Value]

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


class Key(NamedTuple):
    """Partition key and sort key of one item."""

    pk: str
    sk: str


IndexName = Literal["GSI1", "GSI2", "GSI3", "GSI4"]


@dataclass(frozen=True, slots=True)
class Get:
    """Read one item, strongly consistent. Answer: ``Item | None``."""

    key: Key


@dataclass(frozen=True, slots=True)
class BatchGet:
    """Read up to 100 items, strongly consistent. Answer: ``Found``."""

    keys: tuple[Key, ...]


@dataclass(frozen=True, slots=True)
class Query:
    """Read one page of a partition of the table or of an index. Answer: ``Page``.

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
class Put:
    """Write a whole item. Answer: ``None``."""

    item: Item
    when: Conditions = UNCONDITIONAL


class Update(NamedTuple):
    """Change one item, creating it where no condition forbids it. Answer: the item as it is now (``ALL_NEW``)."""

    key: Key
    add: Mapping[str, int] = NOTHING
    set: Mapping[str, Value] = NOTHING
    remove: tuple[str, ...] = ()
    when: Conditions = UNCONDITIONAL


@dataclass(frozen=True, slots=True)
class Delete:
    """Remove one item; removing what is not there succeeds. Answer: ``None``."""

    key: Key
    when: Conditions = UNCONDITIONAL


@dataclass(frozen=True, slots=True)
class Check:
    """A condition on an item that a transaction does not write."""

    key: Key
    when: Conditions


@dataclass(frozen=True, slots=True)
class Transact:
    """All of up to 100 writes or none. Answer: ``None``.

    ``token`` makes a repeat within ten minutes idempotent (ClientRequestToken, at most 36 characters).
    """

    writes: tuple[Put | Update | Delete | Check, ...]
    token: str | None = None


@dataclass(frozen=True, slots=True)
class BatchWrite:
    """Unconditional puts and deletes of up to 25 items, each on its own. Answer: ``Unwritten``."""

    writes: tuple[Put | Delete, ...]


@dataclass(frozen=True, slots=True)
class CreateTable:
    """Create the table of the schema. Answer: ``None``, before the table is active. ``TableExists`` where it exists."""


@dataclass(frozen=True, slots=True)
class DescribeTable:
    """Ask for the state of the table. Answer: its ``TableStatus`` (``ACTIVE``, …), or ``TableMissing``."""


@dataclass(frozen=True, slots=True)
class EnableTtl:
    """Switch on expiry by the attribute ``ttl``. Answer: ``None``; nothing happens where it is on."""


Operation = (
    Get | BatchGet | Query | Put | Update | Delete | Transact | BatchWrite | CreateTable | DescribeTable | EnableTtl
)


class Found(NamedTuple):
    """What a ``BatchGet`` found; ``unread`` is to be asked again."""

    items: dict[Key, Item]
    unread: tuple[Key, ...] = ()


class Page(NamedTuple):
    """One page of a query; ``next`` is the ``start`` of the page behind it, ``None`` at the end."""

    items: list[Item]
    next: Mapping[str, str] | None = None


class Unwritten(NamedTuple):
    """What a ``BatchWrite`` left undone, to be asked again."""

    writes: tuple[Put | Delete, ...] = ()
