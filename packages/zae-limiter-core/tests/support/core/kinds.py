"""Items of every kind that a namespace has many of.

Lives here: the items, without the requests that would make them. Never: a claim.
"""

from datetime import UTC, datetime
from itertools import islice

from support.core.snapshots import usage_item
from zae_limiter import Entity
from zae_limiter.flows.process.namespace_state import NamespaceState, Settings
from zae_limiter.flows.records.levels import Place, place_of
from zae_limiter.operations.values import Item
from zae_limiter.schema import keys
from zae_limiter.schema.audit import audit_item
from zae_limiter.schema.entities import entity_item, parent_item
from zae_limiter.schema.items import BucketId
from zae_limiter.values.audit import AuditEvent
from zae_limiter.values.usage import UsageSnapshot

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


def every_kind(namespace_id: str, number: int) -> list[Item]:
    """One item of each kind; those of another ``number`` have other keys."""
    entity_id, resource = f"entity-{number}", f"resource-{number}"
    namespace_state = NamespaceState("", namespace_id, stack="", now=lambda: 0, settings=Settings())
    entity = Entity(entity_id, None, "project", cascade=True, metadata={}, created_at=NOON.isoformat(), version=1)
    event = AuditEvent(f"{NOON.isoformat()}-{number}", entity_id, "bucket_reset", None, "", resource, None, None)
    part = {"PK": keys.pk_system(namespace_id), "SK": keys.sk_provisioner(number + 1)}
    return [
        entity_item(namespace_id, entity),
        parent_item(namespace_id, entity_id, "team"),
        *(BucketId(namespace_id, entity_id, resource, shard).attributes() for shard in (0, 1)),
        *(_config(place_of(namespace_state, (subject, resource))) for subject in (entity_id, None)),
        usage_item(namespace_id, UsageSnapshot(entity_id, resource, "hourly", NOON, {"rpm": 1}, 1)),
        usage_item(namespace_id, UsageSnapshot(entity_id, resource, "daily", NOON.replace(hour=0), {"rpm": 1}, 1)),
        audit_item(namespace_id, event, expires_at=None),
        {**part, "GSI4PK": keys.gsi4_pk(namespace_id), "GSI4SK": part["PK"]},
    ]


def of_every_kind(namespace_id: str, count: int) -> list[Item]:
    """So many items, as many of one kind as of any other."""
    items = (item for number in range(count) for item in every_kind(namespace_id, number))
    return list(islice(items, count))


def _config(place: Place) -> Item:
    return {"PK": place.key.pk, "SK": place.key.sk, **place.fixed, "config_version": 1}
