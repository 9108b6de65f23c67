"""Do a change of a bucket once under an idempotency key.

The request that asks for a change may come twice: its answer was lost, its process was killed, its queue delivers at
least once. So the change and its key are written in one transaction, on the condition that the key is not there. A
repeat finds the key, and writes nothing. A key is kept for 30 days after its change, so the table does not grow for
ever; whoever repeats a change later than that makes it again.
"""

from typing import Final, NamedTuple

from ...exceptions import ValidationError
from ...operations.values import Conditions, Item, Key, Put
from ...schema import keys
from ...schema.attributes import EVENT_ID, PK
from ...schema.idempotency import Done, KeyPlace, done_item, has_expired, read_done
from ...schema.items import BucketId
from ...values.naming import check_idempotency_key
from ..retry import read
from ..steps import Flow

KEPT_DAYS: Final = 30
_KEPT_SECONDS: Final = KEPT_DAYS * 24 * 3600
_WHAT: Final = {"bucket_credited": "credit", "bucket_reset": "reset"}


class Once(NamedTuple):
    """A change that is to be made once under its key."""

    place: KeyPlace
    done: Done

    def found(self) -> Flow[Item | None]:
        """Return the item of the key, if it has one; it may have expired."""
        pk = keys.pk_idempotency(self.place.namespace_id, self.place.entity_id)
        return (yield from read(Key(pk, keys.sk_idempotency(self.place.resource, self.place.key))))

    def is_done(self, item: Item | None, now_ms: int) -> bool:
        """Return whether the change was made under this key. Raises ``ValidationError`` if another one was."""
        if item is None or has_expired(item, now_ms):
            return False
        if (before := read_done(item)) != self.done:
            where = f"{self.place.entity_id}/{self.place.resource}"
            problem = f"stands for {_told(before)} of {where}, not for {_told(self.done)}: take another key"
            raise ValidationError("idempotency_key", self.place.key, problem)
        return True

    def put(self, item: Item | None, event: Put, now_ms: int) -> Put:
        """Return the write of the key, for the transaction of the change with its audit ``event``.

        It fails if somebody has written the key since ``item``, which was not there or had expired.
        """
        when = Conditions(absent=(PK,)) if item is None else Conditions(equals={EVENT_ID: item[EVENT_ID]})
        event_id, expires_at = event.item[EVENT_ID], now_ms // 1000 + _KEPT_SECONDS
        return Put(done_item(self.place, self.done, event_id=event_id, expires_at=expires_at), when)


def once(bucket: BucketId, key: str | None, done: Done) -> Once | None:
    """Return the change of a bucket with its checked key; ``None`` without a key. Raises ``ValidationError``."""
    if key is None:
        return None
    key = check_idempotency_key("idempotency_key", key)
    return Once(KeyPlace(bucket.namespace_id, bucket.entity_id, bucket.resource, key), done)


def _told(done: Done) -> str:
    tokens = ", ".join(f"{amount} {name}" for name, amount in sorted(done.tokens.items()))
    return f"a {_WHAT.get(done.action, done.action)}{f' of {tokens}' if tokens else ''}"
