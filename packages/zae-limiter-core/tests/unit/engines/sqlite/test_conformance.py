from collections.abc import Iterator
from pathlib import Path

import pytest

from zae_limiter.engines.sqlite.aio import SQLiteStore
from zae_limiter.engines.sqlite.sync import SyncSQLiteStore
from zae_limiter.testing.conformance import Blocking, StoreConformance


class TestSync(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SyncSQLiteStore]:
        store = SyncSQLiteStore(tmp_path / "limits.db")
        yield store
        store.close()


class TestAsync(StoreConformance):
    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[Blocking]:
        store = Blocking(SQLiteStore(tmp_path / "limits.db"))
        yield store
        store.close()
