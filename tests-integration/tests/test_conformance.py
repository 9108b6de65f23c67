"""What lives here: the contract of an engine, on every store that answers from elsewhere.
What never does: the contract itself (`zae_limiter.testing.conformance`).
"""

import time
from collections.abc import Iterator

import pytest

from support.integration.targets import Target
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.operations.values import CreateTable, DescribeTable
from zae_limiter.testing.conformance import StoreConformance

pytestmark = pytest.mark.needs("endpoint")


class TestDynamoDB(StoreConformance):
    @pytest.fixture
    def store(self, target: Target, table_name: str) -> Iterator[SyncDynamoDBStore]:
        store = SyncDynamoDBStore(table_name, region="us-east-1", endpoint_url=target.endpoint_url, read_timeout=30)
        store.perform(CreateTable())
        while store.perform(DescribeTable()) != "ACTIVE":
            time.sleep(0.05)
        yield store
        store.close()
