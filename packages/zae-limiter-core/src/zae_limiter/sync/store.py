"""The store that the options name."""

from ..engines.engine import SyncStore
from ..runtime.forks import without_forks
from ..settings import Options


def store_of(options: Options) -> SyncStore:
    """Return the store that the options name: a file, or a table of DynamoDB. Nothing is opened yet.

    Raises ``ValidationError`` for a bad ``ZAEL_STORE`` or ``ZAEL_TRANSPORT``.
    """
    with without_forks():  # a process loads the engine that it uses, and no other
        if (path := options.file) is not None:
            from ..engines.sqlite.sync import SyncSQLiteStore

            return SyncSQLiteStore(path, clock=options.clock, **options.file_options())
        from ..engines.dynamodb.sync.store import SyncDynamoDBStore

        return SyncDynamoDBStore(options.stack_name, **options.store_options())
