"""The store that the options name."""

from ..engines.dynamodb.sync.store import SyncDynamoDBStore
from ..engines.engine import SyncStore
from ..settings import Options


def store_of(options: Options) -> SyncStore:
    """Return the store that the options name: a file, or a table of DynamoDB. Nothing is opened yet.

    Raises ``ValidationError`` for a bad ``ZAEL_STORE`` or ``ZAEL_TRANSPORT``.
    """
    if (path := options.file) is not None:
        from ..engines.sqlite.sync import SyncSQLiteStore  # sqlite3 is loaded by who needs it

        return SyncSQLiteStore(path, clock=options.clock, **options.file_options())
    return SyncDynamoDBStore(options.stack_name, **options.store_options())
