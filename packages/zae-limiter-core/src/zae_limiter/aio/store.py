"""The store that the options name."""

from ..engines.dynamodb.aio.store import DynamoDBStore
from ..engines.engine import Store
from ..settings import Options


def store_of(options: Options) -> Store:
    """Return the store that the options name: a file, or a table of DynamoDB. Nothing is opened yet.

    Raises ``ValidationError`` for a bad ``ZAEL_STORE`` or ``ZAEL_TRANSPORT``.
    """
    if (path := options.file) is not None:
        from ..engines.sqlite.aio import SQLiteStore  # sqlite3 is loaded by who needs it

        return SQLiteStore(path, timeout=options.operation_timeout, clock=options.clock, **options.file_options())
    return DynamoDBStore(options.stack_name, **options.store_options())
