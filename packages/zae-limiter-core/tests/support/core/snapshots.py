"""Snapshots of usage as the table has them.

Lives here: the item of a value. Never: a claim.
"""

from zae_limiter import UsageSnapshot
from zae_limiter.operations.values import Item
from zae_limiter.schema.attributes import PK, SK, TOTAL_EVENTS, TOTALS
from zae_limiter.schema.usage import SnapshotId, counter_attribute, refuser_attribute


def usage_item(namespace_id: str, snapshot: UsageSnapshot, *, spread: bool = False) -> Item:
    """The item of a snapshot, with its counters."""
    place = SnapshotId(namespace_id, snapshot.entity_id, snapshot.resource, snapshot.window, snapshot.window_start)
    further = {name: getattr(snapshot, name) for name in TOTALS.values() if name != TOTAL_EVENTS}
    further |= {refuser_attribute(refuser): number for refuser, number in snapshot.refused_by.items()}
    consumed = {counter_attribute(limit): tokens for limit, tokens in snapshot.consumed.items()}
    counts = {TOTAL_EVENTS: snapshot.total_events, **{name: n for name, n in further.items() if n}, **consumed}
    return {PK: place.pk, SK: place.sk, **place.attributes(spread=spread), **counts}
