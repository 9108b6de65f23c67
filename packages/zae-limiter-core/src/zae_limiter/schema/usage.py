"""The item of a usage snapshot: how it is made of a value, how it is added to, and read back.

Lives here: its content. Never: when it is written (flows.counting).

What keeps its counts exact begins with ``_``, and no limit does: for each shard of the bucket the mark of the last
record that was counted, however often the stream is delivered; for each limit the thousandths beside its tokens.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from ..limits import MILLI
from ..naming import RESERVED_LIMIT_NAMES
from ..usage import UsageSnapshot, Window, check_window, parse_window_key, window_key
from . import keys
from .attributes import ENTITY_ID, GSI2PK, GSI2SK, GSI4PK, GSI4SK, PK, RESOURCE, SK, TOTAL_EVENTS, WINDOW, WINDOW_START
from .items import Item

SEQUENCE_DIGITS: Final = 40


@dataclass(frozen=True, slots=True)
class SnapshotId:
    """Which snapshot: what an entity consumed of a resource in the window that begins at ``window_start``."""

    namespace_id: str
    entity_id: str
    resource: str
    window: Window
    window_start: datetime

    @property
    def pk(self) -> str:
        """The partition: that of the entity."""
        return keys.pk_entity(self.namespace_id, self.entity_id)

    @property
    def sk(self) -> str:
        """The sort key: resource, then window."""
        return keys.sk_usage(self.resource, self._window_key)

    def attributes(self) -> dict[str, Any]:
        """The item without its key and its counts."""
        return {
            GSI2PK: keys.gsi2_pk_resource(self.namespace_id, self.resource),
            GSI2SK: keys.gsi2_sk_usage(self._window_key, self.entity_id),
            GSI4PK: keys.gsi4_pk(self.namespace_id),
            GSI4SK: self.pk,
            ENTITY_ID: self.entity_id,
            RESOURCE: self.resource,
            WINDOW: self.window,
            WINDOW_START: window_key("hourly", self.window_start),
        }

    @property
    def _window_key(self) -> str:
        return window_key(self.window, self.window_start)


def usage_item(namespace_id: str, snapshot: UsageSnapshot) -> Item:
    """The record of a snapshot: the counter of each limit stands beside the rest, so that a write can add to it."""
    place = SnapshotId(namespace_id, snapshot.entity_id, snapshot.resource, snapshot.window, snapshot.window_start)
    counts = {TOTAL_EVENTS: snapshot.total_events, **snapshot.consumed}
    return {PK: place.pk, SK: place.sk, **place.attributes(), **counts}


def read_usage(item: Item) -> UsageSnapshot:
    """The snapshot of a record."""
    return UsageSnapshot(
        entity_id=item[ENTITY_ID],
        resource=item[RESOURCE],
        window=check_window(item[WINDOW]),
        window_start=parse_window_key(item[WINDOW_START])[1],
        consumed={name: milli // MILLI for name, milli in read_milli(item).items()},
        total_events=item.get(TOTAL_EVENTS, 0),
    )


def read_milli(item: Item) -> dict[str, int]:
    """What the record of a snapshot says was consumed, by limit, in millitokens: what sums are made of."""
    names = [name for name in sorted(item) if _is_counter(name)]
    return {name: MILLI * item[name] + item.get(rest_attribute(name), 0) for name in names}


def counted_attribute(shard: int) -> str:
    """The attribute with the mark of the last record of a shard that was counted."""
    return f"_counted_{shard}"


def rest_attribute(limit: str) -> str:
    """The attribute with the thousandths of a token that stand beside the counter of a limit."""
    return f"_rest_{limit}"


def stream_mark(label: str, sequence_number: str) -> str:
    """Where a record of the table's stream stands, as a string that sorts as the changes of an item came.

    A table that is made anew, or whose stream is switched on again, has a stream with a later label. ``ValueError`` for
    what is no sequence number: up to 40 digits, which is more than a number of DynamoDB holds.
    """
    if not (sequence_number.isdecimal() and sequence_number.isascii() and len(sequence_number) <= SEQUENCE_DIGITS):
        raise ValueError(f"no sequence number: {sequence_number!r}")
    return f"{label}#{sequence_number.zfill(SEQUENCE_DIGITS)}"


def _is_counter(name: str) -> bool:
    return not name.startswith("_") and name not in RESERVED_LIMIT_NAMES
