"""The stages of the museum: a table in memory and a file of SQLite; tests-integration has others for some scenes."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from museum.stage import Stage
from zae_limiter import Options, Repository, SyncRepository
from zae_limiter.stores import MemoryStore, MemoryTable, SyncMemoryStore
from zae_limiter.testing import ManualClock


def in_memory(clock: ManualClock) -> Stage:
    """A table in this process, whose items expire by the clock."""
    table = MemoryTable()
    table.expire_by(clock.now_ms)
    options = Options(clock=clock)

    async def open_in_loop() -> Repository:
        return await Repository.over(MemoryStore(table), options)

    return Stage(clock, lambda: SyncRepository.over(SyncMemoryStore(table), options), open_in_loop)


def in_file(clock: ManualClock, path: Path) -> Stage:
    """A file, which real processes of one host share."""

    async def open_in_loop() -> Repository:
        return await Repository.sqlite(path, clock=clock)

    return Stage(clock, lambda: SyncRepository.sqlite(path, clock=clock), open_in_loop)


@pytest.fixture(params=["memory", "sqlite"])
async def stage(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Stage]:
    """An empty store. The clock begins on 14 November 2023."""
    clock = ManualClock()
    stage = in_memory(clock) if request.param == "memory" else in_file(clock, tmp_path / "limits.db")
    yield stage
    await stage.close()
