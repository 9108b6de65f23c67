"""The store that the options name."""

from ..engines.engine import Store
from ..runtime.forks import without_forks
from ..settings import Options


def store_of(options: Options) -> Store:
    """Return the store that the options name: a file, or a table of DynamoDB. Nothing is opened yet.

    Raises ``ValidationError`` for a bad ``ZAEL_STORE`` or ``ZAEL_TRANSPORT``.
    """
    with without_forks():  # a process loads the engine that it uses, and no other
        if (path := options.file) is not None:
            from ..engines.sqlite.aio import SQLiteStore

            return SQLiteStore(path, timeout=options.operation_timeout, clock=options.clock, **options.file_options())
        from ..engines.dynamodb.aio.store import DynamoDBStore

        return DynamoDBStore(options.stack_name, **options.store_options())
