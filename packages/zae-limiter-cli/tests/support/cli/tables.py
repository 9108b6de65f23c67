"""What lives here: a table in moto with a namespace in it, for commands that look at what is stored.
What never does: a claim.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from support.core.snapshots import usage_item
from zae_limiter import Options, SyncRepository, UsageSnapshot
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.operations.values import Put
from zae_limiter.values import Refuser
from zae_limiter.values.usage import Window


@dataclass(frozen=True, slots=True)
class Table:
    """A table, its namespace `default`, and what puts snapshots there without an aggregator."""

    repository: SyncRepository
    store: SyncDynamoDBStore

    def used(
        self,
        entity: str,
        resource: str,
        start: datetime,
        window: Window = "hourly",
        *,
        events: int = 1,
        refused: int = 0,
        refused_by: Mapping[tuple[str, str], int] | None = None,
        shadowed: int = 0,
        uncounted: int = 0,
        below: int = 0,
        refused_below: int = 0,
        **consumed: int,
    ) -> None:
        """Have the table hold a snapshot."""
        by = {Refuser(*at): number for at, number in (refused_by or {}).items()}
        snapshot = UsageSnapshot(
            entity, resource, window, start, consumed, events, refused, shadowed, by, uncounted, below, refused_below
        )
        self.store.perform(Put(usage_item(self.repository.namespace_id, snapshot)))


@contextmanager
def making(stack: str = "my-app") -> Iterator[Table]:
    """The table, made in the AWS that clients of this process find."""
    # a busy machine loses no answer
    options = Options(stack=stack, create_table=True, read_timeout=30, acquire_timeout=60)
    store = SyncDynamoDBStore(options.stack_name, **options.store_options())
    with SyncRepository.over(store, options) as repository:
        yield Table(repository, store)
