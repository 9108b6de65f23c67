"""Read and write the version record of the table."""

from collections.abc import Callable

from ...exceptions import NoUpgradePathError, ValidationError
from ...operations.errors import AccessLost, ConditionFailed, Denied, Unreadable
from ...operations.values import Conditions, Item, Key, Put, Query
from ...schema import keys
from ...schema.attributes import PK
from ...schema.partitions import SPREAD_SCHEMA
from ...schema.registry import check_not_foreign, read_version, version_item
from ...values.versions import VersionRecord
from ..pages import query_all
from ..retry import ATTEMPTS, RaceLost, read, read_all, with_retries
from ..steps import Flow

KEY = Key(keys.pk_system(keys.REGISTRY), keys.sk_version())


def get_version_record(stack: str) -> Flow[VersionRecord | None]:
    """Return the version record, ``None`` if there is none.

    Raises ``NoUpgradePathError``, and ``ForeignRecord`` for the table of another product.
    """
    item = yield from read(KEY)
    if item is None:
        yield from check_registry()
        return None
    return recorded(item, stack)


def check_ours() -> Flow[None]:
    """Raise ``ForeignRecord`` for the table of another product, whose registry is read without a version record."""
    if KEY not in (yield from read_all([KEY])):
        yield from check_registry()


def check_registry() -> Flow[None]:
    """Raise ``ForeignRecord`` if another product registered a namespace in the table, which has no version record.

    Whoever may not query the registry finds out by the record of its own namespace alone.
    """
    try:
        items = yield from query_all(Query(keys.pk_system(keys.REGISTRY), begins_with=keys.NAMESPACE_PREFIX))
    except (Denied, AccessLost):
        return
    for item in items:
        check_not_foreign(item)


def recorded(item: Item, stack: str) -> VersionRecord:
    """Return the versions in the record. Raises ``NoUpgradePathError`` for a record that this project did not write."""
    try:
        return read_version(item)
    except Unreadable as error:
        raise NoUpgradePathError(stack, f"its version record cannot be read: {error.problem}") from error


def has_suffixes(item: Item | None) -> bool:
    """Return whether a table with this version record has suffixes in its indexes. Without a readable record it has
    none: older clients, which would not find such rows, may use it.
    """
    try:
        return item is not None and read_version(item).schema_version >= SPREAD_SCHEMA
    except Unreadable:
        return False


def set_version_record(record: VersionRecord) -> Flow[None]:
    """Replace the version record. Raises ``ValidationError``."""
    if not isinstance(record, VersionRecord):
        raise ValidationError("record", record, "must be a VersionRecord")
    yield from with_retries(Put(version_item(record)))


def change_version_record(stack: str, change: Callable[[VersionRecord | None], VersionRecord]) -> Flow[bool]:
    """Replace the record by what ``change`` makes of it, again after a lost race; return whether it differs."""
    for _ in range(ATTEMPTS):
        before = yield from get_version_record(stack)
        after = change(before)
        if after == before:
            return False
        seen = Conditions(absent=(PK,)) if before is None else Conditions(equals=version_item(before))
        try:
            yield from with_retries(Put(version_item(after), seen))
        except ConditionFailed as failure:
            if failure.item == version_item(after):
                return True  # our own write, whose answer was lost
            continue
        return True
    raise RaceLost
