"""What lives here: namespaces, versions and the provisioner's state on every target, with what they cost.
What never does: every case of their rules (core's own tests).
"""

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import boto3
import pytest

from support.core.kinds import of_every_kind
from support.core.owners import maintenance_of
from support.core.snapshots import usage_item
from support.integration.harness import REGION, Harness
from support.integration.targets import Target
from zae_limiter import Limit, RateLimiter, Repository, ValidationError
from zae_limiter.engines.dynamodb.marshal import read_item
from zae_limiter.exceptions import (
    ClientTooOldError,
    InvalidNameError,
    NamespaceNotFoundError,
    NamespaceStateError,
    StackTooOldError,
    StaleStateError,
)
from zae_limiter.maintenance import ProvisionerLock, ProvisionerState, VersionRecord
from zae_limiter.operations.sizes import projected
from zae_limiter.operations.values import BatchWrite, Item, Key, Page, Put, Scan
from zae_limiter.schema.attributes import PURGED
from zae_limiter.schema.partitions import INDEX_SUFFIXES
from zae_limiter.schema.table import INDEXES, create_table_request
from zae_limiter.values.usage import UsageSnapshot
from zae_limiter.values.versions import core_version, record_of_this_release

RPM = Limit.per_minute("rpm", 100)
PER_BATCH = 25

pytestmark = pytest.mark.apart
costed = pytest.mark.needs("atomic", "capacity")


def cost(harness: Harness) -> tuple[dict[str, int], float]:
    """The requests since the last time, and the units that they wrote on the table."""
    meter = harness.meter.snapshot()
    harness.meter.reset()
    return dict(meter.requests), meter.write_units


def scan(harness: Harness) -> dict[Key, Item]:
    """Every item of the table, whatever index it is in, but for the records of ids that were purged."""
    return {Key(item["PK"], item["SK"]): item for item in pages(harness, ConsistentRead=True) if PURGED not in item}


def pages(harness: Harness, **options: Any) -> Iterator[Item]:
    """Every item that a scan of the table, or of an index, finds."""
    if harness.target.endpoint_url is None:
        index = INDEXES.get(options.get("IndexName", ""))
        page = harness.perform(Scan(1000))
        while page.items:
            yield from (item for item in page.items if index is None or projected(item, index))
            page = harness.perform(Scan(1000, page.next)) if page.next else Page([])
        return
    client = boto3.client("dynamodb", endpoint_url=harness.target.endpoint_url, region_name=REGION)
    for page in client.get_paginator("scan").paginate(TableName=harness.table_name, **options):
        yield from map(read_item, page["Items"])


def of(items: dict[Key, Item], namespace_id: str) -> dict[Key, Item]:
    """Those that a namespace has in a key of the table or of an index, or in the registry."""
    return {key: item for key, item in items.items() if namespace_id in str([*key, item.get("GSI4PK"), item])}


async def filled(harness: Harness, name: str) -> RateLimiter:
    """A namespace with something of every kind."""
    limiter = await harness.open(namespace=name)
    await limiter.set_system_defaults([RPM])
    await limiter.set_resource_defaults("gpt-4", [RPM])
    await limiter.create_entity("project")
    await limiter.create_entity("key", parent_id="project", cascade=True)
    await limiter.set_limits("key", [RPM], "gpt-4")
    await maintenance_of(limiter.repository).put_provisioner_state(ProvisionerState(owner="cli"), expected_serial=0)
    usage = UsageSnapshot("key", "gpt-4", "hourly", datetime(2026, 1, 1, tzinfo=UTC), {"rpm": 1}, 1)
    harness.perform(Put(usage_item(limiter.repository.namespace_id, usage)))
    async with limiter.acquire("key", "gpt-4", {"rpm": 1}):
        pass
    harness.meter.reset()
    return limiter


@pytest.fixture
async def repository(harness: Harness) -> Repository:
    return (await harness.open()).repository


@costed
async def test_the_life_of_a_namespace_and_what_it_costs(
    harness: Harness, repository: Repository, target: Target
) -> None:
    pair = target.quirks.two_items_units
    made = await repository.register_namespace("prod")
    looks = {"Query": 1} if harness.target.folder is not None else {}  # without a version record
    assert cost(harness) == ({"BatchGetItem": 1, "TransactWriteItems": 1, **looks}, pair)
    assert await repository.register_namespace("prod") == made
    assert cost(harness) == ({"BatchGetItem": 1}, 0)
    assert await repository.get_namespace("prod") == made
    assert cost(harness) == ({"GetItem": 1}, 0)
    assert [each.name for each in await repository.list_namespaces()] == ["default", "prod"]
    assert cost(harness) == ({"Query": 1}, 0)
    deleted = await repository.delete_namespace("prod")
    assert cost(harness) == ({"GetItem": 2, "TransactWriteItems": 1}, pair)
    assert await maintenance_of(repository).list_orphan_namespaces() == [deleted]
    assert cost(harness) == ({"Query": 2}, 0)
    assert await maintenance_of(repository).recover_namespace(made.namespace_id) == made
    assert cost(harness) == ({"GetItem": 2, "TransactWriteItems": 1}, pair)


async def test_errors_of_namespaces(harness: Harness, repository: Repository) -> None:
    made = await repository.register_namespace("prod")
    for call in (maintenance_of(repository).recover_namespace, maintenance_of(repository).purge_namespace):
        with pytest.raises(NamespaceStateError):
            await call(made.namespace_id)
        with pytest.raises(NamespaceNotFoundError):
            await call("unknown")
    await repository.delete_namespace("prod")
    with pytest.raises(NamespaceNotFoundError):
        await repository.delete_namespace("prod")
    with pytest.raises(NamespaceNotFoundError):
        await harness.open(namespace="prod")
    again = await repository.register_namespace("prod")
    with pytest.raises(NamespaceStateError, match=again.namespace_id):
        await maintenance_of(repository).recover_namespace(made.namespace_id)
    with pytest.raises(InvalidNameError):
        await repository.register_namespace("a#b")


@costed
async def test_a_purge_leaves_nothing_of_it_and_all_of_another(harness: Harness, target: Target) -> None:
    prod, other = (await filled(harness, "prod")).repository, (await filled(harness, "other")).repository
    await other.delete_namespace("prod")
    before = scan(harness)
    harness.meter.reset()
    removed = await maintenance_of(other).purge_namespace(prod.namespace_id)
    requests, written = cost(harness)
    assert requests["Query"] == 2 * (INDEX_SUFFIXES + 1)  # until no partition shows anything
    assert 1 <= requests.pop("BatchWriteItem") <= 3
    assert {**requests, "Query": 0} == {"GetItem": 4, "PutItem": 1, "Query": 0, "TransactWriteItems": 1}
    assert written == 1 + removed + target.quirks.two_items_units
    own = of(before, prod.namespace_id)
    assert removed == len(own) - 2
    assert scan(harness) == {key: item for key, item in before.items() if key not in own}
    assert of(scan(harness), other.namespace_id) == of(before, other.namespace_id) != {}


@pytest.fixture
def without_stream(harness: Harness) -> Harness:
    """A table whose changes no stream remembers: emulators get slow with 20,000 of them, DynamoDB Local for good."""
    if harness.target.endpoint_url is not None:
        request = create_table_request(harness.table_name)
        del request["StreamSpecification"]
        client = boto3.client("dynamodb", endpoint_url=harness.target.endpoint_url, region_name=REGION)
        client.create_table(**request)
    return harness


@pytest.mark.long(keep=1)
@costed
async def test_a_purge_of_thousands_of_items_of_every_kind_that_is_killed_in_the_middle_goes_on(
    without_stream: Harness,
) -> None:
    harness = without_stream
    prod, other = (await filled(harness, "prod")).repository, (await filled(harness, "other")).repository
    count = harness.target.quirks.purged
    fill(harness, prod.namespace_id, count)
    await other.delete_namespace("prod")
    kept, kept_in_indexes = of(scan(harness), other.namespace_id), in_indexes(harness, other.namespace_id)

    class Killed(Exception):
        """By the test."""

    def kill(removed: int) -> None:
        if removed >= count // 2:
            raise Killed

    with pytest.raises(Killed):
        await maintenance_of(other).purge_namespace(prod.namespace_id, on_progress=kill)
    progress: list[int] = []
    removed = await maintenance_of(other).purge_namespace(prod.namespace_id, on_progress=progress.append)
    assert count // 2 <= removed < count // 2 + 50
    assert progress == sorted(progress)
    assert progress[-1] == removed
    assert (of(scan(harness), prod.namespace_id), in_indexes(harness, prod.namespace_id)) == ({}, [])
    assert of(scan(harness), other.namespace_id) == kept != {}
    assert in_indexes(harness, other.namespace_id) == kept_in_indexes
    assert {index for index, _ in kept_in_indexes} == set(INDEXES)


def fill(harness: Harness, namespace_id: str, count: int) -> None:
    """So many items of every kind, without the requests that make them."""
    items = of_every_kind(namespace_id, count)
    for start in range(0, count, PER_BATCH):
        left = harness.perform(BatchWrite(tuple(map(Put, items[start : start + PER_BATCH]))))
        assert not left.writes


def in_indexes(harness: Harness, namespace_id: str) -> list[tuple[str, Key]]:
    """Every entry that a namespace has in an index, as a scan of each index finds it."""
    found = [(index, Key(item["PK"], item["SK"])) for index in INDEXES for item in pages(harness, IndexName=index)]
    return sorted(entry for entry in found if entry[1].pk.startswith(f"{namespace_id}/"))


@costed
async def test_the_version_record_and_what_it_costs(harness: Harness, repository: Repository) -> None:
    if harness.target.folder is not None:
        assert await maintenance_of(repository).get_version_record() is None
        assert cost(harness) == ({"GetItem": 1, "Query": 1}, 0)  # without one, the table may be another product's
    else:
        assert await maintenance_of(repository).get_version_record() == record_of_this_release()
        assert cost(harness) == ({"GetItem": 1}, 0)
    record = VersionRecord(1, core_version(), "0.1.0")
    await maintenance_of(repository).set_version_record(record)
    assert cost(harness) == ({"PutItem": 1}, 1)
    assert await maintenance_of(repository).get_version_record() == record
    await harness.open(namespace="other")


async def test_a_client_and_a_stack_that_do_not_fit_say_so(harness: Harness, repository: Repository) -> None:
    for record, refusal in ((VersionRecord(9, "9.0.0", "9.0.0"), ClientTooOldError), (OLD, StackTooOldError)):
        await maintenance_of(repository).set_version_record(record)
        with pytest.raises(refusal):
            await harness.open()
    await harness.open(check_version=False)
    with pytest.raises(ValidationError):
        await maintenance_of(repository).set_version_record("1.0.0")  # type: ignore[arg-type]


OLD = VersionRecord(0, "0.0.1", "0.0.1")


@costed
async def test_the_provisioners_state_and_what_it_costs(harness: Harness, repository: Repository) -> None:
    assert await maintenance_of(repository).get_provisioner_state() == ProvisionerState()
    assert cost(harness) == ({"GetItem": 1}, 0)
    lock = ProvisionerLock("lock-1", "cli", 1_700_000_000_000)
    state = ProvisionerState(True, ["gpt-4"], {"key": ["gpt-4", "_default_"]}, owner="cli", lock=lock)
    put = await maintenance_of(repository).put_provisioner_state(state, expected_serial=0)
    assert cost(harness) == ({"GetItem": 1, "PutItem": 1}, 1)
    assert await maintenance_of(repository).get_provisioner_state() == put
    assert cost(harness) == ({"GetItem": 1}, 0)
    with pytest.raises(StaleStateError):
        await maintenance_of(repository).put_provisioner_state(state, expected_serial=0)
    assert cost(harness) == ({"GetItem": 1}, 0)


@pytest.mark.long(keep=1)
async def test_a_state_of_several_parts_comes_back_whole(harness: Harness, repository: Repository) -> None:
    managed = {f"123e4567-e89b-12d3-a456-{number:012d}": ("_default_", "gpt-4") for number in range(15_000)}
    put = await maintenance_of(repository).put_provisioner_state(
        ProvisionerState(managed_entities=managed), expected_serial=0
    )
    parts = cost(harness)[0]["PutItem"] - 1
    assert parts > 3
    assert await maintenance_of(repository).get_provisioner_state() == put
    assert cost(harness)[0].keys() == {"GetItem", "BatchGetItem"}
    small = await maintenance_of(repository).put_provisioner_state(ProvisionerState(), expected_serial=1)
    assert cost(harness)[0] == {"GetItem": 1, "PutItem": 1, "Query": 1, "BatchWriteItem": 1}
    assert await maintenance_of(repository).get_provisioner_state() == small
    assert len(of(scan(harness), repository.namespace_id)) == 3
