"""What JSON has and an item has not, written into a file by somebody else."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from zae_limiter import Limit, SyncRateLimiter, SyncRepository
from zae_limiter.engines.sqlite.sync import SyncSQLiteStore
from zae_limiter.exceptions import StoreRefusedError
from zae_limiter.maintenance import copy, forecast_copy, open_table
from zae_limiter.operations.errors import Unreadable
from zae_limiter.operations.values import BatchGet, Delete, Get, Key, Page, Put, Query, Scan, Transact, Update
from zae_limiter.settings import Options

KEY = Key("ns/A", "#META")
OTHERS = Key("ns/B", "#META")
NOTES = {
    "fraction": "1.5",
    "exponent": "1e3",
    "not a number": "NaN",
    "infinity": "-Infinity",
    "of too many digits": "9" * 5000,
    "fraction in a list": '{"a": [1, 2.5]}',
    "half of a pair": '"\\ud83d"',
    "half of a pair in a name": '{"\\ud83d": 1}',
    "too deep": "[" * 500 + "]" * 500,
    "deeper than Python": "[" * 100_000 + "]" * 100_000,
}
damage = pytest.mark.parametrize("note", NOTES.values(), ids=NOTES)


def spoil(path: Path, key: Key, note: str) -> None:
    """Give an item one more attribute."""
    with closing(sqlite3.connect(path)) as other, other:
        (text,) = other.execute("SELECT item FROM items WHERE pk = ? AND sk = ?", key).fetchone()
        spoilt = text.removesuffix("}") + f', "note": {note}}}'
        other.execute("UPDATE items SET item = ? WHERE pk = ? AND sk = ?", (spoilt, *key))


def written(path: Path, key: Key) -> str:
    with closing(sqlite3.connect(path)) as other:
        return str(other.execute("SELECT item FROM items WHERE pk = ? AND sk = ?", key).fetchone()[0])


@damage
def test_it_is_refused_with_its_key_and_kept_as_it_is(store: SyncSQLiteStore, path: Path, note: str) -> None:
    store.perform(Put({"PK": KEY.pk, "SK": KEY.sk, "n": 1, "GSI1PK": "index", "GSI1SK": "a"}))
    store.perform(Put({"PK": OTHERS.pk, "SK": OTHERS.sk, "n": 1, "map": {"a": [1, "\U0001f600", True, None]}}))
    spoil(path, KEY, note)
    before = written(path, KEY)
    add = Update(KEY, add={"n": 1})
    for operation in (Get(KEY), add, Update(KEY, set={"map": {}}), Transact((add, Update(OTHERS, add={"n": 1})))):
        with pytest.raises(Unreadable, match=r"'ns/A', '#META' cannot be read: it has a value that no record has"):
            store.perform(operation)
    assert store.perform(Update(OTHERS, add={"n": 1}))["n"] == 2
    assert written(path, KEY) == before
    found = store.perform(BatchGet((KEY, OTHERS))).items
    assert "n" not in found[KEY]
    assert found[OTHERS]["map"] == {"a": [1, "\U0001f600", True, None]}
    for page in (store.perform(Scan(10)), store.perform(Query("index", index="GSI1"))):
        assert isinstance(page, Page)
        assert [each for each in page.items if each["PK"] == KEY.pk and "n" in each] == []
    store.perform(Delete(KEY))
    assert store.perform(Query("index", index="GSI1")).items == []
    assert store.perform(Update(KEY, add={"n": 1}))["n"] == 1


@damage
def test_a_limiter_over_a_damaged_bucket_refuses_its_callers_alone(path: Path, note: str) -> None:
    with SyncRepository.sqlite(path) as repository:
        limiter = SyncRateLimiter(repository, default_limits=[Limit.per_day("rpd", 10)])
        for entity in ("ann", "bob"):
            with limiter.acquire(entity, "answers", {"rpd": 1}):
                pass
        spoil(path, Key(f"{repository.namespace_id}/BUCKET#ann#answers#0", "#STATE"), note)
        for _ in range(2):
            with limiter.acquire("bob", "answers", {"rpd": 1}):
                pass
            with pytest.raises(StoreRefusedError, match="BUCKET#ann#answers#0"):
                limiter.acquire("ann", "answers", {"rpd": 1}).__enter__()
        assert repository.get_usage_summary(entity_id="bob").total_events == 3


COLUMNS = {
    "a time that is text": "UPDATE items SET written = 'zz' WHERE {bucket}",
    "a time that is bytes": "UPDATE items SET written = x'00' WHERE {bucket}",
    "a time without end": "UPDATE items SET written = 9e999 WHERE {bucket}",
    "an item of bytes": "UPDATE items SET item = x'00ff' WHERE {bucket}",
    "a counter that is text": "UPDATE items SET c0 = 'zz' WHERE {bucket}",
    "a counter that is a fraction": "UPDATE items SET c0 = 0.5 WHERE {bucket}",
    "a counter without a value": "UPDATE items SET c0 = NULL WHERE {bucket}",
    "counters of bytes": "UPDATE items SET counters = x'00' WHERE {bucket}",
    "counters that are a number": "UPDATE items SET counters = 7 WHERE {bucket}",
    "counters that are cut": "UPDATE items SET counters = '[' || counters WHERE {bucket}",
    "counters without names": "UPDATE items SET counters = '[]' WHERE {bucket}",
    "counters of one name": 'UPDATE items SET counters = \'["ev","ev"]\' WHERE {bucket}',
    "counters that are lists": "UPDATE items SET counters = '[[]]' WHERE {bucket}",
    "a counter that is a key": "UPDATE items SET counters = '[\"PK\"]' WHERE {bucket}",
    "a counter of half a pair": "UPDATE items SET counters = '[\"\\ud83d\"]' WHERE {bucket}",
    "counters too long": "UPDATE items SET counters = '[\"' || hex(zeroblob(9000)) || '\"]' WHERE {bucket}",
}
LOOSE = {
    "a key of bytes": "INSERT INTO items (pk, sk, item, expires, hour, written) SELECT CAST(pk AS BLOB), sk, item, 1,"
    " hour, written FROM items WHERE {bucket}",
    "a sort key of bytes": "INSERT INTO items (pk, sk, item, expires, hour, written) SELECT pk, CAST(sk AS BLOB), item,"
    " 1, 2, 'zz' FROM items WHERE {bucket}",
    "an entry of bytes": "UPDATE entries SET sk = CAST(sk AS BLOB) WHERE item_{bucket}",
    "an entry for bytes": "UPDATE entries SET item_sk = CAST(sk AS BLOB) WHERE item_{bucket}",
    "an hour that is text": "UPDATE items SET hour = 'x', expires = 'y' WHERE {bucket}",
    "use that is not an item": "UPDATE uncounted SET counted = x'00' WHERE {bucket}",
    "use that is cut": "UPDATE uncounted SET counted = '[' || counted WHERE {bucket}",
    "use of no hour": "UPDATE uncounted SET hour = 'x' WHERE {bucket}",
    "use of an hour too early": "UPDATE uncounted SET hour = -9223372036854775808 WHERE {bucket}",
}


def with_a_damaged_row(repository: SyncRepository, path: Path, statement: str) -> SyncRateLimiter:
    """Return a limiter whose buckets of ann and bob are full but for two tokens, one of them with the damage."""
    limiter = SyncRateLimiter(repository, default_limits=[Limit.per_day("rpd", 10)])
    for entity in ("ann", "ann", "bob"):  # the second acquire puts numbers into columns
        with limiter.acquire(entity, "answers", {"rpd": 1}):
            pass
    with closing(sqlite3.connect(path)) as other, other:
        bucket = f"pk = '{repository.namespace_id}/BUCKET#ann#answers#0'"
        assert other.execute(statement.format(bucket=bucket)).rowcount
    return limiter


def lists(repository: SyncRepository) -> list[Page]:
    """Return a page of each kind of list, sound or not."""
    namespace = repository.namespace_id
    queries = [Query(namespace, "GSI4"), Query(f"{namespace}/BUCKET#ann#answers#0"), Scan(1000)]
    pages = [repository._store.perform(query) for query in queries]
    assert all(type(item[name]) is str for page in pages for item in page.items for name in ("PK", "SK"))
    return pages


@pytest.mark.parametrize("statement", COLUMNS.values(), ids=COLUMNS)
def test_a_row_with_a_column_of_another_type_is_one_item_that_cannot_be_read(path: Path, statement: str) -> None:
    with SyncRepository.sqlite(path) as repository:
        limiter = with_a_damaged_row(repository, path, statement)
        (_, (bucket, *_), _) = (page.items for page in lists(repository))
        assert set(bucket) <= {"PK", "SK", *(f"GSI{n}{part}" for n in "1234" for part in ("PK", "SK"))}
        for _ in range(2):
            with limiter.acquire("bob", "answers", {"rpd": 1}):
                pass
            with pytest.raises(StoreRefusedError, match="BUCKET#ann#answers#0"):
                limiter.acquire("ann", "answers", {"rpd": 1}).__enter__()
        assert repository.get_usage_summary(entity_id="bob").total_events == 3


@pytest.mark.parametrize("statement", LOOSE.values(), ids=LOOSE)
def test_a_damaged_column_beside_an_item_stops_nothing(path: Path, statement: str) -> None:
    with SyncRepository.sqlite(path) as repository:
        limiter = with_a_damaged_row(repository, path, statement)
        lists(repository)
        for _ in range(70):  # more than from one sweep to the next
            with limiter.acquire("bob", "answers", {"rpd": 0}), limiter.acquire("ann", "answers", {"rpd": 0}):
                pass
        assert repository.get_usage_summary(entity_id="bob").total_events > 0
        lists(repository)


PLACES: dict[str, Any] = {"a number": 5, "empty": "", "too many digits": 10**40}


@pytest.mark.parametrize("place", PLACES.values(), ids=PLACES)
def test_a_copy_names_the_item_that_no_table_can_take(path: Path, place: object) -> None:
    with SyncRepository.sqlite(path) as repository:
        repository.create_entity("ann")
        spoil(path, (key := Key(f"{repository.namespace_id}/ENTITY#ann", "#META")), json.dumps(1))
    name = "GSI2PK" if place != 10**40 else "other"
    with closing(sqlite3.connect(path)) as other, other:
        item = json.loads(written(path, key)) | {name: place}
        other.execute("UPDATE items SET item = ? WHERE pk = ? AND sk = ?", (json.dumps(item), *key))
    source, target = (open_table(Options(store=f"sqlite:///{each}")) for each in (path, path.with_name("new.db")))
    with source, target, pytest.raises(StoreRefusedError, match=rf"{key.pk}.*{name}"):
        copy(source, target, forecast_copy(source, target, []), report=lambda _: None)
