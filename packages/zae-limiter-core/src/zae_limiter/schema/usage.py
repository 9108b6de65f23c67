"""The item of a usage snapshot: how it is made of a value, and read back.

Lives here: its content. Never: what keeps its counts exact under redelivery: that begins with ``_``, and no limit does.
"""

from ..naming import RESERVED_LIMIT_NAMES
from ..usage import UsageSnapshot, check_window, parse_window_key, window_key
from . import keys
from .items import Item


def usage_item(namespace_id: str, snapshot: UsageSnapshot) -> Item:
    """The record of a snapshot: the counter of each limit stands beside the rest, so that a write can add to it."""
    pk = keys.pk_entity(namespace_id, snapshot.entity_id)
    key = window_key(snapshot.window, snapshot.window_start)
    return {
        "PK": pk,
        "SK": keys.sk_usage(snapshot.resource, key),
        "GSI2PK": keys.gsi2_pk_resource(namespace_id, snapshot.resource),
        "GSI2SK": keys.gsi2_sk_usage(key, snapshot.entity_id),
        "GSI4PK": keys.gsi4_pk(namespace_id),
        "GSI4SK": pk,
        "entity_id": snapshot.entity_id,
        "resource": snapshot.resource,
        "window": snapshot.window,
        "window_start": window_key("hourly", snapshot.window_start),
        "total_events": snapshot.total_events,
        **snapshot.consumed,
    }


def read_usage(item: Item) -> UsageSnapshot:
    """The snapshot of a record."""
    return UsageSnapshot(
        entity_id=item["entity_id"],
        resource=item["resource"],
        window=check_window(item["window"]),
        window_start=parse_window_key(item["window_start"])[1],
        consumed={name: item[name] for name in sorted(item) if _is_counter(name)},
        total_events=item.get("total_events", 0),
    )


def _is_counter(name: str) -> bool:
    return not name.startswith("_") and name not in RESERVED_LIMIT_NAMES
