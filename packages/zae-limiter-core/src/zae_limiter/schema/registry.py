"""The items that belong to the table as a whole, beside the two of a namespace (items): what is read of them.

Lives here: their content. Never: when they are written (flows).
"""

from datetime import datetime
from typing import Any, Final

from ..namespaces import Namespace
from ..versions import VersionRecord
from . import keys
from .table import TTL_ATTRIBUTE

Item = dict[str, Any]

DELETED: Final = "deleted_at"  # both records of a namespace carry it from its soft deletion on
PURGING: Final = "purging_at"  # the record by id carries it from the begin of a purge on: there is no way back
PURGED: Final = "purged_at"  # and this from its end on, for as long as the record stays
MARKS: Final = (DELETED, PURGING, PURGED)
STAYS_SECONDS: Final = 2 * 24 * 3600  # twice as long as the table's stream keeps what was written before the purge


def read_namespace(item: Item) -> Namespace:
    """The namespace of either of its records."""
    return Namespace(item["name"], item["namespace_id"], item["created_at"], item.get(DELETED))


def purged_item(by_id: Item, at: str) -> Item:
    """The record by id of a namespace whose purge, begun at ``at``, has removed everything; TTL removes it, too."""
    begun = int(datetime.fromisoformat(at).timestamp())
    return by_id | {PURGED: at, TTL_ATTRIBUTE: begun + STAYS_SECONDS}


def version_item(record: VersionRecord) -> Item:
    """The record of a stack's versions: one of the table, which all that may read the registry may read."""
    return {
        "PK": keys.pk_system(keys.REGISTRY),
        "SK": keys.sk_version(),
        "schema_version": record.schema_version,
        "core_version": record.core_version,
        "min_client_version": record.min_client_version,
    }


def read_version(item: Item) -> VersionRecord:
    """The versions that a record says."""
    return VersionRecord(item["schema_version"], item["core_version"], item["min_client_version"])
