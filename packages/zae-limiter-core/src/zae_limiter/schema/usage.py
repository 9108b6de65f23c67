"""The item of a usage snapshot: made of a value, added to, and read back.

The counter of a limit has a prefix, so a limit may have the name of any other attribute. The attributes that keep the
counts exact begin with ``_``: for each shard of the bucket the mark of the last record that was counted, for each limit
the rest beside its tokens; so do the counts by the limits of ancestors.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, Self

from ..runtime.dataclass import dataclass
from ..values.limits import MILLI
from ..values.usage import (
    WINDOW_SECONDS,
    Refuser,
    UsageSnapshot,
    Window,
    check_window,
    parse_window_key,
    window_key,
    window_start,
)
from . import keys
from .attributes import (
    ACQUIRES,
    ENTITY_ID,
    GSI2SK,
    GSI4SK,
    PK,
    REFUSED,
    RESOURCE,
    SK,
    TOTAL_EVENTS,
    TOTALS,
    WINDOW,
    WINDOW_START,
    parse_refuser,
)
from .changes import Consumption
from .items import BucketId, Item
from .partitions import index_partitions, is_spread
from .record import number, reads, text

SEQUENCE_DIGITS: Final = 40
SECONDS_PER_DAY: Final = 24 * 3600
MOST_COUNTED: Final = 2**63  # a count beyond it is not a count, and no column of a file could have it
_OF_LIMIT: Final = "l_"
_COUNTED: Final = "_counted_"
COUNTED_UNTIL: Final = "_counted_until"  # epoch ms: the record that was counted last
COUNTED_AT: Final = "_counted_at"  # epoch ms: the batch that counted it
COUNTED_CALLS: Final = "_counted_calls"  # the acquires, refused ones as well, that shard 0 of the bucket had by then
SPAN_MINUTES: Final = 5
SPANS: Final = {  # of an hour: the acquires admitted and refused in each five minutes
    counter: tuple(f"{prefix}{minute:02}" for minute in range(0, 60, SPAN_MINUTES))
    for counter, prefix in ((ACQUIRES, "_a"), (REFUSED, "_r"))
}
_REFUSED_BY: Final = "_refused_by_"


@dataclass(frozen=True, slots=True)
class SnapshotId:
    """The id of a snapshot: an entity, a resource, and the window that begins at ``window_start``."""

    namespace_id: str
    entity_id: str
    resource: str
    window: Window
    window_start: datetime

    @property
    def pk(self) -> str:
        """The partition key, that of the entity."""
        return keys.pk_entity(self.namespace_id, self.entity_id)

    @property
    def sk(self) -> str:
        """The sort key: resource, then window."""
        return keys.sk_usage(self.resource, self._window_key)

    @property
    def index_sk(self) -> str:
        """The sort key in GSI2: window, then entity."""
        return keys.gsi2_sk_usage(self._window_key, self.entity_id)

    @property
    def namespace_sk(self) -> str:
        """The sort key in GSI4: window, resource, entity."""
        return keys.gsi4_sk_usage(self._window_key, self.resource, self.entity_id)

    @classmethod
    def of_row(cls, row: Item) -> Self:
        """Return the id of the snapshot that an item, or its row in an index, is of. Raises ``ValueError`` for any
        other.
        """
        namespace_id, entity_id = keys.parse_entity_pk(row[PK])
        resource, key = keys.parse_usage_sk(row[SK])
        snapshot = cls(namespace_id, entity_id, resource, *parse_window_key(key))
        snapshot.check(row)
        return snapshot

    def check(self, row: Item) -> None:
        """Raise ``ValueError`` unless the attributes of an item, or of its row in an index, are those of the id."""
        for name, value in (SK, self.sk), *self.attributes(spread=is_spread(row)).items():
            if row.get(name, value) != value:
                raise ValueError(f"not as the snapshot of its key: {row[PK]!r}, {row[SK]!r}")

    @classmethod
    def of_bucket(cls, bucket: BucketId, window: Window, at_ms: int) -> Self:
        """Return the id of the snapshot that counts a change of a bucket at an instant, in epoch milliseconds."""
        return cls(bucket.namespace_id, bucket.entity_id, bucket.resource, window, window_start(window, at_ms))

    def expires_at(self, days: int) -> int | None:
        """Return the expiry of the item, so many days after its window, in epoch seconds; ``None`` for 0 days."""
        if not days:
            return None
        return int(self.window_start.timestamp()) + WINDOW_SECONDS[self.window] + days * SECONDS_PER_DAY

    def attributes(self, *, spread: bool = False) -> dict[str, Any]:
        """Return the attributes of the item without its key and its counts; ``spread``: its rows have a suffix."""
        return {
            **index_partitions(self.namespace_id, self.entity_id, self.resource, spread=spread),
            GSI2SK: self.index_sk,
            GSI4SK: self.namespace_sk,
            ENTITY_ID: self.entity_id,
            RESOURCE: self.resource,
            WINDOW: self.window,
            WINDOW_START: window_key("hourly", self.window_start),
        }

    @property
    def _window_key(self) -> str:
        return window_key(self.window, self.window_start)


def additions(uses: Iterable[Consumption]) -> dict[str, int]:
    """Return what a snapshot adds to its attributes for these uses."""
    # Each sum by the name that a use has for it: the stream brings a thousand uses of few names at once.
    totals: dict[str, int] = {}
    tokens: dict[str, int] = {}
    rests: dict[str, int] = {}
    refused: dict[Refuser, int] = {}
    for of_tokens, of_acquires, of_rests, of_refusers in uses:
        for limit, count in of_tokens.items():
            tokens[limit] = tokens.get(limit, 0) + count
        for name, count in of_acquires.items():
            totals[name] = totals.get(name, 0) + count
        for limit, count in of_rests.items():
            rests[limit] = rests.get(limit, 0) + count
        for refuser, count in of_refusers.items():
            refused[refuser] = refused.get(refuser, 0) + count
    return {
        TOTAL_EVENTS: totals.pop(ACQUIRES, 0),
        **{counter_attribute(limit): count for limit, count in tokens.items()},
        **{rest_attribute(limit): milli for limit, milli in rests.items()},
        **{refuser_attribute(refuser): count for refuser, count in refused.items()},
        **{TOTALS[name]: count for name, count in totals.items() if count},
    }


@reads
def read_spans(item: Item) -> dict[int, tuple[int, int]]:
    """Return the acquires that an hour's snapshot has admitted and refused, by the minute in which five begin."""
    found: dict[int, tuple[int, int]] = {}
    for place, names in enumerate(zip(SPANS[ACQUIRES], SPANS[REFUSED], strict=True)):
        admitted, refused = (_count(item, name) if name in item else 0 for name in names)
        if admitted or refused:
            found[place * SPAN_MINUTES] = admitted, refused
    return found


def is_hourly(sk: str) -> bool:
    """Return whether the sort key of a snapshot, or of any other item, ends with the name of an hour."""
    return "T" in sk.rpartition("#")[2]


@reads
def read_usage(item: Item, milli: Mapping[str, int] | None = None) -> UsageSnapshot:
    """Return the snapshot of an item; ``milli`` is its consumption in millitokens by limit, if that is read already."""
    milli = read_milli(item) if milli is None else milli
    for name, amount in milli.items():
        if abs(amount) >= MILLI * MOST_COUNTED:
            raise ValueError(f"{counter_attribute(name)} has more than 64 bits")
    return UsageSnapshot(
        entity_id=text(item, ENTITY_ID),
        resource=text(item, RESOURCE),
        window=check_window(item[WINDOW]),
        window_start=parse_window_key(item[WINDOW_START])[1],
        consumed={name: amount // MILLI for name, amount in milli.items()},
        refused_by={
            parse_refuser(name.removeprefix(_REFUSED_BY)): _count(item, name)
            for name in sorted(item)
            if name.startswith(_REFUSED_BY)
        },
        **{name: _count(item, name) if name in item else 0 for name in TOTALS.values()},
    )


def _count(item: Item, name: str) -> int:
    """Return a count that files of usage can have. Raises ``TypeError``, ``ValueError``."""
    found = number(item, name)
    if abs(found) >= MOST_COUNTED:
        raise ValueError(f"{name} has more than 64 bits")
    return found


@reads
def read_milli(item: Item) -> dict[str, int]:
    """Return the consumption in a snapshot's item, in millitokens by limit."""
    names = [name.removeprefix(_OF_LIMIT) for name in sorted(item) if name.startswith(_OF_LIMIT)]
    rests = {rest_attribute(name): 0 for name in names} | item
    return {name: MILLI * number(item, counter_attribute(name)) + number(rests, rest_attribute(name)) for name in names}


@reads
def read_mark(item: Item, shard: int) -> str:
    """Return the mark of the last record of a shard that a snapshot has counted."""
    return text(item, counted_attribute(shard))


def counted_attribute(shard: int) -> str:
    """Return the attribute with the mark of a shard."""
    return f"{_COUNTED}{shard}"


def is_mark(name: str) -> bool:
    """Return whether an attribute of a snapshot is the mark of a shard, or says how far the stream was counted."""
    return name.startswith(_COUNTED)


def counter_attribute(limit: str) -> str:
    """Return the attribute with the tokens of a limit."""
    return f"{_OF_LIMIT}{limit}"


def rest_attribute(limit: str) -> str:
    """Return the attribute with the rest of a limit, in millitokens."""
    return f"_rest_{limit}"


def refuser_attribute(refuser: Refuser) -> str:
    """Return the attribute with the acquires that a limit of an ancestor refused."""
    return f"{_REFUSED_BY}{refuser}"


def stream_mark(label: str, sequence_number: str) -> str:
    """Return the mark of a record of the table's stream: a string that sorts in the order of an item's changes.

    A table that is created again, or whose stream is switched on again, has a later label. Raises ``ValueError`` for a
    sequence number of anything but 1 to 40 digits.
    """
    if not (sequence_number.isdecimal() and sequence_number.isascii() and len(sequence_number) <= SEQUENCE_DIGITS):
        raise ValueError(f"no sequence number: {sequence_number!r}")
    return f"{label}#{sequence_number.zfill(SEQUENCE_DIGITS)}"
