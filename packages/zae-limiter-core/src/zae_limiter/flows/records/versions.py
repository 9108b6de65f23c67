"""Read and write the version record of the table."""

from collections.abc import Callable

from ...exceptions import NoUpgradePathError, ValidationError
from ...operations.errors import ConditionFailed, Unreadable
from ...operations.values import Conditions, Item, Key, Put
from ...schema import keys
from ...schema.attributes import PK
from ...schema.registry import read_version, version_item
from ...values.versions import VersionRecord
from ..retry import ATTEMPTS, RaceLost, read, with_retries
from ..steps import Flow

KEY = Key(keys.pk_system(keys.REGISTRY), keys.sk_version())


def get_version_record(stack: str) -> Flow[VersionRecord | None]:
    """Return the version record, ``None`` if there is none. Raises ``NoUpgradePathError``."""
    item = yield from read(KEY)
    return None if item is None else recorded(item, stack)


def recorded(item: Item, stack: str) -> VersionRecord:
    """Return the versions in the record. Raises ``NoUpgradePathError`` for a record that this project did not write."""
    try:
        return read_version(item)
    except Unreadable as error:
        raise NoUpgradePathError(stack, f"its version record cannot be read: {error.problem}") from error


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
