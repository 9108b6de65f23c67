"""A table in memory with a stream, and what an event source mapping may do with it.

Lives here: records as Lambda delivers them, deliveries. Never: a claim.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Any

from zae_limiter.engines.dynamodb.marshal import write_item
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.operations.values import BatchWrite, Delete, Get, Item, Key, Operation, Put, Transact, Update

LABEL = "2024-01-01T00:00:00.000"
ARN = "arn:aws:dynamodb:eu-west-1:123456789012:table/demo/stream/"
BY_TTL = {"type": "Service", "principalId": "dynamodb.amazonaws.com"}

Record = dict[str, Any]


def record(
    number: int,
    before: Item | None,
    after: Item | None,
    *,
    at_ms: int = 1_700_000_000_000,
    label: str = LABEL,
    by_ttl: bool = False,
) -> Record:
    """The record of a change, in Lambda's spelling."""
    item = after or before or {}
    images = {"OldImage": before, "NewImage": after}
    change = {
        "ApproximateCreationDateTime": at_ms // 1000,  # the stream tells whole seconds
        "Keys": write_item({name: item[name] for name in ("PK", "SK")}),
        "SequenceNumber": str(number),
        "StreamViewType": "NEW_AND_OLD_IMAGES",
        **{name: write_item(image) for name, image in images.items() if image is not None},
    }
    return {
        "eventID": str(number),
        "eventName": "REMOVE" if after is None else "INSERT" if before is None else "MODIFY",
        "eventSourceARN": ARN + label,
        "dynamodb": change,
        **({"userIdentity": BY_TTL} if by_ttl else {}),
    }


class StreamedTable(MemoryTable):
    """A table whose changes are written down. ``now_ms`` dates them; for one thread at a time."""

    def __init__(self, now_ms: Callable[[], int]) -> None:
        super().__init__()
        self.stream: list[Record] = []
        self._now_ms = now_ms
        self._numbers = count(100, 7)
        self._known: dict[Key, None] = {}

    def execute(self, operation: Operation[Any]) -> Any:
        """Answer as the table does, and write down what changed."""
        keys = _written(operation)
        before = self._images(keys)
        answer = super().execute(operation)
        self._note(keys, before)
        return answer

    def expire(self, now_seconds: int) -> int:
        """Remove what has expired, as TTL does."""
        keys = list(self._known)
        before = self._images(keys)
        gone = super().expire(now_seconds)
        self._note(keys, before, by_ttl=True)
        return gone

    def _note(self, keys: Sequence[Key], before: Sequence[Item | None], *, by_ttl: bool = False) -> None:
        after = self._images(keys)
        for key, old, new in zip(keys, before, after, strict=True):
            self._known[key] = None
            if old != new:
                number = next(self._numbers)
                self.stream.append(record(number, old, new, at_ms=self._now_ms(), by_ttl=by_ttl))

    def _images(self, keys: Iterable[Key]) -> list[Item | None]:
        return [super(StreamedTable, self).execute(Get(key)) for key in keys]


def _written(operation: Operation[Any]) -> list[Key]:
    writes = operation.writes if isinstance(operation, Transact | BatchWrite) else (operation,)
    return [_key(write) for write in writes if isinstance(write, Put | Update | Delete)]


def _key(write: Put | Update | Delete) -> Key:
    return Key(write.item["PK"], write.item["SK"]) if isinstance(write, Put) else write.key
