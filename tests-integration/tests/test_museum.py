"""What lives here: the museum's scenes of several processes, on the stores that hosts share.
What never does: a scene of its own.
"""

from collections.abc import AsyncIterator

import pytest

from museum.stage import Stage
from museum.test_replicas import (  # the tests themselves, on the stage of this module
    test_a_process_that_knows_nothing_yet_does_not_take_a_bucket_for_full,
    test_a_reset_reaches_a_process_that_has_refused_the_key,
    test_nodes_that_read_the_limits_at_different_times_share_one_count,
    test_three_replicas_admit_one_budget_and_not_three,
)
from support.integration.harness import REGION
from support.integration.targets import Target
from zae_limiter import Options, Repository, SyncRepository
from zae_limiter.stores import DynamoDBStore, SyncDynamoDBStore
from zae_limiter.testing import ManualClock

__all__ = [
    "test_a_process_that_knows_nothing_yet_does_not_take_a_bucket_for_full",
    "test_a_reset_reaches_a_process_that_has_refused_the_key",
    "test_nodes_that_read_the_limits_at_different_times_share_one_count",
    "test_three_replicas_admit_one_budget_and_not_three",
]
pytestmark = pytest.mark.needs("endpoint", "atomic")


@pytest.fixture
async def stage(target: Target, table_name: str) -> AsyncIterator[Stage]:
    """A table of DynamoDB, which processes of any host share."""
    clock = ManualClock()
    options = Options(clock=clock, create_table=True, read_timeout=30, acquire_timeout=None)

    def open_repository() -> SyncRepository:
        store = SyncDynamoDBStore(table_name, region=REGION, endpoint_url=target.endpoint_url, read_timeout=30)
        return SyncRepository.over(store, options)

    async def open_in_loop() -> Repository:
        store = DynamoDBStore(table_name, region=REGION, endpoint_url=target.endpoint_url, read_timeout=30)
        return await Repository.over(store, options)

    stage = Stage(clock, open_repository, open_in_loop)
    yield stage
    await stage.close()
