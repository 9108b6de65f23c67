"""The table of another product that is called zae-limiter: every door refuses it before the first write."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.core.copies import copy, opened, table_over
from support.core.namesake import FOREIGN, TOLD
from support.core.wires import WRITES
from support.core.worlds import World
from zae_limiter import Options, SyncRateLimiter, SyncRepository, maintenance
from zae_limiter.engines.memory.store import SyncMemoryStore
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.exceptions import NoUpgradePathError
from zae_limiter.maintenance import MIGRATIONS, SyncMaintenance, VersionRecord
from zae_limiter.operations.errors import Denied
from zae_limiter.operations.values import CreateTable, EnableTtl, Operation, Put, Query
from zae_limiter.testing import ManualClock

CLOCK = ManualClock()


class Recording(SyncMemoryStore):
    """A store that keeps what was written, and may refuse to list the registry."""

    def __init__(self, table: MemoryTable, *, lists: bool = True) -> None:
        super().__init__(table)
        self.writes: list[Operation[Any]] = []
        self._lists = lists

    def perform(self, operation: Operation[Any]) -> Any:
        if isinstance(operation, (*WRITES, CreateTable, EnableTtl)):
            self.writes.append(operation)
        if isinstance(operation, Query) and not self._lists:
            raise Denied("dynamodb:Query")
        return super().perform(operation)


@pytest.fixture
def store() -> Iterator[Recording]:
    table = MemoryTable()
    table.execute(Put(FOREIGN))
    store = Recording(table)
    yield store
    assert [each for each in store.writes if not isinstance(each, CreateTable)] == []


def opening(name: str, **options: Any) -> Callable[[Recording], object]:
    return lambda store: SyncRepository.over(store, Options(namespace=name, clock=CLOCK, **options))


def on_table(call: Callable[[SyncRepository], object]) -> Callable[[Recording], object]:
    return lambda store: call(table_over(store, CLOCK))


def _source() -> SyncRepository:
    source = SyncMemoryStore(MemoryTable())
    opened(source, CLOCK)
    return table_over(source, CLOCK)


DOORS: dict[str, Callable[[Recording], object]] = {
    "open its namespace": opening("prod"),
    "open its namespace, which must be there": opening("prod", register=False),
    "open its namespace unchecked": opening("prod", check_version=False),
    "open another namespace": opening("ours"),
    "open another namespace unchecked": opening("ours", check_version=False),
    "create the table": opening("ours", create_table=True),
    "register": on_table(lambda table: table.register_namespace("ours")),
    "the provisioner's register": lambda store: maintenance.open_registered(store, Options(namespace="ours")),
    "list": on_table(lambda table: table.list_namespaces()),
    "get": on_table(lambda table: table.get_namespace("prod")),
    "delete": on_table(lambda table: table.delete_namespace("prod")),
    "orphans": on_table(lambda table: SyncMaintenance(table).list_orphan_namespaces()),
    "read the version": on_table(lambda table: SyncMaintenance(table).get_version_record()),
    "copy from it": on_table(lambda table: copy(table, table_over(SyncMemoryStore(MemoryTable()), CLOCK))),
    "copy to it": on_table(lambda table: copy(_source(), table)),
    "migrate": on_table(lambda table: maintenance.run(table, maintenance.unrecorded_schema(MIGRATIONS, stack="t"))),
    "the aggregator's look-up": on_table(lambda table: maintenance.run(table, maintenance.look_up(["1DMf7y47lpE"]))),
}


@pytest.mark.parametrize("door", DOORS)
def test_each_door_says_whose_table_it_is_and_writes_nothing(store: Recording, door: str) -> None:
    with pytest.raises(NoUpgradePathError, match=TOLD):
        DOORS[door](store)


async def test_both_variants_refuse_it(world: World) -> None:
    world.table.execute(Put(FOREIGN))
    for name in ("prod", "ours"):
        with pytest.raises(NoUpgradePathError, match=TOLD):
            await world.process(name)


def test_a_table_with_a_version_record_of_ours_is_ours() -> None:
    table = MemoryTable()
    ours = SyncMemoryStore(table)
    SyncMaintenance(opened(ours, CLOCK).repository).set_version_record(VersionRecord(1, "0.1.0", "0.1.0"))
    table.execute(Put(FOREIGN))
    assert opened(ours, CLOCK, "another").repository.namespace_id


def test_whoever_may_not_list_the_registry_opens_and_registers_as_before() -> None:
    denied = Recording(MemoryTable(), lists=False)
    assert SyncRateLimiter(SyncRepository.over(denied, Options(namespace="ours", clock=CLOCK)))
