"""Migrations, each of which brings the items of a table from one version of the schema to the next: the registry of
them, and how they are carried out.

It goes page by page over the whole table, each item by a write that is conditional on its old form. Each page replaces
the stored progress that it began with. So the next run continues one that was killed, and of two runs at once each goes
on from the other's progress: none of them needs a lock.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from ...exceptions import NoUpgradePathError
from ...operations.errors import (
    ConditionFailed,
    ForeignRecord,
    Invalid,
    OutcomeUnknown,
    RaceLost,
    StoreError,
    Throttled,
)
from ...operations.sizes import index_units, item_size, read_units, write_units
from ...operations.values import NOTHING, Conditions, Delete, Item, Key, Page, Put, Query, Scan, Update, Value
from ...runtime.dataclass import dataclass, replace
from ...runtime.named_tuple import NamedTuple
from ...schema import keys
from ...schema.attributes import MIN_CLIENT_VERSION, PK, SCHEMA_VERSION, SERIAL, SK
from ...schema.record import UNREADABLE, reads, unreadable
from ...schema.registry import progress_item, read_namespace, read_progress
from ...values import versions as released
from ...values.versions import MigrationProgress, VersionRecord, check_admits
from ..pages import PAUSES
from ..retry import ATTEMPTS, key_of, read, with_retries
from ..steps import Flow, Sleep, call_all
from . import registry
from .registry import applied

KEY = Key(keys.pk_system(keys.REGISTRY), keys.sk_migration())
ITEMS_PER_PAGE = 250
WRITES_AT_ONCE = 25
Report = Callable[[MigrationProgress], None]


class Change(NamedTuple):
    """The change of one item: attributes with their new values, attributes to remove.

    It is written only if these attributes, and those of ``depends_on``, still are as they were read: name each one
    that a new value was computed from.
    """

    set: Mapping[str, Value] = NOTHING
    remove: tuple[str, ...] = ()
    depends_on: tuple[str, ...] = ()

    def update(self, item: Item) -> Update:
        """Return the write, which fails if the item is not as it was read."""
        seen = {*self.set, *self.remove, *self.depends_on}
        same = {name: item[name] for name in sorted(seen) if name in item}
        absent = tuple(sorted(seen - same.keys()))
        return Update(key_of(item), set=self.set, remove=self.remove, when=Conditions((PK,), absent, same))

    def after(self, item: Item) -> Item:
        """Return the item with the change applied."""
        return {name: value for name, value in item.items() if name not in self.remove} | dict(self.set)


@dataclass(frozen=True, slots=True)
class Migration:
    """From ``schema_version`` to the next one, in place, item by item.

    ``change`` gets every item of the table, and returns ``None`` for an item that is not in the old form. Without a
    ``change`` no item changes: those of the old form stay, and processes that open the table from then on write the new
    one. Clients from ``oldest_client`` on read both forms; others must be shut out.
    """

    schema_version: int
    name: str
    description: str
    oldest_client: str
    change: Callable[[Item], Change | None] | None = None


# Rows that have no suffix keep their keys: to move them, each would be removed from the key that takes too few writes.
SPREAD_INDEXES: Final = Migration(
    1, "spread-indexes", "New buckets and usage get index keys with suffixes; no item changes.", "0.1.0"
)

MIGRATIONS: Final[Sequence[Migration]] = (SPREAD_INDEXES,)  # from schema 1, each to the next, up to SCHEMA_VERSION


def newest_schema(migrations: Sequence[Migration]) -> int:
    """Return the schema that the migrations lead to."""
    return migrations[-1].schema_version + 1 if migrations else released.SCHEMA_VERSION


def oldest_schema(migrations: Sequence[Migration]) -> int:
    """Return the schema that they begin at."""
    return migrations[0].schema_version if migrations else released.SCHEMA_VERSION


@dataclass(slots=True)
class Forecast:
    """What a migration would do: the items that it would read and change, and their units."""

    migration: Migration
    items: int = 0
    changed: int = 0
    read_units: float = 0
    write_units: int = 0
    index_units: int = 0


def pending(record: VersionRecord, migrations: Sequence[Migration], *, stack: str) -> list[Migration]:
    """Return the migrations that the table still needs, in order. Raises ``NoUpgradePathError``."""
    oldest = oldest_schema(migrations)
    if record.schema_version < oldest:
        has = f"its items have schema {record.schema_version}"
        raise NoUpgradePathError(stack, f"{has}, and the migrations of this release begin at schema {oldest}")
    return [each for each in migrations if each.schema_version >= record.schema_version]


def unrecorded_schema(migrations: Sequence[Migration], *, stack: str) -> Flow[int]:
    """Return the schema of a table without a version record: the newest where it is empty, else the oldest.

    A migration leaves items alone that are in the new form already. Raises ``NoUpgradePathError`` for items without a
    namespace that this project registered.
    """
    first = yield from with_retries(Scan(limit=1))
    if not first.items:
        return newest_schema(migrations)
    names = yield from with_retries(Query(keys.pk_system(keys.REGISTRY), begins_with=keys.NAMESPACE_PREFIX, limit=1))
    try:
        read_namespace(names.items[0])
    except ForeignRecord:
        raise
    except UNREADABLE as error:
        raise NoUpgradePathError(stack, "it has items, and neither a version record nor a namespace of ours") from error
    return oldest_schema(migrations)


def forecast(wanted: Sequence[Migration]) -> Flow[list[Forecast]]:
    """Return what these migrations would do, one after the other. Reads the whole table if one of them changes items,
    and writes nothing.
    """
    forecasts = [Forecast(each) for each in wanted]
    changing = [each for each in forecasts if each.migration.change is not None]
    scan = Scan(limit=ITEMS_PER_PAGE)
    while changing:
        page: Page = yield from with_retries(scan)
        items = page.items
        for each in changing:
            each.items += len(items)
            each.read_units += read_units(sum(map(item_size, items)))
            left = []  # the page as the migration leaves it, for the next one
            for item in items:
                change = _change(item, each.migration)
                after = item if change is None else change.after(item)
                left.append(after)
                if change is not None:
                    each.changed += 1
                    each.write_units += write_units(item, after)
                    each.index_units += index_units(item, after)
            items = left
        if page.next is None:
            break
        scan = replace(scan, start=page.next)
    return forecasts


def migrate(migrations: Sequence[Migration], *, stack: str, report: Report) -> Flow[list[MigrationProgress]]:
    """Carry out the migrations that the table needs, in order; return the last progress of each.

    ``report`` gets the progress before the first page and after each. Every call continues from the stored progress.
    Raises ``NoUpgradePathError``, ``OlderClientsError``, ``StoreError``.
    """
    done: dict[int, MigrationProgress] = {}
    while True:
        record = yield from registry.get_version_record(stack)
        if record is None:
            raise NoUpgradePathError(stack, "it has no version record")
        wanted = pending(record, migrations, stack=stack)
        if not wanted:
            return list(done.values())
        check_admits(record, stack=stack, oldest_client=wanted[-1].oldest_client)
        done[wanted[0].schema_version] = yield from _run(wanted[0], record, report, stack)


def _run(migration: Migration, record: VersionRecord, report: Report, stack: str) -> Flow[MigrationProgress]:
    """Run one migration, until this run or another finishes it, or the version record is another one."""
    progress = yield from _begin(migration, stack)
    report(progress)
    while True:
        start = None if progress.behind is None else dict(zip((PK, SK), progress.behind, strict=True))
        page = Page([]) if migration.change is None else (yield from with_retries(Scan(ITEMS_PER_PAGE, start)))
        changed = yield from _change_all(migration, page.items)
        behind = None if page.next is None else (page.next[PK], page.next[SK])
        further = replace(
            progress,
            serial=progress.serial + 1,
            items=progress.items + len(page.items),
            changed=progress.changed + changed,
            behind=behind,
        )
        if behind is None:
            # raise the schema; a run that lost a race finds out by the version record
            known = {SCHEMA_VERSION: progress.schema_version, MIN_CLIENT_VERSION: record.min_client_version}
            newer = {SCHEMA_VERSION: progress.schema_version + 1}
            raised = Update(registry.VERSION_KEY, set=newer, when=Conditions(equals=known))
            yield from applied(raised, Delete(KEY, _unchanged(progress)))
            report(further)
            return further
        try:
            yield from with_retries(Put(progress_item(further), _unchanged(progress)))
        except ConditionFailed as failure:  # another run came first: go on from its progress, unless it ended
            found = None if failure.item is None else read_progress(failure.item)
            same = (progress.name, progress.schema_version)
            if found is None or (found.name, found.schema_version) != same:
                return progress
            further = found
        progress = further
        report(progress)


def _begin(migration: Migration, stack: str) -> Flow[MigrationProgress]:
    """Return the stored progress, or begin and return a new one, if there is none or it is of another schema.

    Raises ``NoUpgradePathError`` for that of another migration: what it has read is not in the form of this one.
    """
    for _ in range(ATTEMPTS):
        item = yield from read(KEY)
        found = None if item is None else read_progress(item)
        if found is not None and found.schema_version == migration.schema_version:
            if found.name == migration.name:
                return found
            has = f"its migration {found.name!r} from schema {found.schema_version} is half done"
            raise NoUpgradePathError(stack, f"{has}, and this release does not know it: upgrade with the one that does")
        new = MigrationProgress(migration.name, migration.schema_version)
        seen = Conditions(absent=(PK,)) if found is None else _unchanged(found)
        try:
            yield from with_retries(Put(progress_item(new), seen))
        except ConditionFailed:  # another run began at the same time, or our own first answer was lost
            continue
        return new
    raise RaceLost


def _unchanged(progress: MigrationProgress) -> Conditions:
    return Conditions(equals={SCHEMA_VERSION: progress.schema_version, SERIAL: progress.serial})


def _change_all(migration: Migration, items: Sequence[Item]) -> Flow[int]:
    """Change the items that are in the old form, some at the same time, and return their number.

    An item that another process changed meanwhile is read again, and judged as it is then.
    """
    waiting = [item for item in items if _change(item, migration) is not None]
    count = fruitless = 0
    while waiting:
        wave, waiting = waiting[:WRITES_AT_ONCE], waiting[WRITES_AT_ONCE:]
        again, error = yield from _change_wave(migration, wave)
        count += len(wave) - len(again)
        fruitless = fruitless + 1 if len(again) == len(wave) else 0
        if fruitless == ATTEMPTS:
            raise error or RaceLost()
        if again:
            yield Sleep(PAUSES[min(fruitless, len(PAUSES) - 1)])
        waiting = again + waiting
    return count


def _change_wave(migration: Migration, wave: Sequence[Item]) -> Flow[tuple[list[Item], StoreError | None]]:
    """Write the items; return those that still are in the old form, and the error of one."""
    updates = [change.update(item) for item in wave if (change := _change(item, migration)) is not None]
    answers = yield from call_all(updates)
    again: list[Item] = []
    error: StoreError | None = None
    for item, answer in zip(wave, answers, strict=True):
        if isinstance(answer, ConditionFailed):
            if answer.item is not None and _change(answer.item, migration) is not None:
                again.append(answer.item)
        elif isinstance(answer, (Throttled, OutcomeUnknown)):
            again.append(item)
            error = answer
        elif isinstance(answer, Invalid):
            raise unreadable(item, answer)
        elif isinstance(answer, StoreError):
            raise answer
    return again, error


@reads
def _change(item: Item, migration: Migration) -> Change | None:
    """Return the change of an item. Raises ``Unreadable``, which names it, for one that the migration cannot read."""
    return None if migration.change is None else migration.change(item)
