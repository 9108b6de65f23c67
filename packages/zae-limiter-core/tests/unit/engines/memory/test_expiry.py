"""How a table in memory expires what nobody asks for again: in small steps, by a clock."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

import pytest

from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.operations.values import BatchWrite, Delete, Get, Key, Put, Scan, Transact, Update

NOW = 1_700_000_000
LIFE = 60  # seconds
STEADY = Key("steady", "#STATE")


@dataclass
class SetClock:
    """A clock that moves without telling anybody, as the system's does."""

    at_ms: int = NOW * 1000

    def now_ms(self) -> int:
        return self.at_ms


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def table(clock: SetClock) -> MemoryTable:
    table = MemoryTable()
    table.expire_by(clock.now_ms)
    return table


@pytest.fixture
def names() -> Iterator[Key]:
    return (Key(f"user-{number}", "#STATE") for number in count())


def stored(table: MemoryTable) -> set[str]:
    return {item["PK"] for item in table.execute(Scan(10**9)).items}


def visit(table: MemoryTable, key: Key, clock: SetClock) -> None:
    table.execute(Update(key, add={"n": 1}, set={"ttl": clock.now_ms() // 1000 + LIFE}))


@pytest.mark.long
@pytest.mark.slow
def test_a_stream_of_new_ids_keeps_a_third_more_than_what_lives(
    table: MemoryTable, clock: SetClock, names: Iterator[Key]
) -> None:
    for number in range(300_000):
        clock.at_ms += 1
        visit(table, next(names), clock)
        if number % 50_000 == 0:
            assert len(stored(table)) <= (LIFE + 1) * 1000 * 4 / 3
    assert LIFE * 1000 <= len(stored(table)) <= (LIFE + 1) * 1000 * 4 / 3


@pytest.mark.parametrize("unexpiring", [0, 500])
def test_those_that_never_expire_do_not_shelter_the_others(
    table: MemoryTable, clock: SetClock, names: Iterator[Key], unexpiring: int
) -> None:
    for number in range(unexpiring):
        table.execute(Put({"PK": f"own-{number}", "SK": "#STATE"}))
    for _ in range(5_000):
        clock.at_ms += 100
        visit(table, next(names), clock)
    assert len(stored(table)) <= ((LIFE + 1) * 10 + unexpiring) * 4 / 3


def test_what_many_left_goes_while_one_goes_on(table: MemoryTable, clock: SetClock, names: Iterator[Key]) -> None:
    for _ in range(1_000):
        visit(table, next(names), clock)
    clock.at_ms += 2 * LIFE * 1000
    for _ in range(400):
        visit(table, STEADY, clock)
    assert stored(table) == {STEADY.pk}


def test_one_operation_looks_at_few(table: MemoryTable, clock: SetClock, names: Iterator[Key]) -> None:
    for _ in range(1_000):
        visit(table, next(names), clock)
    clock.at_ms += 2 * LIFE * 1000
    gone, before = [], 1_000
    for _ in range(100):
        table.execute(Get(STEADY))
        gone.append(before - len(table._items))
        before -= gone[-1]
    assert max(gone) == 4


def test_a_ttl_that_moves_is_the_one_that_counts(table: MemoryTable, clock: SetClock, names: Iterator[Key]) -> None:
    visit(table, STEADY, clock)
    for _ in range(500):
        clock.at_ms += 1_000
        visit(table, STEADY, clock)
        visit(table, next(names), clock)
    assert table.execute(Get(STEADY)) == {"PK": STEADY.pk, "SK": STEADY.sk, "n": 501, "ttl": NOW + 500 + LIFE}


def test_so_is_one_that_an_item_gets_later_or_loses(table: MemoryTable, clock: SetClock) -> None:
    gets, loses = Key("gets", "#STATE"), Key("loses", "#STATE")
    table.execute(Put({"PK": gets.pk, "SK": gets.sk}))
    visit(table, loses, clock)
    table.execute(Update(gets, set={"ttl": NOW + LIFE}))
    table.execute(Update(loses, remove=("ttl",)))
    clock.at_ms += 2 * LIFE * 1000
    for _ in range(200):
        table.execute(Get(STEADY))
    assert stored(table) == {"loses"}


def test_every_kind_of_write_makes_items_that_expire(table: MemoryTable, clock: SetClock) -> None:
    rows = [{"PK": f"row-{number}", "SK": "#STATE", "ttl": NOW + LIFE} for number in range(60)]
    table.execute(Put(rows[0]))
    table.execute(BatchWrite(tuple(Put(row) for row in rows[1:25])))
    table.execute(Transact(tuple(Put(row) for row in rows[25:])))
    clock.at_ms += 2 * LIFE * 1000
    for _ in range(100):
        table.execute(Get(STEADY))
    assert stored(table) == set()


def test_one_id_that_comes_and_goes_leaves_nothing_behind(table: MemoryTable, clock: SetClock) -> None:
    for _ in range(1_000):
        visit(table, STEADY, clock)
        table.execute(Delete(STEADY))
    assert not table._items
    assert len(table._round) <= 1


def test_without_a_clock_nothing_expires_by_itself(clock: SetClock, names: Iterator[Key]) -> None:
    table = MemoryTable()
    for _ in range(1_000):
        clock.at_ms += 1_000
        visit(table, next(names), clock)
    assert len(stored(table)) == 1_000
