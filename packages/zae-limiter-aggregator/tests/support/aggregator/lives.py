"""A limiter on a table with a stream, its aggregator, and what may befall an invocation of it.

Lives here: how a test sets them up, and reads the outcome. Never: a claim.
"""

import json
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, TypeVar

from zae_limiter import Limit, Options, SyncRateLimiter, SyncRepository
from zae_limiter.engines.memory.store import SyncMemoryStore
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.maintenance import Upkeep
from zae_limiter.operations.errors import StoreError
from zae_limiter.operations.values import Operation, Update
from zae_limiter.sync.driver import SyncDriver
from zae_limiter.testing import ManualClock
from zae_limiter.values.usage import UsageSnapshot, Window
from zae_limiter_aggregator.aggregation import NO_WINDOW, Aggregator, BatchResult
from zae_limiter_aggregator.held import TumblingWindow
from zae_limiter_aggregator.settings import Settings

from .streams import Record, StreamedTable

START_MS = 1_704_117_000_000  # 2024-01-01T13:50:00Z
LIMITS = (Limit.per_minute("rpm", 1_000_000), Limit.per_minute("tpm", 1_000_000))
SETTINGS = Settings(stack="demo", archive_bucket="demo-audit")


T = TypeVar("T")


class Killed(BaseException):
    """The process is gone."""


class MortalStore(SyncMemoryStore):
    """A table whose process dies at its request number ``at`` (from 0), before or after that took effect.

    What it puts into the archive are requests, too. Its threads ask one after the other.
    """

    def __init__(self, table: MemoryTable, at: int | None = None, *, applied: bool = False) -> None:
        super().__init__(table)
        self.asked: list[Operation[Any] | None] = []
        self.failing: Callable[[Operation[Any]], StoreError | None] = lambda _: None
        self._at = at
        self._applied = applied
        self._dead = False
        self._turn = Lock()

    @property
    def writes(self) -> list[Update]:
        """The updates among the requests: all that a snapshot or an anchor asks for."""
        return [each for each in self.asked if isinstance(each, Update)]

    def perform(self, operation: Operation[Any]) -> Any:
        return self.survive(lambda: self._answer(operation), operation)

    def survive(self, act: Callable[[], T], operation: Operation[Any] | None = None) -> T:
        """What comes of a request, if the process lives to see it."""
        with self._turn:
            if self._dead:
                raise Killed
            self._dead = len(self.asked) == self._at
            self.asked.append(operation)
            if self._dead and not self._applied:
                raise Killed
            answer = act()
            if self._dead:
                raise Killed
            return answer

    def _answer(self, operation: Operation[Any]) -> Any:
        error = self.failing(operation)
        if error is not None:
            raise error
        return super().perform(operation)


class Life:
    """A table, the limiter that uses it, and its aggregator; ``kept`` are the objects of the archive.

    ``letters`` are the messages in the dead-letter queue, and ``refuses`` says which of them it does not take; so do
    ``events`` and ``bus_fails`` for the details of what the event bus takes.
    """

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
        self.letters: list[dict[str, Any]] = []
        self.refuses: Callable[[dict[str, Any]], bool] = lambda _: False
        self.events: list[dict[str, Any]] = []
        self.bus_fails: Callable[[dict[str, Any]], bool] = lambda _: False

    @property
    def stream(self) -> list[Record]:
        """All records so far."""
        return self.table.stream

    def take(
        self,
        records: Sequence[Record],
        store: MortalStore | None = None,
        *,
        writers: int = 1,
        window: TumblingWindow = NO_WINDOW,
    ) -> BatchResult:
        """One invocation of the aggregator, cold."""
        process = store or MortalStore(self.table)

        def put(**request: Any) -> None:
            process.survive(lambda: self._put(**request))

        return self.aggregator(process, put, writers=writers).process(records, window)

    def aggregator(
        self, store: MortalStore | None = None, put: Callable[..., None] = lambda **_: None, *, writers: int = 1
    ) -> Aggregator:
        """A new environment of the Lambda."""
        return Aggregator(
            Upkeep(SyncDriver(store or MortalStore(self.table)).run, self.clock),
            self.settings,
            open_archive=lambda: put,
            open_queue=lambda: self._send,
            open_bus=lambda: self._tell,
            writers=writers,
        )

    def drain(self) -> BatchResult:
        """All of the stream, in one batch."""
        return self.take(list(self.stream))

    def usage(self, entity_id: str, window: Window = "hourly") -> list[UsageSnapshot]:
        """What a reader finds."""
        return list(self.repository.get_usage_snapshots(entity_id=entity_id, window=window, limit=1000).snapshots)

    def _send(self, **request: Any) -> None:
        letter = json.loads(request["MessageBody"])
        if self.refuses(letter):
            raise OSError("the queue does not answer")
        self.letters.append(letter)

    def _tell(self, **request: Any) -> dict[str, Any]:
        entries = [json.loads(each["Detail"]) for each in request["Entries"]]
        assert len(entries) <= 10, "as EventBridge"
        failing = [self.bus_fails(each) for each in entries]
        self.events += [each for each, fails in zip(entries, failing, strict=True) if not fails]
        return {"Entries": [{"ErrorCode": "InternalFailure"} if fails else {"EventId": "e"} for fails in failing]}

    def _put(self, **request: Any) -> None:
        self.puts += 1
        self.kept[request["Key"]] = request["Body"]
