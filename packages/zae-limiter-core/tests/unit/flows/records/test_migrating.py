"""Migrations: every item once, in order, whoever is killed, and whoever writes meanwhile."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from support.core import rehearsal
from support.core.rehearsal import (
    FIRST,
    REHEARSED,
    SHORT,
    WRITES,
    Killed,
    Life,
    all_items,
    bucket,
    key,
    migrated,
    old_table,
    record,
    record_item,
)
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.exceptions import NoUpgradePathError, OlderClientsError
from zae_limiter.flows.records import migrating
from zae_limiter.flows.records.migrating import KEY, Change, Migration, forecast, migrate
from zae_limiter.flows.steps import play
from zae_limiter.operations.errors import Denied, OutcomeUnknown, RaceLost, StoreError, Throttled, Unreadable
from zae_limiter.operations.values import Delete, Get, Item, Key, Operation, Put, Transact, Update
from zae_limiter.schema.attributes import CASCADE, SERIAL
from zae_limiter.schema.registry import progress_item
from zae_limiter.values.versions import MigrationProgress, VersionRecord

COUNT = 41
PAGE = 7


@pytest.fixture(autouse=True)
def small_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrating, "ITEMS_PER_PAGE", PAGE)
    monkeypatch.setattr(migrating, "WRITES_AT_ONCE", 3)


@pytest.fixture
def table() -> MemoryTable:
    return old_table(COUNT)


def is_done(table: MemoryTable) -> bool:
    """Whether each item is as a migration that nobody disturbed leaves it, and nothing else is in the table."""
    buckets = [table.execute(Get(key(number))) for number in range(COUNT)]
    assert buckets == [migrated(bucket(number)) for number in range(COUNT)]
    assert table.execute(Get(KEY)) is None
    assert len(all_items(table)) == COUNT + 2
    return record(table) == VersionRecord(3, "0.1.0", "0.1.0")


def test_both_run_in_order_and_change_nothing_but_what_is_in_the_old_form(table: MemoryTable) -> None:
    entity = table.execute(Get(Key("ns/ENTITY#e", "#META")))
    done = Life(table).migrate()
    assert is_done(table)
    assert [(each.name, each.schema_version, each.changed) for each in done] == [
        ("shorten-cascade", 1, COUNT),
        ("shorten-again", 2, COUNT),
    ]
    assert entity is not None
    assert table.execute(Get(Key("ns/ENTITY#e", "#META"))) == entity


def test_a_table_of_the_newest_schema_is_left_alone(table: MemoryTable) -> None:
    Life(table).migrate()
    again = Life(table)
    assert again.migrate() == []
    assert again.writes == 0


def test_progress_is_reported_from_where_it_begins_to_the_end(table: MemoryTable) -> None:
    told: list[MigrationProgress] = []
    play(migrate([FIRST], stack="my-app", report=told.append), Life(table).perform)
    read = [each.items for each in told]
    assert read == [*range(0, COUNT + 3, PAGE), COUNT + 3]  # its own progress is an item of the table, too
    assert told[-1].changed == COUNT


def lives_until(writes: int) -> Callable[[MemoryTable], Life]:
    def born(table: MemoryTable) -> Life:
        def before(operation: Operation[Any]) -> None:
            if isinstance(operation, WRITES) and life.writes == writes:
                raise Killed

        life = Life(table, before)
        return life

    return born


def every_write() -> int:
    life = Life(old_table(COUNT))
    life.migrate()
    return life.writes


@pytest.mark.long(keep=20)
@pytest.mark.parametrize("writes", range(every_write()))
def test_a_run_that_is_killed_before_any_of_its_writes_is_continued(table: MemoryTable, writes: int) -> None:
    mortal = lives_until(writes)(table)
    with pytest.raises(Killed):
        mortal.migrate()
    heir = Life(table)
    heir.migrate()
    assert is_done(table)
    assert mortal.writes + heir.writes <= every_write() + 1  # it begins no migration and no page anew


def test_runs_that_each_die_after_a_page_get_to_the_end(table: MemoryTable) -> None:
    for _ in range(every_write()):
        try:
            lives_until(PAGE + 2)(table).migrate()
        except Killed:
            continue
        break
    assert is_done(table)


def interleaved(*flows: Iterator[Any], perform: Callable[[Any], Any]) -> None:
    """Steps of the flows in turn."""
    waiting: list[tuple[Any, Any]] = [(flow, None) for flow in flows]
    while waiting:
        flow, answer = waiting.pop(0)
        try:
            step = flow.throw(answer) if isinstance(answer, BaseException) else flow.send(answer)
        except StopIteration:
            continue
        try:
            waiting.append((flow, perform(step)))
        except StoreError as error:
            waiting.append((flow, error))


@pytest.mark.parametrize("steps", range(0, 60, 3))
def test_two_runs_at_once_do_not_disturb_each_other(table: MemoryTable, steps: int) -> None:
    life = Life(table)
    first, second = (migrate(REHEARSED, stack="my-app", report=lambda _: None) for _ in range(2))
    answer = None
    for _ in range(steps):
        try:
            answer = life.perform(first.send(answer))
        except StopIteration:
            break
    else:
        step = first.send(answer)
        interleaved(resumed(first, step), second, perform=life.perform)
    assert is_done(table)


def resumed(flow: Any, step: Any) -> Iterator[Any]:
    """The rest of a flow that has yielded a step already."""
    try:
        while True:
            try:
                answer = yield step
            except StoreError as error:
                step = flow.throw(error)
            else:
                step = flow.send(answer)
    except StopIteration:
        return


def test_a_change_that_comes_between_is_kept(table: MemoryTable) -> None:
    def before(operation: Operation[Any]) -> None:
        if isinstance(operation, Update) and operation.key == key(5) and operation.set == {SHORT: False}:
            table.execute(Put({**bucket(5), CASCADE: True, "ev": 99}))

    Life(table, before).migrate(FIRST)
    found = table.execute(Get(key(5)))
    assert found is not None
    assert (found[SHORT], found["ev"]) == (True, 99)
    assert CASCADE not in found


def test_an_item_that_is_deleted_meanwhile_does_not_come_back(table: MemoryTable) -> None:
    def before(operation: Operation[Any]) -> None:
        if isinstance(operation, Update) and operation.key == key(5):
            table.execute(Delete(key(5)))

    Life(table, before).migrate()
    assert table.execute(Get(key(5))) is None


def test_a_new_value_holds_while_what_it_depends_on_is_unchanged(table: MemoryTable) -> None:
    def doubled(item: Item) -> Change | None:
        return Change({"twice": 2 * item["ev"]}, depends_on=("ev",)) if "ev" in item and "twice" not in item else None

    late = iter([True] * 3)

    def before(operation: Operation[Any]) -> None:
        if isinstance(operation, Update) and operation.key == key(5) and "twice" in operation.set and next(late, False):
            table.execute(Update(key(5), add={"ev": 1}))

    Life(table, before).migrate(Migration(1, "double", "", "0.1.0", doubled))
    found = table.execute(Get(key(5)))
    assert found is not None
    assert found["twice"] == 2 * found["ev"] > 10


def test_an_item_that_never_keeps_still_ends_the_run_which_can_be_continued(table: MemoryTable) -> None:
    def doubled(item: Item) -> Change | None:
        return Change({"twice": 2 * item["ev"]}, depends_on=("ev",)) if "ev" in item and "twice" not in item else None

    def before(operation: Operation[Any]) -> None:
        if isinstance(operation, Update) and operation.key == key(5) and "twice" in operation.set:
            table.execute(Update(key(5), add={"ev": 1}))

    migration = Migration(1, "double", "", "0.1.0", doubled)
    with pytest.raises(RaceLost):
        Life(table, before).migrate(migration)
    [done] = Life(table).migrate(migration)
    assert done.changed < COUNT
    assert all("twice" in item for item in all_items(table) if "ev" in item)


@pytest.mark.parametrize("fault", [Throttled("slow down"), OutcomeUnknown("lost")])
def test_what_is_throttled_or_lost_is_written_again(table: MemoryTable, fault: StoreError) -> None:
    faults = iter([fault] * 10)

    def before(operation: Operation[Any]) -> None:
        if isinstance(operation, Update) and SHORT in operation.set and (error := next(faults, None)):
            if isinstance(error, OutcomeUnknown):
                table.execute(operation)
            raise error

    Life(table, before).migrate()
    assert is_done(table)


def test_a_store_that_refuses_ends_the_run(table: MemoryTable) -> None:
    def before(operation: Operation[Any]) -> None:
        if isinstance(operation, Update):
            raise Denied("no")

    with pytest.raises(Denied):
        Life(table, before).migrate()
    assert record(table) == VersionRecord(1, "0.1.0", "0.1.0")


@pytest.mark.parametrize("lost", [Put, Transact])
def test_a_lost_answer_to_its_own_progress_changes_nothing(table: MemoryTable, lost: type) -> None:
    faults = iter([OutcomeUnknown("lost")] * 1)

    def before(operation: Operation[Any]) -> None:
        if isinstance(operation, lost) and (error := next(faults, None)):
            table.execute(operation)
            raise error

    Life(table, before).migrate()
    assert is_done(table)


def test_it_is_refused_while_older_clients_are_let_in_and_changes_nothing(table: MemoryTable) -> None:
    before = all_items(table)
    newer = Migration(1, "newer", "", "0.3.0", rehearsal.shorten)
    with pytest.raises(OlderClientsError, match=r"my-app --oldest-client 0\.3\.0") as refused:
        Life(table).migrate(newer)
    assert (refused.value.min_client_version, refused.value.oldest_client) == ("0.1.0", "0.3.0")
    assert all_items(table) == before
    table.execute(Put(record_item(oldest_client="0.3.0")))
    assert [each.changed for each in Life(table).migrate(newer)] == [COUNT]


def test_a_bound_that_is_lowered_meanwhile_keeps_the_migration_from_its_end(table: MemoryTable) -> None:
    newer = Migration(1, "newer", "", "0.3.0", rehearsal.shorten)
    table.execute(Put(record_item(oldest_client="0.3.0")))

    def before(operation: Operation[Any]) -> None:
        if isinstance(operation, Transact):
            table.execute(Put(record_item(oldest_client="0.2.0")))

    with pytest.raises(OlderClientsError):
        Life(table, before).migrate(newer)
    assert record(table) == VersionRecord(1, "0.1.0", "0.2.0")
    table.execute(Put(record_item(oldest_client="0.3.0")))
    Life(table).migrate(newer)
    assert record(table) == VersionRecord(2, "0.1.0", "0.3.0")


HALF_DONE = progress_item(MigrationProgress("given-up", 1, serial=1, items=42, behind=key(COUNT)))


def test_a_migration_that_another_one_has_half_done_is_refused_and_skips_no_item(table: MemoryTable) -> None:
    table.execute(Put(HALF_DONE))
    before = all_items(table)
    with pytest.raises(NoUpgradePathError, match="'given-up' from schema 1 is half done"):
        Life(table).migrate()
    assert all_items(table) == before
    table.execute(Delete(KEY))
    Life(table).migrate()
    assert is_done(table)


def test_a_run_whose_progress_another_migration_replaced_does_not_go_on_from_there(table: MemoryTable) -> None:
    replaced = iter([True])

    def before(operation: Operation[Any]) -> None:
        if isinstance(operation, Put) and operation.item.get(SERIAL) == 1 and next(replaced, False):
            table.execute(Put(HALF_DONE))

    with pytest.raises(NoUpgradePathError, match="'given-up'"):
        Life(table, before).migrate()
    assert table.execute(Get(KEY)) == HALF_DONE
    assert record(table) == VersionRecord(1, "0.1.0", "0.1.0")


@pytest.mark.parametrize("error", [KeyError("ev"), TypeError("no number"), ValueError("no")])
def test_an_item_that_a_migration_cannot_read_is_named(table: MemoryTable, error: Exception) -> None:
    def change(item: Item) -> Change | None:
        if item.get("ev") == 5:
            raise error
        return rehearsal.shorten(item)

    for carry_out in (
        lambda: Life(table).migrate(Migration(1, "shorten-cascade", "", "0.1.0", change)),
        lambda: play(forecast([Migration(1, "shorten-cascade", "", "0.1.0", change)]), Life(table).perform),
    ):
        with pytest.raises(Unreadable, match=re.escape(f"the item {bucket(5)['PK']!r}, '#STATE' cannot be read")):
            carry_out()
    assert record(table) == VersionRecord(1, "0.1.0", "0.1.0")
    Life(table).migrate()
    assert is_done(table)


def test_an_item_that_has_no_room_for_its_new_form_is_named(table: MemoryTable) -> None:
    table.execute(Put({**bucket(5), "note": "x" * 409_000}))
    longer = Migration(1, "longer", "", "0.1.0", lambda item: Change({"long": "x" * 900}) if "note" in item else None)
    with pytest.raises(Unreadable, match=r"#e-5#.*has at most 400 KB"):
        Life(table).migrate(longer)
    assert record(table) == VersionRecord(1, "0.1.0", "0.1.0")
