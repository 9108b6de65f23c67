"""Invalidate live buckets whose stored limits have changed.

A process uses the limits that it has read for a minute. To read them with every acquire would cost more than the
acquire itself, and the store cannot call a process back. But every write of a bucket has the condition that its anchor
is the one seen. So a change of limits re-anchors the live buckets, which leaves their headroom as it is,
and sets a newer ``cv``: the next write of each process fails, shows that its limits may be outdated, and they are read
before the acquire is decided again. That is one write for each shard, and nothing on the path of an acquire.

The ``cv`` is ``CLOCKS_MS`` in the future. A process whose clock is fast by less may have read the old limits at a later
time than this one has now. docs/design/admission.md ("Changed limits").
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeVar

from ...operations.errors import AccessLost, ConditionFailed, Denied, OutcomeUnknown, StoreError, Throttled
from ...operations.values import Item, Page, Query, Update
from ...runtime.named_tuple import NamedTuple
from ...schema import keys
from ...schema.attributes import CONFIG_AS_OF
from ...schema.items import BucketId, BucketState
from ...values.naming import DEFAULT_RESOURCE
from ..index_rows import IndexRows, query_rows, report
from ..partitions import READS_AT_ONCE, next_rows, of_namespace
from ..process.namespace_state import NamespaceState
from ..retry import ATTEMPTS, KEYS_PER_READ, RACE_PAUSES, RaceLost
from ..steps import Flow, Sleep, Wait, call_all
from ..validation import OwnPlace
from .anchors import reanchored
from .reading import bucket_of_row, read_whole

T = TypeVar("T")

CLOCKS_MS: Final = 2_000
WRITES_AT_ONCE: Final = 25
LEAST_OF_MANY: Final = 20  # entities that take more to ask one by one than a page takes
FEW_BUCKETS: Final = 1_000  # of a page, about 25 read units

Find = Callable[[Sequence[str], IndexRows], Flow[list[BucketId]]]


class Told(NamedTuple):
    """The number of invalidated live buckets, why others could not be, and how many had a newer ``cv`` already."""

    buckets: int
    failed: Mapping[BucketId, StoreError]
    before: int = 0


def tell_own(namespace_state: NamespaceState, places: Iterable[OwnPlace]) -> Flow[Told]:
    """Invalidate all shards of the buckets of these entities, each on a resource or on all (``_default_``).

    A bucket that does not exist costs a read.
    """
    return (yield from _tell_own(namespace_state, places, _by_entity))


def tell_many(namespace_state: NamespaceState, places: Iterable[OwnPlace]) -> Flow[Told]:
    """Invalidate as ``tell_own`` does, for the provisioner, which may read the index of the whole namespace.

    While a namespace has few live buckets, one page of that index has them all, and no entity costs a query.
    """
    return (yield from _tell_own(namespace_state, places, partial(_by_namespace, namespace_state)))


def tell(
    namespace_state: NamespaceState,
    buckets: Sequence[BucketId],
    *,
    writes_per_second: float = math.inf,
    newer_than_ms: float = math.inf,
) -> Flow[Told]:
    """Invalidate all shards of these buckets, at most so many a second; leave out those whose shards all have a ``cv``
    that is newer than ``newer_than_ms`` (epoch ms).
    """
    told, failed, before = 0, dict[BucketId, StoreError](), 0
    for part in _parts(buckets, KEYS_PER_READ):
        answer = yield from _tell(namespace_state, part, writes_per_second, newer_than_ms)
        told += answer.buckets
        failed |= answer.failed
        before += answer.before
    return Told(told, failed, before)


def _tell_own(namespace_state: NamespaceState, places: Iterable[OwnPlace], find: Find) -> Flow[Told]:
    ns = namespace_state.namespace_id
    rows, buckets, everywhere = IndexRows(ns), dict[BucketId, None](), list[str]()
    for entity_id, resource in places:
        if resource == DEFAULT_RESOURCE:
            everywhere.append(entity_id)
        else:
            buckets[BucketId(ns, entity_id, resource)] = None
    buckets |= dict.fromkeys((yield from find(everywhere, rows)))
    yield from report(rows)
    return (yield from tell(namespace_state, list(buckets)))


def _by_entity(entity_ids: Sequence[str], rows: IndexRows) -> Flow[list[BucketId]]:
    """Return the buckets of entities by an index, which may be a moment behind the table; several at a time."""
    found: list[BucketId] = []
    ns = rows.namespace_id
    queries = [Query(keys.gsi3_pk_entity(ns, each), "GSI3", keys.INDEX_BUCKET_PREFIX) for each in entity_ids]
    for part in _parts(queries, READS_AT_ONCE):
        for query, page in zip(part, (yield from call_all(part)), strict=True):
            if isinstance(page, Page) and page.next is None:
                found += rows.read(page.items, bucket_of_row)
            else:  # there are more pages, or it failed: again, with retries
                found += yield from query_rows(query, rows, bucket_of_row)
    return [bucket.other(0) for bucket in found]


def _by_namespace(namespace_state: NamespaceState, entity_ids: Sequence[str], rows: IndexRows) -> Flow[list[BucketId]]:
    """Return the buckets of entities by the index of all live buckets; by the entities, if there are many buckets, or
    if the caller may not read that index.
    """
    every = (yield from _few_buckets(namespace_state, rows)) if len(entity_ids) >= LEAST_OF_MANY else None
    if every is None:
        return (yield from _by_entity(entity_ids, rows))
    wanted = set(entity_ids)
    return [bucket.other(0) for bucket in every if bucket.entity_id in wanted]


def _few_buckets(namespace_state: NamespaceState, rows: IndexRows) -> Flow[list[BucketId] | None]:
    """Return all live buckets of a namespace; ``None`` if they would not fit on a page, or may not be read."""
    begin = keys.pk_buckets_of_namespace(rows.namespace_id)
    queries = of_namespace(namespace_state, Query("", "GSI4", begins_with=begin, limit=FEW_BUCKETS))
    found: list[Item] = []
    while queries:
        size = len(queries)
        try:
            items, queries = yield from next_rows(queries)
        except (Denied, AccessLost):
            return None
        found += items
        if len(found) >= FEW_BUCKETS or len(queries) > max(0, size - READS_AT_ONCE):  # one has a next page
            return None
    return rows.read(found, bucket_of_row)


def _tell(
    namespace_state: NamespaceState, buckets: Sequence[BucketId], writes_per_second: float, newer_than_ms: float
) -> Flow[Told]:
    """Invalidate up to a hundred buckets, as ``tell`` does. After a lost race a bucket is read again, and the shards
    that were invalidated meanwhile are left alone, by any process: that was after this change, and each write makes
    others fail.
    """
    found, failed, before = set[BucketId](), dict[BucketId, StoreError](), set[BucketId]()
    cvs = dict[BucketId, int]()
    left = list(buckets)
    for attempt in range(ATTEMPTS):
        if attempt > 1:  # let others finish
            yield Sleep(RACE_PAUSES[attempt])
        states = [shards for shards in (yield from read_whole(left)) if shards]
        if not attempt:
            before = {_home(shards[0]) for shards in states if _oldest_cv(shards) > newer_than_ms}
            states = [shards for shards in states if _home(shards[0]) not in before]
        found.update(_home(shards[0]) for shards in states)
        now_ms = namespace_state.now()
        for shards in states:
            cvs.setdefault(_home(shards[0]), _next_cv(shards, now_ms))
        updates = [each for shards in states for each in _updates(shards, now_ms, cvs[_home(shards[0])])]
        if not updates:
            return Told(len(found - failed.keys()), failed, len(before))
        answers = yield from _send([update for _, update in updates], writes_per_second)
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
    return Told(len(found - failed.keys()), failed, len(before))


def _send(updates: Sequence[Update], writes_per_second: float) -> Flow[list[Item | StoreError]]:
    """Send the updates, some at the same time, then wait until the next ones are due."""
    at_once = WRITES_AT_ONCE if writes_per_second >= WRITES_AT_ONCE else max(1, int(writes_per_second))
    answers: list[Item | StoreError] = []
    for part in _parts(updates, at_once):
        answers += yield from call_all(part)
        if math.isfinite(writes_per_second):
            yield Wait(len(part) / writes_per_second)
    return answers


def _oldest_cv(shards: Sequence[BucketState]) -> int:
    return min(int(state.item[CONFIG_AS_OF]) for state in shards)


def _next_cv(shards: Sequence[BucketState], now_ms: int) -> int:
    """Return the ``cv`` of all shards of a bucket, later than what any process could have read before."""
    return max(now_ms + CLOCKS_MS, *(int(state.item[CONFIG_AS_OF]) + 2 for state in shards))


def _updates(shards: Sequence[BucketState], now_ms: int, cv: int) -> Iterator[tuple[BucketState, Update]]:
    """Yield the update of each shard that has an older ``cv``."""
    for state in shards:
        if state.item[CONFIG_AS_OF] < cv:
            yield state, reanchored(state, max(now_ms, state.anchor_ms + 1), **{CONFIG_AS_OF: cv})


def _home(state: BucketState) -> BucketId:
    return state.id.other(0)


def _parts(whole: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    return (whole[start : start + size] for start in range(0, len(whole), size))
