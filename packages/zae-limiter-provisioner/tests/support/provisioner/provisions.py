"""A table in memory, applies of manifests to it, and what may befall the process that makes one.

Lives here: how a test sets them up, and reads the outcome. Never: a claim.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from threading import Lock
from typing import Any

from zae_limiter import Limit, SyncRepository
from zae_limiter.engines.memory.store import SyncMemoryStore
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.operations.values import BatchWrite, Delete, Item, Operation, Put, Query, Transact, Update
from zae_limiter.stores import Capabilities
from zae_limiter.testing import ManualClock
from zae_limiter_manifest import Answer, LimitsManifest, Request
from zae_limiter_provisioner.actions import perform
from zae_limiter_provisioner.apply import ApplyRun
from zae_limiter_provisioner.apply_options import ApplyOptions
from zae_limiter_provisioner.deadline import Deadline
from zae_limiter_provisioner.table import Table

WRITES = (Put, Update, Delete, Transact, BatchWrite)
NAMESPACE = "tenant-alpha"


class Killed(Exception):
    """The process is gone."""


class Store(SyncMemoryStore):
    """A table whose process dies at its write number ``dies_at`` (from 0), before or after the table applied it.

    ``fault`` may raise what the table answers instead. ``seen`` is all that was sent.
    """

    def __init__(self, table: MemoryTable, dies_at: int | None = None, *, applied: bool = False) -> None:
        super().__init__(table)
        self.seen: list[Operation[Any]] = []
        self.fault: Callable[[Operation[Any]], None] = lambda _: None
        self._dies_at = dies_at
        self._applied = applied
        self._dead = False
        self._lock = Lock()

    @property
    def capabilities(self) -> Capabilities:
        return Capabilities(expiry=True)  # a request may wait, as one to DynamoDB does

    @property
    def written(self) -> list[Operation[Any]]:
        """The writes that were sent."""
        return [operation for operation in self.seen if isinstance(operation, WRITES)]

    def perform(self, operation: Operation[Any]) -> Any:
        with self._lock:  # whatever runs in parallel: one after the other, so that a death has a place
            return self._perform(operation)

    def _perform(self, operation: Operation[Any]) -> Any:
        if self._dead:
            raise Killed
        self.seen.append(operation)
        self._dead = isinstance(operation, WRITES) and len(self.written) - 1 == self._dies_at
        if self._dead and not self._applied:
            raise Killed
        self.fault(operation)
        answer = super().perform(operation)
        if self._dead:
            raise Killed
        return answer


def manifest(namespace: str = NAMESPACE, **levels: Any) -> LimitsManifest:
    return LimitsManifest.from_dict({"namespace": namespace, **levels})


def limits(capacity: int) -> dict[str, Any]:
    return {"limits": {"rpm": {"capacity": capacity}}}


def rpm(capacity: int) -> list[Limit]:
    return [Limit.per_minute("rpm", capacity)]


def entities(count: int, capacity: int = 10, *, resource: str = "gpt-4") -> dict[str, Any]:
    """So many entities with limits."""
    return {f"user-{number:05d}": {"resources": {resource: limits(capacity)}} for number in range(count)}


EVERY_LEVEL = manifest(
    system={"on_unavailable": "allow", **limits(100)},
    resources={"gpt-4": limits(50)},
    entities={"user-1": {"resources": {"gpt-4": limits(20), "_default_": limits(10)}}},
)


@dataclass
class World:
    """One table and one clock; every request is a process of its own."""

    memory: MemoryTable = field(default_factory=MemoryTable)
    clock: ManualClock = field(default_factory=ManualClock)

    def store(self, dies_at: int | None = None, *, applied: bool = False) -> Store:
        return Store(self.memory, dies_at, applied=applied)

    def table(self, store: Store | None = None) -> Table:
        return Table(store or self.store(), "stack", clock=self.clock)

    def ask(self, action: Any, wanted: LimitsManifest | str = NAMESPACE, /, **options: Any) -> Answer:
        """The answer to a request."""
        store = options.pop("store", None)
        made = Request(action, wanted, **options) if isinstance(wanted, str) else Request.of(action, wanted, **options)
        return perform(self.table(store), made)

    def apply(self, wanted: LimitsManifest, /, **options: Any) -> Answer:
        """An apply that has to go well."""
        answer = self.ask("apply", wanted, **options)
        assert (answer.status, answer.errors) == ("applied", ())
        return answer

    def apply_run(self, wanted: LimitsManifest, store: Store | None = None, **fields: Any) -> ApplyRun:
        """An apply with all its settings."""
        chosen: dict[str, Any] = {
            "options": ApplyOptions(),
            "deadline": self.deadline(),
            "sleep": self.clock.advance,
        }
        return ApplyRun(self.table(store).register(wanted.namespace), wanted, **(chosen | fields))

    def deadline(self, seconds: float = 900) -> Deadline:
        """One by the world's clock alone."""
        end = self.clock.now_ms() / 1000 + seconds
        return Deadline(end, end - seconds / 5, self.clock.now_ms, lambda: self.clock.now_ms() / 1000)

    def repository(self, namespace: str = NAMESPACE) -> SyncRepository:
        """The namespace as its users have it."""
        return self.table().register(namespace)

    def live(self) -> LimitsManifest:
        """All that stands in the table."""
        found = self.ask("export").manifest
        assert found
        return found

    def items(self) -> list[Item]:
        """All items of the namespace, and the registry."""
        repository = self.table().find(NAMESPACE)
        found = self.memory.execute(Query(repository.namespace_id, "GSI4")).items if repository else []
        names: list[Item] = self.memory.execute(Query("_/SYSTEM#")).items
        return [*found, *names]
