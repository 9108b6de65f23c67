"""The version record of the table: reading and writing it."""

from ...exceptions import ValidationError
from ...operations.values import Key, Put
from ...schema import keys
from ...schema.registry import read_version, version_item
from ...versions import VersionRecord
from ..retry import read, with_retries
from ..steps import Flow

KEY = Key(keys.pk_system(keys.REGISTRY), keys.sk_version())


def get_version_record() -> Flow[VersionRecord | None]:
    """The version record, ``None`` if there is none."""
    item = yield from read(KEY)
    return None if item is None else read_version(item)


def set_version_record(record: VersionRecord) -> Flow[None]:
    """Replace the version record. Raises ``ValidationError``."""
    if not isinstance(record, VersionRecord):
        raise ValidationError("record", record, "must be a VersionRecord")
    yield from with_retries(Put(version_item(record)))
