"""Tell the live buckets of a resource, or of the namespace, that its limits have changed.

A change of an entity's limits tells the few buckets of that entity in the same call. A resource may have a million of
them, so a change of its limits tells none: every process reads them within the life of its cache, at no cost. This is
for a caller who cannot wait for that. It counts first, so that the cost is known; then it tells at a bounded rate.

It goes through the buckets page by page. A call that was interrupted may be made again: a bucket with a ``cv`` newer
than the last change of the stored limits was told already, and costs a read. A ``cv`` may be ``CLOCKS_MS`` ahead, in a
process whose clock is ahead by as much again; so buckets told in the first seconds behind a change are told twice.
"""

import math
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from ...exceptions import ValidationError
from ...operations.errors import StoreError
from ...operations.values import Item, Query
from ...schema import keys
from ...schema.attributes import EVENT_ID, SK
from ...schema.items import BucketId
from ...values.buckets import LiveBuckets, ToldBuckets
from ...values.naming import DEFAULT_RESOURCE, check_resource
from ..bucket.reading import bucket_of_row
from ..bucket.telling import CLOCKS_MS, tell
from ..index_rows import IndexRows, report
from ..partitions import next_rows, of_namespace, of_resource
from ..process.namespace_state import NamespaceState
from ..public_errors import public_error
from ..retry import KEYS_PER_READ, parts, read
from ..steps import Flow
from ..validation import validate_flag
from .levels import place_of
from .listing import entity_config_rows, entity_config_rows_on, resource_rows

Progress = Callable[[int], None]
Concerns = Callable[[BucketId], bool]

_AT: Final = len("2024-01-31T14:00:00.000Z")  # an event id begins with the instant of its change


def count_live_buckets(
    namespace_state: NamespaceState, resource: str | None, *, for_switches: bool
) -> Flow[LiveBuckets]:
    """Count the buckets that ``tell_level`` would tell, by their rows in an index."""
    rows = IndexRows(namespace_state.namespace_id)
    queries, concerns = yield from _begin(namespace_state, rows, resource, for_switches=for_switches)
    buckets = shards = others = 0
    while queries:
        queries, found = yield from _page(queries, rows)
        for bucket in found:
            if concerns(bucket):
                buckets += bucket.shard == 0
                shards += 1
            else:
                others += bucket.shard == 0
    yield from report(rows)
    return LiveBuckets(buckets, shards, others)


def tell_level(
    namespace_state: NamespaceState,
    resource: str | None,
    *,
    writes_per_second: float,
    on_progress: Progress | None,
    for_switches: bool,
) -> Flow[ToldBuckets]:
    """Tell the live buckets of a resource, or with ``None`` those that the system's limits hold for."""
    number = isinstance(writes_per_second, int | float) and not isinstance(writes_per_second, bool)
    if not number or not 1 <= writes_per_second < math.inf:
        raise ValidationError("writes_per_second", writes_per_second, "must be a number of at least 1")
    rows = IndexRows(namespace_state.namespace_id)
    queries, concerns = yield from _begin(namespace_state, rows, resource, for_switches=for_switches)
    newer_than_ms = yield from _last_change(namespace_state, resource)
    told = before = 0
    failed: dict[BucketId, StoreError] = {}
    while queries:
        queries, found = yield from _page(queries, rows)
        for part in parts([each for each in found if each.shard == 0 and concerns(each)], KEYS_PER_READ):
            answer = yield from tell(
                namespace_state, part, writes_per_second=writes_per_second, newer_than_ms=newer_than_ms
            )
            told, before, failed = told + answer.buckets, before + answer.before, failed | dict(answer.failed)
            if on_progress is not None:
                on_progress(told + before)
    yield from report(rows)
    problems = {bucket: public_error(namespace_state.stack, why) for bucket, why in failed.items()}
    return ToldBuckets(told, before, {(each.entity_id, each.resource): why for each, why in problems.items()})


def _begin(
    namespace_state: NamespaceState, rows: IndexRows, resource: str | None, *, for_switches: bool
) -> Flow[tuple[list[Query], Concerns]]:
    """Return the queries of the buckets, and what says whether the level's limits, or its switches, hold for one."""
    validate_flag("for_switches", for_switches)
    if resource is None:
        begin = keys.pk_buckets_of_namespace(rows.namespace_id)
        queries = of_namespace(namespace_state, Query("", "GSI4", begins_with=begin))
    else:
        resource = check_resource("resource", resource)
        queries = of_resource(namespace_state, resource, Query("", "GSI2", begins_with=keys.INDEX_BUCKET_PREFIX))
    if for_switches:  # they hold for entities with limits of their own, too
        return queries, lambda _: True
    # Leave out entities with limits of their own, and for the system resources with limits. Entities with nothing but
    # an override are told, too: it ends.
    resources: set[str] = set()
    if resource is None:
        resources |= set((yield from resource_rows(rows)))
        addresses = yield from entity_config_rows(rows)
    else:
        addresses = yield from entity_config_rows_on(rows, resource)
        addresses += yield from entity_config_rows_on(rows, DEFAULT_RESOURCE)
    own = {(each.entity_id, each.resource) for each in addresses if each.until_ms is None}

    def concerns(bucket: BucketId) -> bool:
        on, on_all = (bucket.entity_id, bucket.resource), (bucket.entity_id, DEFAULT_RESOURCE)
        return bucket.resource not in resources and own.isdisjoint((on, on_all))

    return queries, concerns


def _page(queries: Sequence[Query], rows: IndexRows) -> Flow[tuple[list[Query], list[BucketId]]]:
    def bucket(row: Item) -> BucketId:
        if row[SK] != keys.sk_state():
            raise ValueError("not as a bucket")
        return bucket_of_row(row)

    items, left = yield from next_rows(queries)
    return left, rows.read(items, bucket)


def _last_change(namespace_state: NamespaceState, resource: str | None) -> Flow[float]:
    """Return the instant (epoch ms) from which on a ``cv`` shows that a bucket was told; never, if the limits are not
    stored or do not say when they were changed.
    """
    place = place_of(namespace_state, (None, resource))
    item: Item | None = yield from read(place.key)
    try:
        changed = datetime.fromisoformat(str((item or {}).get(EVENT_ID, ""))[:_AT])
    except ValueError:
        return math.inf
    return changed.timestamp() * 1000 + 2 * CLOCKS_MS
