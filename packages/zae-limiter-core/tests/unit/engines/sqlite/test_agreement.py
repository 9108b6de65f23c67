import random
import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.core.operations import SORT_KEYS, batches, outcome, single, transactions
from zae_limiter.engines.memory.store import SyncMemoryStore
from zae_limiter.engines.sqlite.sync import SyncSQLiteStore
from zae_limiter.operations.values import (
    BatchGet,
    Conditions,
    Delete,
    Get,
    Key,
    Operation,
    Put,
    Query,
    Scan,
    Transact,
    Update,
)


@pytest.mark.slow
@settings(max_examples=150)
@given(st.lists(single | batches | transactions, max_size=12))
def test_a_file_answers_any_sequence_of_operations_as_memory_does(operations: list[Operation[Any]]) -> None:
    memory = SyncMemoryStore()
    with TemporaryDirectory() as folder:
        file = SyncSQLiteStore(Path(folder) / "limits.db")
        for operation in operations:
            assert outcome(memory, operation) == outcome(file, operation), operation
        everything = BatchGet(tuple(Key(pk, sk) for pk in ("i", "j#1") for sk in SORT_KEYS))
        assert memory.perform(everything) == file.perform(everything)
        file.close()


BUCKETS = [Key(f"ns/BUCKET#{entity}#api#0", "#STATE") for entity in ("ann", "bob")]
NUMBERS = ("ev", *(f"b_l{n}_t{kind}" for n in range(9) for kind in "ck"))  # more than a row has columns


def write_of(chance: random.Random) -> Put | Update | Delete:
    """Return a write of a bucket, most of them as an acquire does it."""
    key, names = chance.choice(BUCKETS), chance.choice((NUMBERS[:3], NUMBERS[:3], NUMBERS[:4], NUMBERS))
    place = {"GSI2PK": chance.choice("ab"), "GSI2SK": "s", "note": chance.choice(["x", [1], None])}
    values = (0, 7, -5, 2**63 - 1, 2**63, -(2**63) - 1, 10**30, "text", True, None, [1])
    match chance.randrange(12):
        case 0:
            return Put({"PK": key.pk, "SK": key.sk, **dict.fromkeys(names, chance.choice((3, 2**64))), **place})
        case 1:
            return Delete(key)
        case 2:
            return Update(key, set=place)
        case 3:
            return Update(key, remove=(chance.choice(names),))
        case 4:
            return Update(key, set={chance.choice(names): chance.choice(values)})
        case _:
            bounds = Conditions(exists=("PK",), at_least={names[0]: chance.randrange(-20, 9)})
            return Update(
                key, add=dict.fromkeys(names, chance.randrange(-3, 3)), when=chance.choice((bounds, Conditions()))
            )


@pytest.mark.parametrize("seed", range(6))
def test_buckets_in_columns_are_those_in_memory(tmp_path: Path, seed: int) -> None:
    """Two programs take turns, or one of them works alone for a while."""
    chance, memory = random.Random(seed), SyncMemoryStore()
    with closing(SyncSQLiteStore(tmp_path / "f.db")) as first, closing(SyncSQLiteStore(tmp_path / "f.db")) as second:
        for _ in range(40):
            stores = chance.choice(([first], [second], [first, second]))
            for _ in range(chance.randrange(1, 12)):
                operation: Operation[Any] = write_of(chance)
                match chance.randrange(8):
                    case 0:
                        operation = Get(chance.choice(BUCKETS))
                    case 1:
                        operation = Query(chance.choice("ab"), index="GSI2")
                    case 2:
                        writes = (write_of(chance), write_of(chance))
                        if writes[0] != writes[1]:
                            operation = Transact(writes)
                assert outcome(memory, operation) == outcome(chance.choice(stores), operation), operation


class Host:
    """The clock of a host, which goes on, or back."""

    seconds = 1_700_000_000

    def now_ms(self) -> int:
        return self.seconds * 1000


@pytest.mark.parametrize("seed", range(4))
def test_a_program_alone_answers_as_one_that_reads_each_bucket_again(tmp_path: Path, seed: int) -> None:
    """Before each operation on the second file, another connection writes into it."""
    chance, clock = random.Random(seed), Host()
    alone, disturbed = (SyncSQLiteStore(tmp_path / name, clock=clock) for name in ("alone.db", "disturbed.db"))
    disturbed.perform(Get(BUCKETS[0]))
    with closing(alone), closing(disturbed), closing(sqlite3.connect(disturbed.path, isolation_level=None)) as other:
        for _ in range(120):
            operation: Operation[Any] = write_of(chance)
            match chance.randrange(16):
                case 0:
                    operation = Query("ns", index="GSI4")
                case 1:
                    operation = Query("ns/ENTITY#ann", begins_with="#USAGE#")
                case 2:
                    operation = Scan(100)
                case 3:
                    clock.seconds += chance.choice((1, 50, 200, 3000, 90_000))
                case 4:
                    clock.seconds -= chance.choice((1, 50, 200, 3000, 90_000))
            other.execute("INSERT OR REPLACE INTO tokens VALUES ('x', randomblob(8), 9000000000000000)")
            assert outcome(alone, operation) == outcome(disturbed, operation), operation
