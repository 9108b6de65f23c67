"""Tell live buckets that their stored limits have changed.

A process uses the limits that it has read for a minute. To read them with every acquire would cost more than the
acquire itself, and the store cannot call a process back. But every write of a bucket has the condition that its anchor
is the one seen. So whoever changes limits re-anchors the live buckets, which leaves their headroom as it is,
and sets a newer ``cv``: the next write of each process fails, shows that its limits may be outdated, and they are read
before the acquire is decided again. That is one write for each shard, and nothing on the path of an acquire.

The ``cv`` is ``CLOCKS_MS`` ahead. A process whose clock is ahead by less may have read the old limits at a later time
than this one has now. docs/design/admission.md ("Changed limits").
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, TypeVar

from ...operations.errors import ConditionFailed, OutcomeUnknown, StoreError, Throttled
from ...operations.values import Item, Query, Update
from ...schema import keys
from ...schema.attributes import CONFIG_READ_AT
from ...schema.items import BucketId, BucketState
from ...values.naming import DEFAULT_RESOURCE
from ..index_rows import IndexRows, query_rows, report
from ..process.namespace_state import NamespaceState
from ..retry import ATTEMPTS, KEYS_PER_READ, RACE_PAUSES, RaceLost
from ..steps import Flow, Sleep, call_all
from ..validation import OwnPlace
from .reading import bucket_of_row, read_whole
from .reanchoring import reanchored

T = TypeVar("T")

CLOCKS_MS: Final = 2_000
WRITES_AT_ONCE: Final = 25


class Told(NamedTuple):
    """The number of live buckets that were told, and why others could not be."""

    buckets: int
    failed: Mapping[BucketId, StoreError]


def tell_own(namespace_state: NamespaceState, places: Iterable[OwnPlace]) -> Flow[Told]:
    """Tell all shards of the buckets of these entities, each on a resource or on all (``_default_``).

    A bucket that does not exist costs a read.
    """
    rows, buckets = IndexRows(namespace_state.namespace_id), dict[BucketId, None]()
    for entity_id, resource in places:
        if resource == DEFAULT_RESOURCE:
            buckets |= dict.fromkeys((yield from _buckets_of_entity(namespace_state, entity_id, rows)))
        else:
            buckets[BucketId(namespace_state.namespace_id, entity_id, resource)] = None
    yield from report(rows)
    told, failed = 0, dict[BucketId, StoreError]()
    for part in _parts(list(buckets), KEYS_PER_READ):
        found, problems = yield from _tell(namespace_state, part)
        told += found
        failed |= problems
    return Told(told, failed)


def _buckets_of_entity(namespace_state: NamespaceState, entity_id: str, rows: IndexRows) -> Flow[list[BucketId]]:
    """Return the buckets of an entity by an index, which may be a moment behind the table."""
    pk = keys.gsi3_pk_entity(namespace_state.namespace_id, entity_id)
    found = yield from query_rows(Query(pk, "GSI3", keys.INDEX_BUCKET_PREFIX), rows, bucket_of_row)
    return list(dict.fromkeys(bucket.other(0) for bucket in found))


def _tell(namespace_state: NamespaceState, buckets: Sequence[BucketId]) -> Flow[tuple[int, dict[BucketId, StoreError]]]:
    """Return how many of the buckets exist, and why some were not told. After a lost race a bucket is read again."""
    found, failed = set[BucketId](), dict[BucketId, StoreError]()
    left = list(buckets)
    for attempt in range(ATTEMPTS):
        if attempt > 1:  # let others finish
            yield Sleep(RACE_PAUSES[attempt])
        states = [shards for shards in (yield from read_whole(left)) if shards]
        found.update(_home(shards[0]) for shards in states)
        now_ms = namespace_state.now()
        updates = [(state, update) for shards in states for state, update in _updates(shards, now_ms)]
        if not updates:
            return len(found - failed.keys()), failed
        answers: list[Item | StoreError] = []
        for part in _parts(updates, WRITES_AT_ONCE):
            answers += yield from call_all(update for _, update in part)
        again = dict[BucketId, None]()
        for (state, _), answer in zip(updates, answers, strict=True):
            if not isinstance(answer, StoreError):
                namespace_state.learn_beside(state.id, answer, now_ms, own_writes=1)
            elif isinstance(answer, ConditionFailed | Throttled | OutcomeUnknown):
                again[_home(state)] = None
            else:
                failed[_home(state)] = answer
        left = [bucket for bucket in again if bucket not in failed]
    failed |= dict.fromkeys(left, RaceLost())
    return len(found - failed.keys()), failed


def _updates(shards: Sequence[BucketState], now_ms: int) -> Iterator[tuple[BucketState, Update]]:
    """Yield the update of each shard. All get the same ``cv``, later than what any process could have read before."""
    cv = max(now_ms + CLOCKS_MS, *(state.item[CONFIG_READ_AT] + 2 for state in shards))
    for state in shards:
        update = reanchored(state, max(now_ms, state.anchor_ms + 1))
        yield state, update._replace(set={**update.set, CONFIG_READ_AT: cv})


def _home(state: BucketState) -> BucketId:
    return state.id.other(0)


def _parts(whole: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (whole[start : start + size] for start in range(0, len(whole), size))
