"""Records of the table's stream: what they are of, by their keys, and the difference between two images of a bucket
item: tokens, acquires and writes.

These are pure functions of images; the aggregator reads the stream and writes the snapshots.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, TypeVar

from ..exceptions import ValidationError
from ..runtime.named_tuple import NamedTuple
from ..values.audit import AuditEvent
from ..values.limits import MILLI
from ..values.naming import check_namespace_id
from ..values.usage import Refuser
from .attributes import (
    ACQUIRES,
    ANCHOR,
    PK,
    REFUSED,
    SHARD_COUNT,
    SK,
    TOTALS,
    WCU,
    parse_bucket_attribute,
    parse_refused_by,
)
from .audit import check_key, check_subject, read_audit_event
from .forms import remember_forms
from .items import ONE_WRITE, WRITES, BucketId
from .keys import AUDIT_PREFIX, AuditAddress, parse_audit_pk, sk_state
from .store_errors import Unreadable

Key = Mapping[str, Any]

Image = Mapping[str, Any]
K = TypeVar("K")
NO_ITEM: Final[Image] = {}
NO_REFUSERS: Final[Mapping[Refuser, int]] = {}
_ACQUIRES: Final = tuple((name, name) for name in TOTALS)


class Consumption(NamedTuple):
    """Net tokens consumed, by limit, and acquires, by the counter of the bucket; both without what did not change.

    ``rests``: the thousandths beside the tokens. A shard has some if several shards served a request.
    ``refused_by``: refused acquires by limit of an ancestor.
    """

    tokens: Mapping[str, int]
    acquires: Mapping[str, int] = NO_ITEM
    rests: Mapping[str, int] = NO_ITEM
    refused_by: Mapping[Refuser, int] = NO_REFUSERS

    def __bool__(self) -> bool:
        """Return whether there was any."""
        return bool(self.tokens or self.acquires or self.refused_by)


def consumption(before: Image | None, after: Image) -> Consumption:
    """Return the consumption between two images; all that ``after`` has counted if there was no item before.

    The differences of all changes of an item add up to its counts at the end, tokens and rests each.
    """
    was, counts = before or NO_ITEM, _counts(tuple(after))
    if (
        after.get(WRITES, 0) == ONE_WRITE
        and not (after.get(ACQUIRES, 0) or after.get(REFUSED, 0))
        and not any(after[name] for _, name in counts.tokens)
    ):
        return Consumption({})  # a split has just put it in place of a leftover, whose tokens are not given back
    if before is not None and after.get(SHARD_COUNT, 1) < before.get(SHARD_COUNT, 1):
        return Consumption({})  # a merge: what the other shard had counted is counted already
    tokens: dict[str, int] = {}
    rests: dict[str, int] = {}
    for limit, name in counts.tokens:
        total, former = after[name], was.get(name, 0)
        if total != former:
            tokens[limit] = total // MILLI - former // MILLI
            if total % MILLI != former % MILLI:
                rests[limit] = total % MILLI - former % MILLI
    refused = _grown(counts.refusals, was, after) if counts.refusals else NO_REFUSERS
    return Consumption(tokens, _grown(_ACQUIRES, was, after), rests, refused)


def _grown(names: Iterable[tuple[K, str]], was: Image, after: Image) -> dict[K, int]:
    """Return by how much each of some counts has changed, without those that did not."""
    grown = {}
    for what, name in names:
        now, then = after.get(name, 0), was.get(name, 0)
        if now != then:
            grown[what] = now - then
    return grown


def writes(before: Image | None, after: Image) -> int:
    """Return the number of writes that the item counted between two images, including the later image's own."""
    counted: int = after.get(WRITES, 0) - (before or NO_ITEM).get(WRITES, 0)
    return counted // ONE_WRITE


def anchor_of(image: Image) -> Any:
    """Return the anchor of a bucket item in epoch ms, unchecked."""
    return image[ANCHOR]


def shard_count_of(image: Image) -> Any:
    """Return the shard count that a bucket item has, unchecked."""
    return image[SHARD_COUNT]


class _Counts(NamedTuple):
    """The attributes of a bucket item that count, each with what it counts: millitokens of a limit, acquires that a
    limit of an ancestor refused.
    """

    tokens: tuple[tuple[str, str], ...]
    refusals: tuple[tuple[Refuser, str], ...]


@remember_forms
def _counts(names: tuple[str, ...]) -> _Counts:
    """Return the counts among the names of an item; the same names come with nearly every change of a bucket."""
    parsed = [(at.limit, name) for name in names if (at := parse_bucket_attribute(name)) and at.field == "consumed"]
    refusers = ((parse_refused_by(name), name) for name in names)
    return _Counts(
        tuple((limit, name) for limit, name in parsed if limit != WCU),
        tuple((refuser, name) for refuser, name in refusers if refuser is not None),
    )


def bucket_of(key: Key) -> BucketId | None:
    """Return the bucket shard of a key, ``None`` for any other record.

    Raises ``ValueError`` for a malformed key, with no part of it in the text, which is logged.
    """
    if key[SK] != sk_state():
        return None
    try:
        return BucketId.parse(key[PK])
    except ValueError:
        form = "NAMESPACE/BUCKET#ENTITY#RESOURCE#SHARD, percent-encoded"
        raise ValueError(f"the partition key is not that of a bucket, which is {form}") from None


def is_audit_event(key: Key) -> bool:
    """Return whether the key is that of an audit event."""
    return bool(key[SK].startswith(AUDIT_PREFIX))


def namespace_of(key: Key) -> str:
    """Return the id of the namespace that a key is of. Raises ``ValueError`` for a key of none."""
    try:
        return check_namespace_id("namespace id", key[PK].partition("/")[0])
    except ValidationError as error:
        raise ValueError(f"the key has no valid {error.field}") from None


def audit_event_of(key: Key, image: dict[str, Any]) -> tuple[AuditAddress, AuditEvent]:
    """Return the address of an audit event, and the event, with ids and a time such as core writes.

    Raises ``ValueError`` for any other, with no value of the image in its text.
    """
    try:
        address = parse_audit_pk(key[PK])
        check_namespace_id("namespace id", address.namespace_id)
        check_subject("entity", address.entity_id)
    except ValidationError as error:
        raise ValueError(f"the key of the audit event has no valid {error.field}") from None
    except ValueError:
        raise ValueError("the key is not one of audit events") from None
    try:
        event = read_audit_event(image)
    except Unreadable as error:
        raise ValueError(f"the audit event cannot be read: {error.problem}") from None
    check_key(event, address.entity_id, key[SK])
    return address, event
