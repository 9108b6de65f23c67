"""The items of the registry: namespaces, the version record, the progress of a migration."""

from datetime import datetime
from typing import Any, Final

from ..namespaces import Namespace
from ..versions import MigrationProgress, VersionRecord
from . import keys
from .attributes import (
    BEHIND_PK,
    BEHIND_SK,
    CORE_VERSION,
    CREATED_AT,
    DELETED,
    ITEMS_CHANGED,
    ITEMS_READ,
    MIN_CLIENT_VERSION,
    NAME,
    NAMESPACE_ID,
    PK,
    PURGED,
    PURGING,
    SCHEMA_VERSION,
    SERIAL,
    SK,
    TTL,
)

Item = dict[str, Any]

MARKS: Final = (DELETED, PURGING, PURGED)
STAYS_SECONDS: Final = 2 * 24 * 3600  # twice as long as the table's stream keeps its records


def namespace_items(name: str, namespace_id: str, created_at: str) -> tuple[Item, Item]:
    """The two records of a namespace: by name and by id."""
    fields = {PK: keys.pk_system(keys.REGISTRY), NAME: name, NAMESPACE_ID: namespace_id, CREATED_AT: created_at}
    return {**fields, SK: keys.sk_namespace(name)}, {**fields, SK: keys.sk_nsid(namespace_id)}


def read_namespace(item: Item) -> Namespace:
    """The namespace of either of its records."""
    return Namespace(item[NAME], item[NAMESPACE_ID], item[CREATED_AT], item.get(DELETED))


def purged_item(by_id: Item, at: str) -> Item:
    """The record by id of a namespace after a purge that began ``at`` an ISO time; TTL removes it later."""
    begun = int(datetime.fromisoformat(at).timestamp())
    return by_id | {PURGED: at, TTL: begun + STAYS_SECONDS}


def version_item(record: VersionRecord) -> Item:
    """The version record: one for the table, so that every reader of the registry may read it."""
    return {
        PK: keys.pk_system(keys.REGISTRY),
        SK: keys.sk_version(),
        SCHEMA_VERSION: record.schema_version,
        CORE_VERSION: record.core_version,
        MIN_CLIENT_VERSION: record.min_client_version,
    }


def read_version(item: Item) -> VersionRecord:
    """The versions in a version record."""
    return VersionRecord(item[SCHEMA_VERSION], item[CORE_VERSION], item[MIN_CLIENT_VERSION])


def progress_item(progress: MigrationProgress) -> Item:
    """The progress of a migration: one record for the table, beside its version record."""
    behind = {} if progress.behind is None else dict(zip((BEHIND_PK, BEHIND_SK), progress.behind, strict=True))
    return {
        PK: keys.pk_system(keys.REGISTRY),
        SK: keys.sk_migration(),
        NAME: progress.name,
        SCHEMA_VERSION: progress.schema_version,
        SERIAL: progress.serial,
        ITEMS_READ: progress.items,
        ITEMS_CHANGED: progress.changed,
        **behind,
    }


def read_progress(item: Item) -> MigrationProgress:
    """The progress in its record."""
    behind = (item[BEHIND_PK], item[BEHIND_SK]) if BEHIND_PK in item else None
    return MigrationProgress(
        item[NAME], item[SCHEMA_VERSION], item[SERIAL], item[ITEMS_READ], item[ITEMS_CHANGED], behind
    )
