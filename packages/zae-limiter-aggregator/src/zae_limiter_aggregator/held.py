"""Hold usage back while the stream is busy, to write each snapshot once for many batches.

A batch has at most 6 MB, about 2,400 changes of buckets. Where each of 1,000 buckets of a stream shard is used once a
second, hardly any bucket comes twice in a batch, and the writes to its hour and its day cost more than the admissions.
With a tumbling window, Lambda passes a state of up to 1 MB from batch to batch of a stream shard, until the window
ends. There this module keeps what busy batches used, and the batch that ends the window writes it.

The state has each use with its mark, not sums: an invocation that was given up may still count a part of them, up to a
mark, and what is left of a sum is unknown. A batch adds one text to the state and reads none of the others.

https://docs.aws.amazon.com/lambda/latest/dg/services-ddb-windows.html
"""

import json
import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple, Self

from zae_limiter.maintenance import BucketId, Consumption, Use
from zae_limiter.values.usage import WINDOW_SECONDS, Refuser

from .records import BucketChange, use_of

BUSY_RECORDS: Final = 100  # a smaller batch is written at once: 50 changes a second at the default batch window
WORTH: Final = 10  # changes for each write, from which on a batch is written at once
MOST_BYTES: Final = 900_000  # of the state: Lambda ends a window early whose state has more than 1 MB
USES: Final = "uses"


class PendingUse(NamedTuple):
    """A use of a bucket shard that no snapshot is known to have counted; ``sequence`` is Lambda's id of its record."""

    bucket: BucketId
    use: Use
    sequence: str


@dataclass(frozen=True, slots=True)
class TumblingWindow:
    """What Lambda says of a window with a batch: the ``texts`` of its state, and whether it ``ends`` with the batch.

    Without ``may_wait``, all usage is written now.
    """

    texts: tuple[str, ...] = ()
    ends: bool = False
    may_wait: bool = True

    @classmethod
    def of_event(cls, event: Mapping[str, Any]) -> Self | None:
        """Read an event; return ``None`` if the mapping has no tumbling window. Raises ``ValueError`` for a state that
        this module does not write.
        """
        if "window" not in event:
            return None
        state = event.get("state") or {}
        texts = state.get(USES, []) if isinstance(state, Mapping) and state.keys() <= {USES} else None
        if not (isinstance(texts, list) and all(isinstance(each, str) for each in texts)):
            raise ValueError("the state of the window is not one that this release writes")
        return cls(tuple(texts), bool(event.get("isFinalInvokeForWindow") or event.get("isWindowTerminatedEarly")))

    @property
    def state(self) -> dict[str, list[str]]:
        """The state, as the answer to Lambda has it."""
        return {USES: list(self.texts)} if self.texts else {}

    @property
    def is_full(self) -> bool:
        """Whether the state is larger than one that may be returned."""
        return len(json.dumps(self.state)) > MOST_BYTES

    def holds(self, changes: Sequence[BucketChange], records: int) -> bool:
        """Return whether the usage of a batch waits: not that of a quiet stream, nor where each write counts many
        changes anyway.
        """
        writes = len(WINDOW_SECONDS) * len({each.bucket for each in changes})
        is_cheap = not self.texts and writes * WORTH <= len(changes)
        return self.may_wait and not self.ends and records >= BUSY_RECORDS and not is_cheap

    def with_uses(self, uses: Sequence[PendingUse]) -> Self:
        """Return the window with further uses in its state."""
        return replace(self, texts=(*self.texts, pack(uses))) if uses else self

    def held(self) -> list[PendingUse]:
        """Return what the state holds, in the order in which it came. Raises ``ValueError`` for a damaged text."""
        return [use for text in self.texts for use in unpack(text)]


def pending_uses(changes: Iterable[BucketChange]) -> list[PendingUse]:
    """Return the uses of the changes that consumed anything."""
    return [PendingUse(each.bucket, use_of(each), each.position.sequence) for each in changes if each.consumption]


def pack(uses: Iterable[PendingUse]) -> str:
    """Return uses as text, of about 20 bytes each."""
    rows: dict[str, list[Any]] = {}
    for bucket, use, sequence in uses:
        tokens, acquires, rests, refused_by = use.consumption
        refusers = [[*refuser, number] for refuser, number in refused_by.items()]
        row = [use.mark.removesuffix(sequence), sequence, use.at_ms, use.calls, tokens, acquires, rests, refusers]
        rows.setdefault(bucket.pk, []).append(row)
    return b64encode(zlib.compress(json.dumps(rows, separators=(",", ":")).encode())).decode()


def unpack(text: str) -> Iterable[PendingUse]:
    """Return the uses of ``pack``. Raises ``ValueError`` for any other text."""
    try:
        rows = json.loads(zlib.decompress(b64decode(text)))
    except zlib.error as error:
        raise ValueError("the state of the window is damaged") from error
    for pk, of_bucket in rows.items():
        bucket = BucketId.parse(pk)
        for before, sequence, at_ms, calls, tokens, acquires, rests, refusers in of_bucket:
            refused_by = {Refuser(entity_id, limit): number for entity_id, limit, number in refusers}
            use = Use(before + sequence, Consumption(tokens, acquires, rests, refused_by), at_ms, calls)
            yield PendingUse(bucket, use, sequence)
