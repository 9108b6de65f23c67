"""The items and streams in moto's backend, with what its API lacks to hold many of them.

For each operation of a transaction moto copies the table with its whole stream, to put the copy in place if the
transaction fails: a hundred operations on a thousand items took a minute and gigabytes. Here each table is its own
copy, and only the items that the transaction names are put back. Streams and iterators, which moto keeps forever, have
an end.
"""

from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from typing import Any, Final, Literal

from moto.backends import get_backend
from moto.dynamodb.models.dynamo_type import DynamoType
from moto.dynamodb.models.table import Table

# Items are in an account of their own: to a table that has an event source mapping moto would deliver by itself,
# through Docker, and drop the stream's records.
ITEMS_ACCOUNT: Final = "000000000001"

RECORDS_KEPT: Final = 20_000  # of each stream; a record takes about 10 KB
RECORDS_TRIMMED: Final = 1000  # at once
ITERATORS_KEPT: Final = 1000

Key = tuple[DynamoType, DynamoType | None]


def way_back(transaction: Mapping[str, Any], region: str) -> Callable[[], None]:
    """Return a function that undoes a transaction: it restores the items and the ends of the streams as they are
    now.
    """
    tables = get_backend("dynamodb")[ITEMS_ACCOUNT][region].tables
    operations = [operation for each in transaction["TransactItems"] for operation in each.values()]
    named = [(tables[each["TableName"]], each) for each in operations if each.get("TableName") in tables]
    before = [(table, key, deepcopy(table.get_item(*key))) for table, each in named for key in _keys(table, each)]
    touched = {table.name: table for table, _ in named}.values()
    shards = [table.stream_shard for table in touched if table.stream_shard is not None]
    ends = [(shard, len(shard.items)) for shard in shards]
    for table in touched:
        vars(table)["__deepcopy__"] = lambda _, itself=table: itself

    def undo() -> None:
        for table, (hash_key, range_key), item in before:
            items: dict[Any, Any] = table.items if range_key is None else table.items[hash_key]
            key = hash_key if range_key is None else range_key
            if item is None:
                items.pop(key, None)
            else:
                items[key] = item
        for shard, end in ends:
            del shard.items[end:]

    return undo


def trim(region: str) -> None:
    """Drop the oldest records of long streams, and the oldest iterators."""
    for table in get_backend("dynamodb")[ITEMS_ACCOUNT][region].tables.values():
        shard = table.stream_shard
        if shard is not None and len(shard.items) >= RECORDS_KEPT + RECORDS_TRIMMED:
            gone = len(shard.items) - RECORDS_KEPT
            del shard.items[:gone]
            shard.starting_sequence_number += gone
    iterators = get_backend("dynamodbstreams")[ITEMS_ACCOUNT][region].shard_iterators
    while len(iterators) > ITERATORS_KEPT:
        del iterators[next(iter(iterators))]


def unusable(iterator: str, region: str) -> Literal["ExpiredIteratorException", "TrimmedDataAccessException"] | None:
    """Return why a stream cannot be read by an iterator; ``None`` if it can."""
    found = get_backend("dynamodbstreams")[ITEMS_ACCOUNT][region].shard_iterators.get(iterator)
    if found is None:
        return "ExpiredIteratorException"
    behind = found.sequence_number < found.stream_shard.starting_sequence_number
    return "TrimmedDataAccessException" if behind else None


def _keys(table: Table, operation: Mapping[str, Any]) -> Iterator[Key]:
    """Yield the key of the item that an operation writes; nothing if it has none, which moto refuses."""
    attributes = operation.get("Key") or operation.get("Item") or {}
    names = table.table_key_attrs
    if all(attributes.get(name) for name in names):
        hash_key, range_key, *_ = [*(DynamoType(attributes[name]) for name in names), None]
        yield hash_key, range_key
