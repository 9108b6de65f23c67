"""What the tests of a file of SQLite open.

Lives here: fixtures. Never: a claim.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from zae_limiter.engines.sqlite.sync import SyncSQLiteStore


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """The place of a file that is not there yet."""
    return tmp_path / "limits.db"


@pytest.fixture
def store(path: Path) -> Iterator[SyncSQLiteStore]:
    """A store over the file, which is closed at the end."""
    with closing(SyncSQLiteStore(path)) as store:
        yield store
