"""What lives here: a whole life with the ids that programs have, on real tables, through every part that reads a key.
What never does: which ids are valid (test_naming of core), that keys are injective (test_keys of core).
"""

from collections.abc import Iterator
from unicodedata import normalize

import pytest

from support.integration.declared import Deployed, deployed_on
from support.integration.stream_reader import records_of
from support.integration.targets import Target
from zae_limiter import Entity, EntityNotFoundError, Limit, RateLimitExceeded, SyncRepository
from zae_limiter.maintenance import SyncMaintenance
from zae_limiter_aggregator.handler import on_event as aggregate
from zae_limiter_manifest import Address, LimitsManifest

pytestmark = [pytest.mark.needs("endpoint", "atomic"), pytest.mark.apart]

LIVES = [
    ("auth0|123", "/v1/chat", "org#7"),
    ("user+tag@x.com", "arn:aws:bedrock:eu-west-1::foundation-model/x", "$ystem"),
    ("::1", "%2F", "fe80::1"),
    ("e\u0301", "日本語", "한국"),
    ("../..", "_default", "a/b"),
    ('"\\', "#CONFIG#_default_", "BUCKET#a#b#0"),
]


@pytest.fixture
def deployed(target: Target, table_name: str) -> Iterator[Deployed]:
    with deployed_on(target, table_name) as deployed:
        yield deployed


def declared(entity: str, resource: str, parent: str) -> LimitsManifest:
    """Limits at every level."""
    limits = {"limits": {"rpm": {"capacity": 100, "refill_period": 86_400}}}
    own = {"resources": {resource: limits, "_default_": limits}}
    levels = {"system": limits, "resources": {resource: limits}, "entities": {entity: own, parent: own}}
    return LimitsManifest.from_dict({"namespace": "tenant-alpha", **levels})


@pytest.mark.long(keep=4)
@pytest.mark.parametrize(("entity", "resource", "parent"), LIVES)
def test_a_whole_life(deployed: Deployed, entity: str, resource: str, parent: str) -> None:
    name, wanted = normalize("NFC", entity), declared(entity, resource, parent)
    assert not deployed.ask("apply", wanted).errors
    with deployed.limiter() as limiter:
        repository = limiter.repository
        made = made_entities(repository, entity, parent)
        assert (made.entity_id, made.parent_id) == (name, parent)
        with limiter.acquire(entity, resource, {"rpm": 60}):
            pass
        with pytest.raises(RateLimitExceeded) as refused, limiter.acquire(name, resource, {"rpm": 60}):
            pass
        assert {status.entity_id for status in refused.value.violations} == {name, parent}
        check_lists(repository, name, resource, parent)
        records = records_of(str(deployed.target.endpoint_url), deployed.name)
        assert aggregate({"Records": records}, None) == {"batchItemFailures": []}
        check_usage(repository, name, resource, parent)
        check_manifest(deployed, repository, wanted, Address(resource, entity))
        check_audit(repository, entity, name, resource)
        check_deletion(repository, entity, name)
        assert repository.get_bucket(parent, resource) is not None
        deleted = repository.namespace("other").delete_namespace("tenant-alpha")
        SyncMaintenance(repository).purge_namespace(deleted.namespace_id)
    assert [item for item in deployed.scan() if f'"{deleted.namespace_id}/' in item] == []


def made_entities(repository: SyncRepository, entity: str, parent: str) -> Entity:
    repository.create_entity(parent)
    made = repository.create_entity(entity, parent_id=parent, cascade=True)
    assert repository.get_entity(entity) == made
    assert repository.get_children(parent) == [made]
    return made


def check_lists(repository: SyncRepository, name: str, resource: str, parent: str) -> None:
    buckets = [repository.get_bucket(each, resource) for each in (name, parent)]
    assert [bucket and bucket.available for bucket in buckets] == [{"rpm": 40}, {"rpm": 40}]
    assert repository.get_buckets(name) == buckets[:1]
    assert repository.get_resource_capacity(resource).entities == 2
    assert repository.list_entities_with_custom_limits(resource) == sorted([name, parent])
    assert repository.list_resources_with_defaults() == [resource]
    assert repository.list_resources_with_entity_configs() == sorted([resource, "_default_"])


def check_usage(repository: SyncRepository, name: str, resource: str, parent: str) -> None:
    found = {(name, resource, 60), (parent, resource, 60)}
    day = repository.get_usage_snapshots(resource=resource, window="daily").snapshots
    assert {(each.entity_id, each.resource, each.consumed["rpm"]) for each in day} == found
    page = repository.get_usage_snapshots(resource=resource, window="daily", limit=1)
    rest = repository.get_usage_snapshots(resource=resource, window="daily", next=page.next)
    assert page.snapshots + rest.snapshots == day
    assert repository.get_usage_snapshots(entity_id=name, window="daily").snapshots[0].resource == resource
    assert repository.get_usage_summary(entity_id=name, resource=resource, window="daily").limits[0].total == 60


def check_manifest(deployed: Deployed, repository: SyncRepository, wanted: LimitsManifest, address: Address) -> None:
    exported = deployed.ask("export", "tenant-alpha").manifest
    assert exported is not None
    assert (exported.system, exported.resources) == (wanted.system, wanted.resources)
    assert {name: each.resources for name, each in exported.entities.items()} == {
        name: each.resources for name, each in wanted.entities.items()
    }
    assert drift(deployed, wanted) == []
    repository.set_limits(str(address.entity), [Limit.per_day("rpm", 7)], str(address.resource))
    assert drift(deployed, wanted) == [address]
    assert not deployed.ask("apply", wanted).errors


def drift(deployed: Deployed, wanted: LimitsManifest) -> list[Address]:
    plan = deployed.ask("diff", wanted).plan
    assert plan
    return [change.address for change in plan.changes]


def check_audit(repository: SyncRepository, entity: str, name: str, resource: str) -> None:
    events = repository.get_audit_events(entity).events
    assert ({event.entity_id for event in events}, events[-1].action) == ({name}, "limits_set")
    of_resource = repository.get_audit_events(f"$RESOURCE:{resource}").events
    assert [event.resource for event in of_resource] == [resource]


def check_deletion(repository: SyncRepository, entity: str, name: str) -> None:
    repository.delete_entity(entity)
    assert (repository.get_entity(name), repository.get_buckets(name)) == (None, [])
    with pytest.raises(EntityNotFoundError):
        repository.delete_entity(name)
