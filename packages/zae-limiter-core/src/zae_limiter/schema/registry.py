"""The items of the registry: namespaces, the version record, the progress of a migration."""

from datetime import datetime
from typing import Final

from ..runtime.named_tuple import NamedTuple
from ..values.namespaces import Namespace
from ..values.naming import check_namespace, check_namespace_id
from ..values.versions import MigrationProgress, VersionRecord
from . import keys
from .attributes import (
    BEHIND_PK,
    BEHIND_SK,
    CONTENT,
    COPIED,
    COPYING,
    DELETED,
    ITEMS_CHANGED,
    ITEMS_READ,
    NAME,
    PK,
    PURGED,
    PURGING,
    SK,
    TRACE,
    TTL,
)
from .record import AS_IS, NUMBER, TEXT, Field, Item, Record, checked, number, optional, reads, text
from .store_errors import ForeignRecord

FOREIGN_NAME: Final = "namespace_name"  # in the records of another product; ours have ``name``

MARKS: Final = (DELETED, PURGING, PURGED, COPYING, COPIED)
STAYS_SECONDS: Final = 2 * 24 * 3600  # twice as long as the table's stream keeps its records


NAMESPACE: Final = Record(
    Namespace,
    name=checked(check_namespace),
    namespace_id=checked(check_namespace_id),
    created_at=TEXT,
    deleted_at=TEXT.optional(),
)
VERSION: Final = Record(VersionRecord, schema_version=AS_IS, core_version=AS_IS, min_client_version=AS_IS)
PROGRESS: Final = Record(
    MigrationProgress,
    name=TEXT,
    schema_version=NUMBER,
    serial=NUMBER,
    items=NUMBER.named(ITEMS_READ),
    changed=NUMBER.named(ITEMS_CHANGED),
    behind=Field(
        lambda item, _: (text(item, BEHIND_PK), text(item, BEHIND_SK)) if BEHIND_PK in item else None, lambda _: None
    ),
)
read_version, read_progress = VERSION.read, PROGRESS.read


def namespace_items(name: str, namespace_id: str, created_at: str) -> tuple[Item, Item]:
    """Return the two records of a namespace: by name and by id."""
    fields = NAMESPACE.write(Namespace(name, namespace_id, created_at))
    return _record(keys.sk_namespace(name), fields), _record(keys.sk_nsid(namespace_id), fields)


def _record(sk: str, fields: Item) -> Item:
    return {PK: keys.pk_system(keys.REGISTRY), SK: sk, **fields}


@reads
def read_namespace(item: Item) -> Namespace:
    """Return the namespace of either of its records. Raises ``ForeignRecord``."""
    check_not_foreign(item)
    namespace = NAMESPACE.read(item)
    if item[SK] not in (keys.sk_namespace(namespace.name), keys.sk_nsid(namespace.namespace_id)):
        raise ValueError("neither its name nor its id is that of its key")
    return namespace


def check_not_foreign(item: Item) -> None:
    """Raise ``ForeignRecord`` for a namespace that another product registered."""
    if FOREIGN_NAME in item and NAME not in item:
        raise ForeignRecord(item.get(PK), item.get(SK), FOREIGN_NAME)


def bounds_item(name: str, content: str) -> Item:
    """Return the record of the bounds of a namespace, which are a text that core does not read."""
    return _record(keys.sk_bounds(name), {CONTENT: content})


@reads
def read_bounds(item: Item) -> str:
    """Return the text of the bounds of a namespace."""
    return text(item, CONTENT)


class RegistryRecord(NamedTuple):
    """A record of a namespace as it was read: its item, whose marks are texts, and the namespace."""

    item: Item
    namespace: Namespace

    @property
    def name(self) -> str:
        """The name of the namespace."""
        return self.namespace.name

    @property
    def id(self) -> str:
        """Its id."""
        return self.namespace.namespace_id

    def has(self, mark: str) -> bool:
        """Return whether the record has one of ``MARKS``."""
        return mark in self.item

    @property
    def trace(self) -> int:
        """Of how many of a thousand entities a trace is kept; a record by name has none."""
        return optional(number, self.item, TRACE) or 0


@reads
def read_record(item: Item) -> RegistryRecord:
    """Return either record of a namespace."""
    for mark in MARKS:
        optional(text, item, mark)
    optional(number, item, TRACE)
    return RegistryRecord(item, read_namespace(item))


def copying_items(new: Namespace, source_id: str) -> tuple[Item, Item]:
    """Return the two records of a namespace that a copy fills: to everybody else it is a deleted one."""
    by_name, by_id = namespace_items(new.name, new.namespace_id, new.created_at)
    marks = {DELETED: new.created_at, COPYING: source_id}
    return by_name | marks, by_id | marks


def copied_items(record: RegistryRecord) -> tuple[Item, Item]:
    """Return the two records of a namespace whose copy is complete. ``record`` is that by id, before."""
    by_name, by_id = namespace_items(record.name, record.id, record.namespace.created_at)
    return by_name, by_id | {COPIED: record.item[COPYING]}


def purged_item(by_id: Item, at: str) -> Item:
    """Return the record by id of a namespace after a purge that began ``at`` an ISO time; TTL removes it later."""
    begun = int(datetime.fromisoformat(at).timestamp())
    return by_id | {PURGED: at, TTL: begun + STAYS_SECONDS}


def version_item(record: VersionRecord) -> Item:
    """Return the version record: one for the table, so that every reader of the registry may read it."""
    return _record(keys.sk_version(), VERSION.write(record))


def progress_item(progress: MigrationProgress) -> Item:
    """Return the progress of a migration: one record for the table, beside its version record."""
    behind = {} if progress.behind is None else dict(zip((BEHIND_PK, BEHIND_SK), progress.behind, strict=True))
    return _record(keys.sk_migration(), PROGRESS.write(progress) | behind)
