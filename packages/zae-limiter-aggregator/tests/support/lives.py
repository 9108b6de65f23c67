"""A limiter on a table with a stream, its aggregator, and what may befall an invocation of it.

Lives here: how a test sets them up, and reads the outcome. Never: a claim.
"""

from collections.abc import Callable, Sequence
from typing import Any

from streams import Record, StreamedTable

from zae_limiter import Limit, Options, SyncRateLimiter, SyncRepository
from zae_limiter.operations.errors import StoreError
from zae_limiter.operations.memory import MemoryStore
from zae_limiter.operations.values import Operation, Update
from zae_limiter.sync.driver import SyncDriver
from zae_limiter.sync.store import SyncMemoryStore
from zae_limiter.testing import ManualClock
from zae_limiter.usage import UsageSnapshot, Window
from zae_limiter_aggregator.aggregation import Account, Aggregator
from zae_limiter_aggregator.settings import Settings

START_MS = 1_704_117_000_000  # 2024-01-01T13:50:00Z
LIMITS = (Limit.per_minute("rpm", 1_000_000), Limit.per_minute("tpm", 1_000_000))
SETTINGS = Settings(stack="demo", archive_bucket="demo-audit")


class Killed(BaseException):
    """The process is gone."""


class MortalStore(SyncMemoryStore):
    """A table whose process dies at its write number ``at`` (from 0), before or after the table applied it."""

    def __init__(self, table: MemoryStore, at: int | None = None, *, applied: bool = False) -> None:
        super().__init__(table)
        self.writes: list[Update] = []
        self.failing: Callable[[Update], StoreError | None] = lambda _: None
        self._at = at
        self._applied = applied
        self._dead = False

    def perform(self, operation: Operation) -> Any:
        if self._dead:
            raise Killed
        if not isinstance(operation, Update):
            return super().perform(operation)
        self.writes.append(operation)
        self._dead = len(self.writes) - 1 == self._at
        if self._dead and not self._applied:
            raise Killed
        error = self.failing(operation)
        if error is not None:
            raise error
        answer = super().perform(operation)
        if self._dead:
            raise Killed
        return answer


class Life:
    """A table, the limiter that uses it, and its aggregator; ``kept`` are the objects of the archive."""

    def __init__(self, settings: Settings = SETTINGS) -> None:
        self.clock = ManualClock(START_MS)
        self.table = StreamedTable(self.clock.now_ms)
        options = Options(stack="demo", clock=self.clock)
        self.repository = SyncRepository.over(SyncMemoryStore(self.table), options)
        self.limiter = SyncRateLimiter(self.repository)
        self.repository.set_system_defaults(list(LIMITS))
        self.settings = settings
        self.kept: dict[str, bytes] = {}
        self.puts = 0

    @property
    def stream(self) -> list[Record]:
        """All records so far."""
        return self.table.stream

    def take(self, records: Sequence[Record], store: SyncMemoryStore | None = None) -> Account:
        """One invocation of the aggregator, cold, one write after the other."""
        driver = SyncDriver(store or SyncMemoryStore(self.table))
        aggregator = Aggregator(driver, self.settings, clock=self.clock, open_archive=lambda: self._put, writers=1)
        return aggregator.take(records)

    def drain(self) -> Account:
        """All of the stream, in one batch."""
        return self.take(list(self.stream))

    def usage(self, entity_id: str, window: Window = "hourly") -> list[UsageSnapshot]:
        """What a reader finds."""
        return list(self.repository.get_usage_snapshots(entity_id=entity_id, window=window, limit=1000).snapshots)

    def _put(self, **request: Any) -> None:
        self.puts += 1
        self.kept[request["Key"]] = request["Body"]
