"""The registry of migrations, what a table needs of it, what that would do, and tables that none leads from."""

from typing import Any

import pytest

from support.core.rehearsal import FIRST, REHEARSED, SECOND, Life, all_items, bucket, old_table, record, record_item
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.exceptions import NoUpgradePathError
from zae_limiter.flows.records import migrating
from zae_limiter.flows.records.migrating import (
    MIGRATIONS,
    forecast,
    newest_schema,
    oldest_schema,
    pending,
    unrecorded_schema,
)
from zae_limiter.flows.records.registry import VERSION_KEY, change_version_record
from zae_limiter.flows.steps import play
from zae_limiter.operations.values import Key, Operation, Put
from zae_limiter.schema.registry import namespace_items
from zae_limiter.values.versions import SCHEMA_VERSION, VersionRecord, parse_version

COUNT = 41
PAGE = 7


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrating, "ITEMS_PER_PAGE", PAGE)


@pytest.fixture
def table() -> MemoryTable:
    return old_table(COUNT)


def test_the_registry_leads_from_the_first_schema_to_this_releases_without_a_gap() -> None:
    assert [each.schema_version for each in MIGRATIONS] == list(range(1, SCHEMA_VERSION))
    oldest = [parse_version("oldest_client", each.oldest_client) for each in MIGRATIONS]
    assert oldest == sorted(oldest)
    assert (oldest_schema(REHEARSED), newest_schema(REHEARSED)) == (1, 3)
    assert oldest_schema(()) == newest_schema(()) == SCHEMA_VERSION


def test_a_forecast_counts_what_each_would_do_and_writes_nothing(table: MemoryTable) -> None:
    before = all_items(table)
    life = Life(table)
    first, second = play(forecast(REHEARSED), life.perform)
    assert (first.items, first.changed, second.items, second.changed) == (COUNT + 2, COUNT, COUNT + 2, COUNT)
    assert (first.write_units, first.index_units) == (COUNT, 0)
    assert first.read_units == -(-(COUNT + 2) // PAGE)  # a unit for each small page
    assert (life.writes, all_items(table)) == (0, before)
    assert play(forecast([]), life.perform) == []


def test_only_what_a_table_still_needs_is_pending() -> None:
    def names(schema_version: int) -> list[str]:
        found = pending(VersionRecord(schema_version, "0.1.0", "0.1.0"), REHEARSED, stack="my-app")
        return [each.name for each in found]

    assert [names(version) for version in (1, 2, 3, 9)] == [[FIRST.name, SECOND.name], [SECOND.name], [], []]
    with pytest.raises(NoUpgradePathError, match="begin at schema 1"):
        names(0)


def test_a_table_without_a_record_is_of_the_newest_schema_if_it_is_empty_and_else_of_the_oldest() -> None:
    table = MemoryTable()

    def schema() -> int:
        return play(unrecorded_schema(REHEARSED, stack="my-app"), table.execute)

    assert schema() == 3
    table.execute(Put(bucket(1)))
    with pytest.raises(NoUpgradePathError, match="neither a version record nor a namespace"):
        schema()
    by_name, _ = namespace_items("default", "ns", "2026-01-01T00:00:00Z")
    table.execute(Put(by_name))
    assert schema() == 1
    table.execute(Put({name: value for name, value in by_name.items() if name != "name"}))
    with pytest.raises(NoUpgradePathError):
        schema()


def test_a_table_without_a_record_is_not_migrated() -> None:
    with pytest.raises(NoUpgradePathError, match="no version record"):
        Life(MemoryTable()).migrate()


@pytest.mark.parametrize("fields", [{"core_version": None}, {"schema_version": "0.7.0"}])
def test_a_record_of_another_implementation_has_no_path(table: MemoryTable, fields: dict[str, Any]) -> None:
    item = {**record_item(), **fields}
    table.execute(Put({name: value for name, value in item.items() if value is not None}))
    with pytest.raises(NoUpgradePathError, match=next(iter(fields))):
        Life(table).migrate()


def test_a_change_of_the_record_keeps_what_another_process_wrote_meanwhile(table: MemoryTable) -> None:
    late = iter([True])

    def before(operation: Operation[Any]) -> None:
        if isinstance(operation, Put) and next(late, False):
            table.execute(Put(record_item(2)))

    def newer(found: VersionRecord | None) -> VersionRecord:
        assert found is not None
        return VersionRecord(found.schema_version, "0.2.0", found.min_client_version)

    life = Life(table, before)
    assert play(change_version_record("my-app", newer), life.perform)
    assert record(table) == VersionRecord(2, "0.2.0", "0.1.0")
    assert not play(change_version_record("my-app", newer), life.perform)
    assert Key("_/SYSTEM#", "#VERSION") == VERSION_KEY
