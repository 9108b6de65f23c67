"""Rehearsed migrations: no release has one yet.

Lives here: what they change, a table for them, and processes that carry them out. Never: a claim.
"""

from collections.abc import Callable
from typing import Any

from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.flows.records.migrating import Change, Migration, migrate
from zae_limiter.flows.records.registry import get_version_record
from zae_limiter.flows.steps import Parallel, Sleep, Step, Wait, play
from zae_limiter.operations.errors import StoreError
from zae_limiter.operations.values import Delete, Item, Key, Operation, Put, Scan, Transact, Update
from zae_limiter.schema.attributes import CASCADE, PK, SK
from zae_limiter.schema.items import BucketId
from zae_limiter.schema.keys import sk_state
from zae_limiter.schema.registry import version_item
from zae_limiter.values.versions import MigrationProgress, VersionRecord

SHORT = "cc"
SHORTER = "c"


def shorten(item: Item) -> Change | None:
    """``cascade`` of a bucket gets a shorter name; nothing reads it, so that clients of today do not mind."""
    if item[SK] != sk_state() or CASCADE not in item:
        return None
    return Change({SHORT: item[CASCADE]}, remove=(CASCADE,))


def shorten_again(item: Item) -> Change | None:
    """The next one builds on it."""
    if item[SK] != sk_state() or SHORT not in item:
        return None
    return Change({SHORTER: item[SHORT]}, remove=(SHORT,))


FIRST = Migration(1, "shorten-cascade", "A shorter name for an attribute of buckets.", "0.1.0", shorten)
SECOND = Migration(2, "shorten-again", "A still shorter one.", "0.1.0", shorten_again)
REHEARSED = (FIRST, SECOND)
WRITES = (Put, Update, Delete, Transact)


def record_item(schema_version: int = 1, oldest_client: str = "0.1.0") -> Item:
    """The version record before the migrations."""
    return version_item(VersionRecord(schema_version, "0.1.0", oldest_client))


def bucket(number: int) -> Item:
    """A bucket in the old form, as far as the migrations look at it."""
    ids = BucketId("ns", f"e-{number}", "gpt-4").attributes()
    return {**ids, CASCADE: number % 2 == 0, "ev": number}


def migrated(item: Item) -> Item:
    """The item in the newest form."""
    kept = {name: value for name, value in item.items() if name not in {CASCADE, SHORT}}
    return {**kept, SHORTER: item[CASCADE]}


def puts(count: int) -> list[Put]:
    """A table with so many buckets, a record of another kind, and its version record."""
    other = {PK: "ns/ENTITY#e", SK: "#META", CASCADE: True}
    return [*(Put(bucket(number)) for number in range(count)), Put(other), Put(record_item())]


def old_table(buckets: int) -> MemoryTable:
    """A table with what ``puts`` puts."""
    table = MemoryTable()
    for put in puts(buckets):
        table.execute(put)
    return table


def all_items(table: MemoryTable) -> list[Item]:
    """Everything in the table."""
    found: list[Item] = table.execute(Scan(1000)).items
    return found


def record(table: MemoryTable) -> VersionRecord | None:
    """The version record."""
    return play(get_version_record("my-app"), table.execute)


def key(number: int) -> Key:
    """The key of a bucket."""
    item = bucket(number)
    return Key(item[PK], item[SK])


class Killed(BaseException):
    """The process is gone."""


class Life:
    """A process over a table: ``before`` sees each operation, and may raise in its place."""

    def __init__(self, table: MemoryTable, before: Callable[[Operation[Any]], None] = lambda _: None) -> None:
        self.table = table
        self.writes = 0
        self._before = before

    def perform(self, step: Step | Wait) -> Any:
        """The answer to a step."""
        if isinstance(step, Sleep):
            return None
        if isinstance(step, Parallel):
            return [self._attempt(part) for part in step.steps]
        return self._execute(step)

    def _attempt(self, operation: Any) -> Any:
        try:
            return self._execute(operation)
        except StoreError as error:
            return error

    def _execute(self, operation: Any) -> Any:
        self._before(operation)
        answer = self.table.execute(operation)
        self.writes += isinstance(operation, WRITES)
        return answer

    def migrate(self, *migrations: Migration) -> list[MigrationProgress]:
        """Carry them out, or the rehearsed ones."""
        return play(migrate(migrations or REHEARSED, stack="my-app", report=lambda _: None), self.perform)
