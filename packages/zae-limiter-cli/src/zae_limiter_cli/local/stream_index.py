"""An index on the records of dynoxide's streams, which it has none for.

Before each write to a table with a stream, dynoxide 1.2.1 looks for the highest number among all of its records, and
so does each read of the stream: without an index, a write takes the longer, the more were written before. Its items are
in a file of SQLite, where a query finds an index that answers it. A release that needs none has no harm of
it.
"""

import logging
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

_INDEXES: Final = (
    "CREATE INDEX IF NOT EXISTS _zael_numbers ON _stream_records (table_name, CAST(sequence_number AS INTEGER))",
    "CREATE INDEX IF NOT EXISTS _zael_shards ON _stream_records (table_name, shard_id, sequence_number)",
)
_WAIT_SECONDS: Final = 10.0

logger = logging.getLogger(__name__)


def index_streams(database: Path) -> None:
    """Add the indexes to the file of a running dynoxide. Where it has other tables, it stays as it is, only slower."""
    place = f"{database.absolute().as_uri()}?mode=rw"
    try:
        with closing(sqlite3.connect(place, uri=True, timeout=_WAIT_SECONDS)) as file, file:
            for statement in _INDEXES:
                file.execute(statement)
    except sqlite3.Error as error:
        logger.warning("the streams of dynoxide have no index: %s", error)
