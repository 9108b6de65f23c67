"""The registry of migrations: each brings the items of a table from one version of the schema to the next.

A migration says what changes; ``migrating`` reads, writes and counts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from ...operations.values import NOTHING, Conditions, Item, Update, Value
from ...schema.attributes import PK
from ...values.versions import SCHEMA_VERSION
from ..retry import key_of


class Change(NamedTuple):
    """The change of one item: attributes with their new values, attributes to remove.

    It is written only if these attributes, and those of ``depends_on``, still are as they were read: name each one
    that a new value was computed from.
    """

    set: Mapping[str, Value] = NOTHING
    remove: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()

    def update(self, item: Item) -> Update:
        """Return the write, which fails if the item is not as it was read."""
        seen = {*self.set, *self.remove, *self.depends_on}
        same = {name: item[name] for name in sorted(seen) if name in item}
        absent = tuple(sorted(seen - same.keys()))
        return Update(key_of(item), set=self.set, remove=self.remove, when=Conditions((PK,), absent, same))

    def after(self, item: Item) -> Item:
        """Return the item with the change applied."""
        return {name: value for name, value in item.items() if name not in self.remove} | dict(self.set)


@dataclass(frozen=True, slots=True)
class Migration:
    """From ``schema_version`` to the next one, in place, item by item.

    ``change`` gets every item of the table, and returns ``None`` for an item that is not in the old form. Without a
    ``change`` no item changes: those of the old form stay, and processes that open the table from then on write the new
    one. Clients from ``oldest_client`` on read both forms; others must be shut out.
    """

    schema_version: int
    name: str
    description: str
    oldest_client: str
    change: Callable[[Item], Change | None] | None = None


# Rows that have no suffix keep their keys: to move them, each would be removed from the key that takes too few writes.
SPREAD_INDEXES: Final = Migration(
    1, "spread-indexes", "New buckets and usage get index keys with suffixes; no item changes.", "0.1.0"
)

MIGRATIONS: Final[Sequence[Migration]] = (SPREAD_INDEXES,)  # from schema 1, each to the next, up to SCHEMA_VERSION


def newest_schema(migrations: Sequence[Migration]) -> int:
    """Return the schema that the migrations lead to."""
    return migrations[-1].schema_version + 1 if migrations else SCHEMA_VERSION


def oldest_schema(migrations: Sequence[Migration]) -> int:
    """Return the schema that they begin at."""
    return migrations[0].schema_version if migrations else SCHEMA_VERSION
