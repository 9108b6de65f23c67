"""What lives here: the proof that an engine takes the widest write of every kind. What never does: how wide one is."""

import time
from collections.abc import Iterator

import pytest

from support.core.widest import CASES, Case
from support.integration.targets import Target
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.operations.values import CreateTable, Delete, DescribeTable, Get, Key, Put, Transact, Update

pytestmark = pytest.mark.needs("endpoint")


@pytest.fixture
def dynamodb(target: Target, table_name: str) -> Iterator[SyncDynamoDBStore]:
    store = SyncDynamoDBStore(table_name, region="us-east-1", endpoint_url=target.endpoint_url, read_timeout=30)
    store.perform(CreateTable())
    while store.perform(DescribeTable()) != "ACTIVE":
        time.sleep(0.05)
    yield store
    store.close()


def test_an_engine_takes_the_widest_write_of_every_kind(dynamodb: SyncDynamoDBStore) -> None:
    for case in CASES:
        operation = case.make()
        keys = keys_of(case)
        for key in keys:
            dynamodb.perform(Delete(key))
        if case.before is not None:
            dynamodb.perform(Put(case.before))
        dynamodb.perform(operation)
        for key in keys:
            assert dynamodb.perform(Get(key)) is not None, case.name


def keys_of(case: Case) -> list[Key]:
    """The items that the write leaves."""
    operation = case.make()
    writes = operation.writes if isinstance(operation, Transact) else (operation,)
    return [
        write.key if isinstance(write, Update) else Key(write.item["PK"], write.item["SK"])
        for write in writes
        if isinstance(write, (Put, Update))
    ]
