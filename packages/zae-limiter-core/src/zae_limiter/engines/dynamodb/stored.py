"""Read stored items in answers, each with its key. A key that is no text is refused."""

from collections.abc import Callable, Mapping
from typing import Any

from ...operations.errors import OutcomeUnknown, Unreadable
from ...operations.values import Item, Key
from ...schema.attributes import PK, SK
from ...schema.record import UNREADABLE
from .marshal import read_stored

Stored = Mapping[str, Any]


def read_key(stored: Stored) -> Key:
    """Return the key of an item. Raises an error of ``UNREADABLE`` where there is none."""
    pk, sk = stored[PK]["S"], stored[SK]["S"]
    if type(pk) is not str or type(sk) is not str:
        raise TypeError("a key is no text")
    return Key(pk, sk)


def read_one(key: Key, stored: Stored, read: Callable[[Stored], Item] = read_stored) -> Item:
    """Return the item that was asked for by its key, and no other. Raises ``OutcomeUnknown``, ``Unreadable``."""
    try:
        found = read(stored)
    except UNREADABLE as error:
        if read_key(stored) == key:
            raise Unreadable(*key, f"it has a value that no record has: {error}") from error
        found = {}
    if found.get(PK) != key.pk or found.get(SK) != key.sk:
        raise OutcomeUnknown(f"the answer has another item than {key.pk!r}, {key.sk!r}")
    return found


def read_row(stored: Stored) -> Item:
    """Return an item among others, or its key alone if it has a value that no record has, as the items of others may.

    Every reader of a record refuses a key alone: it lacks what the record needs.
    """
    key = read_key(stored)
    try:
        return read_stored(stored)
    except UNREADABLE:
        return {PK: key.pk, SK: key.sk}
