from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.core.operations import SORT_KEYS, batches, outcome, single, transactions
from zae_limiter.engines.memory.store import SyncMemoryStore
from zae_limiter.engines.sqlite.sync import SyncSQLiteStore
from zae_limiter.operations.values import BatchGet, Key, Operation


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
