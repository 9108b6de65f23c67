"""Compute the effect of a write on an item, as DynamoDB defines it: pure functions."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from .. import schema
from ..operations.errors import ConditionFailed, Invalid, NotApplied, Reason, TableExists, TransactionCancelled
from ..operations.sizes import item_size
from ..operations.values import (
    UNCONDITIONAL,
    Check,
    Conditions,
    CreateTable,
    Delete,
    Item,
    Key,
    Put,
    Update,
    Value,
    copy_of,
    plain,
)
from ..schema.attributes import PK, SK, TTL
from ..schema.items import BucketId
from ..schema.table import KEY_ATTRIBUTES, TABLE_KEYS
from ..values.usage import WINDOW_SECONDS, Window

MAX_ITEM_BYTES: Final = 400 * 1024
HOUR_MS: Final = 3_600_000

_LONGEST_NUMBER: Final = 21  # bytes
_PRIMARY_KEY: Final = frozenset(TABLE_KEYS)
_KEY_NAMES: Final = frozenset(KEY_ATTRIBUTES)
_ABSENT: Final = object()
_EMPTY: Final[Item] = {}

Write = Put | Update | Delete | Check


def refuse_table(_: CreateTable) -> None:
    """Raise ``TableExists``: a store in this process, and a file, have their table from the start."""
    raise TableExists("the store has its table from the start")


def distinct(keys: list[Key], *, at_most: int) -> list[Key]:
    """Return ``keys``. Raises ``Invalid`` if there are none, too many, or one twice."""
    if not 1 <= len(set(keys)) == len(keys) <= at_most:
        raise Invalid(f"takes 1 to {at_most} different keys")
    return keys


def outcomes(writes: Sequence[Write], keys: Sequence[Key], before: Sequence[Item | None]) -> list[Item | None]:
    """Return the items after the writes of a transaction. Raises ``TransactionCancelled`` if one of them fails, and
    ``Invalid``.
    """
    for write in writes:
        refuse_malformed(write)
    items: list[Item | None] = []
    reasons: list[Reason] = []
    for write, key, item in zip(writes, keys, before, strict=True):
        try:
            items.append(after(write, key, item))
            reasons.append(Reason(None))
        except ConditionFailed as failure:
            reasons.append(Reason("ConditionalCheckFailed", failure.item))
        except NotApplied:
            reasons.append(Reason("ValidationError"))
    if len(items) < len(writes):
        raise TransactionCancelled(tuple(reasons))
    return items


def key_of(write: Write) -> Key:
    """Return the key of a write's item. Raises ``Invalid`` if a part of it is missing or empty."""
    if isinstance(write, Put):
        check_key_values(write.item, required=TABLE_KEYS)
        return Key(write.item[PK], write.item[SK])
    return checked_key(write.key)


def checked_key(key: Key) -> Key:
    """Return ``key``. Raises ``Invalid`` if a part of it is empty."""
    if not (key.pk and key.sk):
        raise Invalid("a key has an empty part")
    return key


def after(write: Write, key: Key, before: Item | None) -> Item | None:
    """Return the item after ``write``; it shares no mutable value with ``write``.

    Raises ``ConditionFailed``, and ``Invalid`` for a write that DynamoDB refuses by itself.
    """
    when = write.when
    if when is not UNCONDITIONAL and not holds(when, _EMPTY if before is None else before):
        refuse_malformed(write)  # if the conditions hold, the steps below refuse it
        raise ConditionFailed(None if before is None else copy_of(before))
    if type(write) is Update:
        return _updated(write, key, before)
    if isinstance(write, Put):
        return _put(write)
    return before if isinstance(write, Check) else None


def refuse_malformed(write: Write) -> None:
    """Raise ``Invalid`` for a write that DynamoDB refuses before it reads the item."""
    bounds = write.when
    if any(least > bounds.at_most.get(name, least) for name, least in bounds.at_least.items()):
        raise Invalid("a lower bound is above the upper one")
    if isinstance(write, Update):
        _refuse_clauses(write.add, write.set, write.remove)
    if isinstance(write, Put):
        _put(write)


def holds(when: Conditions, item: Item) -> bool:
    """Return whether all conditions hold for ``item``; values of different types do not match."""
    exists, absent, equals, at_least, at_most, below = when
    if exists and not item.keys() >= {*exists}:
        return False
    if absent and not item.keys().isdisjoint(absent):
        return False
    for name, wanted in equals.items():
        value = item.get(name, _ABSENT)
        if value is wanted:
            continue
        # True equals 1 in Python, but not in DynamoDB.
        if value != wanted or (type(value) is bool) is not (type(wanted) is bool):
            return False
    if below and not all(name not in item or _sorts_before(item[name], limit) for name, limit in below.items()):
        return False
    try:
        for name, least in at_least.items():
            value = item[name]
            if type(value) is not int or value < least:
                return False
        for name, most in at_most.items():
            value = item[name]
            if type(value) is not int or value > most:
                return False
    except KeyError:  # a missing attribute is within no bounds
        return False
    return True


def _sorts_before(value: Value, limit: str | int) -> bool:
    if isinstance(limit, int):
        return type(value) is int and value < limit
    return isinstance(value, str) and value.encode() < limit.encode()


def check_key_values(values: Mapping[str, Value], *, required: Iterable[str] = ()) -> None:
    """Raise ``Invalid`` if a key attribute is not a string, or is empty."""
    for name in required:
        if name not in values:
            raise Invalid(f"{name} must be a string that is not empty")
    for name, value in values.items():
        if name in _KEY_NAMES and not (value and (type(value) is str or isinstance(value, str))):
            raise Invalid(f"{name} must be a string that is not empty")


def _updated(update: Update, key: Key, before: Item | None) -> Item:
    item: Item = {PK: key.pk, SK: key.sk} if before is None else before.copy()
    _, add, values, remove, _ = update
    for name, amount in add.items():
        value = item.get(name, 0)
        if type(value) is not int:
            raise Invalid(f"cannot add to {name}: it is not a number")
        item[name] = value + amount
    if remove:
        _refuse_clauses(add, values, remove)
    numbers_alone = True
    for name, value in values.items():
        if name in add or name in _KEY_NAMES:
            _refuse_clauses(add, values, remove)
        if type(value) is int:
            item[name] = value
        else:
            item[name] = plain(value)
            numbers_alone = False
    if not numbers_alone:  # numbers do not make an item too large
        _refuse_large(item)
    for name in remove:
        item.pop(name, None)
    return item


def _refuse_clauses(add: Mapping[str, int], values: Mapping[str, Value], remove: tuple[str, ...]) -> None:
    changed = (*values, *remove) if remove else values
    if not add.keys().isdisjoint(changed) or (remove and not values.keys().isdisjoint(remove)):
        raise Invalid("two clauses change the same attribute")
    if not _KEY_NAMES.isdisjoint(changed):
        check_key_values(values)
        if not _PRIMARY_KEY.isdisjoint(changed):
            raise Invalid("an update cannot change the key of its item")


def _put(put: Put) -> Item:
    item = copy_of(put.item)
    _refuse_large(item)
    return item


def _refuse_large(item: Item) -> None:
    most = sum(map(len, item)) + _LONGEST_NUMBER * len(item)  # characters, each of four bytes at most
    for value in item.values():
        if type(value) is str:
            most += len(value)
        elif type(value) is list or type(value) is dict:
            most = MAX_ITEM_BYTES
    if 4 * most > MAX_ITEM_BYTES and item_size(item) > MAX_ITEM_BYTES:
        raise Invalid("an item has at most 400 KB")


def usage_updates(bucket: BucketId, before: Item, after: Item, hour: int, days: Mapping[Window, int]) -> list[Update]:
    """Return the updates of the snapshots that count what a bucket has used in an hour, between two of its states.

    ``days``: for how long each window is kept. Raises one of ``UNREADABLE`` for a damaged item.
    """
    updates: list[Update] = []
    add = schema.usage.additions([used]) if (used := schema.changes.consumption(before, after)) else {}
    for window in WINDOW_SECONDS if add else ():
        snapshot = schema.usage.SnapshotId.of_bucket(bucket, window, hour * HOUR_MS)
        values = snapshot.attributes(spread=False)  # no key of these engines is hot
        if (expires_at := snapshot.expires_at(days[window])) is not None:
            values[TTL] = expires_at
        updates.append(Update(Key(snapshot.pk, snapshot.sk), add=add, set=values))
    return updates
