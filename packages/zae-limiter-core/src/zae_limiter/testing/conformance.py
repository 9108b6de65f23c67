"""What every engine has to do, as tests of a store of yours. Needs pytest.

    class TestMine(StoreConformance):
        @pytest.fixture
        def store(self):
            return MySyncStore()  # new and empty for each test; `Blocking(MyStore())` for an async one

Each test is one sentence of the contract. An engine passes all of them, or the library is not exact over it.
"""

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from threading import Thread
from typing import Any, Final, cast

import pytest

from ..engines.engine import Store, SyncStore
from ..operations.errors import ConditionFailed, NotApplied, Reason, TransactionCancelled
from ..operations.values import (
    BatchGet,
    BatchWrite,
    Check,
    Conditions,
    Delete,
    DescribeTable,
    EnableTtl,
    Found,
    Get,
    IndexName,
    Item,
    Key,
    Operation,
    Page,
    Put,
    Query,
    Scan,
    Transact,
    Unwritten,
    Update,
)
from ..schema.attributes import GSI1PK, GSI4PK, GSI4SK, PK, SK
from ..schema.table import INDEXES

KEY: Final = Key("ns/A", "#META")
OTHER: Final = Key("ns/B", "#META")
EXISTS: Final = Conditions(exists=(PK,))
IS_NEW: Final = Conditions(absent=(PK,))


def item(key: Key = KEY, /, **attributes: Any) -> Item:
    """Return an item with these attributes."""
    return {PK: key.pk, SK: key.sk, **attributes}


HELD: Final = item(n=5, s="x", b=True, none=None)


def state(store: SyncStore, key: Key = KEY) -> Item | None:
    """Return the stored item."""
    return store.perform(Get(key))


def _every_copy(store: SyncStore) -> Iterator[Item]:
    yield state(store) or {}
    yield store.perform(BatchGet((KEY,))).items[KEY]
    yield store.perform(Query(KEY.pk)).items[0]
    yield store.perform(Update(KEY))
    with pytest.raises(ConditionFailed) as caught:
        store.perform(Put(item(), IS_NEW))
    yield caught.value.item or {}
    with pytest.raises(TransactionCancelled) as cancelled:
        store.perform(Transact((Put(item(), IS_NEW),)))
    yield cancelled.value.reasons[0].item or {}


def _pages(store: SyncStore, query: Query) -> list[str]:
    found, start = [], query.start
    while True:
        page: Page = store.perform(
            Query(query.pk, query.index, query.begins_with, query.after, query.limit, query.descending, start)
        )
        assert query.limit is None or len(page.items) <= query.limit
        found += [each[SK] for each in page.items]
        if page.next is None:
            return found
        start = page.next


class Blocking:
    """An async store as one that blocks: an event loop in a thread performs its operations."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._loop = asyncio.new_event_loop()
        self._thread = Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def perform(self, operation: Operation[Any]) -> Any:
        """Return the answer of the store."""
        return asyncio.run_coroutine_threadsafe(self._store.perform(operation), self._loop).result()

    def close(self) -> None:
        """Close the store and the loop."""
        asyncio.run_coroutine_threadsafe(self._store.close(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class StoreConformance:
    """The contract of an engine. Inherit it, and override the fixture ``store``."""

    @pytest.fixture
    def store(self) -> SyncStore:
        """Return a store with an empty table."""
        raise NotImplementedError("override the fixture `store`")

    def test_what_is_put_is_read_back(self, store: SyncStore) -> None:
        assert store.perform(Put(item(n=1, s="x", b=True, none=None, l=[1, {"a": "b"}], m={"k": [2]}))) is None
        assert state(store) == item(n=1, s="x", b=True, none=None, l=[1, {"a": "b"}], m={"k": [2]})
        assert state(store, OTHER) is None

    def test_an_update_adds_sets_and_removes_and_answers_the_item(self, store: SyncStore) -> None:
        store.perform(Put(item(n=5, gone=1)))
        answer = store.perform(Update(KEY, add={"n": -7, "new": 2}, set={"s": "x"}, remove=("gone", "never")))
        assert answer == state(store) == item(n=-2, new=2, s="x")

    def test_an_update_creates_an_item_where_no_condition_forbids_it(self, store: SyncStore) -> None:
        assert store.perform(Update(KEY, add={"n": 1})) == item(n=1)
        with pytest.raises(ConditionFailed) as caught:
            store.perform(Update(OTHER, add={"n": 1}, when=EXISTS))
        assert caught.value.item is None
        assert state(store, OTHER) is None

    @pytest.mark.parametrize(
        "when",
        [
            Conditions(exists=(PK, "n")),
            Conditions(absent=("other",)),
            Conditions(equals={"n": 5, "s": "x", "b": True, "none": None}),
            Conditions(at_least={"n": 5}, at_most={"n": 5}),
            Conditions(at_least={"n": -1}),
            Conditions(at_most={"n": 6}),
            Conditions(below={"s": "y", "other": "a"}),
            Conditions(below={"s": "xa", "n": 6, "other": 10**28}, equals={"n": 5}),
        ],
    )
    def test_a_condition_that_holds_lets_a_write_pass(self, store: SyncStore, when: Conditions) -> None:
        store.perform(Put(HELD))
        assert store.perform(Update(KEY, set={"n": 0}, when=when))["n"] == 0

    @pytest.mark.parametrize(
        "when",
        [
            Conditions(exists=("other",)),
            Conditions(absent=("none",)),
            Conditions(equals={"n": 6}),
            Conditions(equals={"n": "5"}),
            Conditions(equals={"b": 1}),
            Conditions(equals={"other": None}),
            Conditions(at_least={"n": 6}),
            Conditions(at_most={"n": 4}),
            Conditions(at_least={"s": 0}),
            Conditions(below={"n": 5}),
            Conditions(at_least={"b": 0}),
            Conditions(at_most={"other": 9}),
            Conditions(exists=("n",), equals={"s": "y"}),
            Conditions(below={"s": "x"}),
            Conditions(below={"s": "w", "other": "a"}),
            Conditions(below={"n": "9"}),
        ],
    )
    def test_a_condition_that_fails_changes_nothing_and_shows_the_item(
        self, store: SyncStore, when: Conditions
    ) -> None:
        store.perform(Put(HELD))
        for write in (Update(KEY, set={"n": 0}, when=when), Put(item(n=0), when), Delete(KEY, when)):
            with pytest.raises(ConditionFailed) as caught:
                store.perform(write)
            assert caught.value.item == HELD == state(store)

    def test_deleting_what_is_not_there_succeeds(self, store: SyncStore) -> None:
        store.perform(Put(item()))
        assert store.perform(Delete(KEY)) is None
        assert store.perform(Delete(KEY)) is None
        assert state(store) is None

    def test_nothing_that_goes_in_or_comes_out_is_shared(self, store: SyncStore) -> None:
        mine = item(n=1, nested={"list": [1]})
        store.perform(Put(mine))
        mine["nested"]["list"].append(2)
        mine["n"] = 2
        for theirs in _every_copy(store):
            assert theirs == item(n=1, nested={"list": [1]})
            theirs["nested"]["list"].append(3)
            theirs["n"] = 3
        inner = [1]
        store.perform(Update(KEY, set={"nested": inner}))
        inner.append(2)
        assert state(store) == item(n=1, nested=[1])

    @pytest.mark.parametrize("inner", [[1], (1,), {"k": [1]}])
    def test_nor_is_what_an_update_leaves_beside_a_number(self, store: SyncStore, inner: Any) -> None:
        store.perform(Put(item(n=1)))
        for theirs in (
            store.perform(Update(KEY, set={"nested": inner})),
            store.perform(Update(KEY, add={"n": 1})),
            store.perform(Update(KEY, set={"n": 3})),
        ):
            theirs["nested"].clear()
        assert state(store) == item(n=3, nested=inner if isinstance(inner, dict) else [1])

    @pytest.mark.parametrize(
        "refused",
        [
            Update(Key("", "#META"), add={"n": 1}),
            Update(Key("ns/A", ""), add={"n": 1}),
            Get(Key("", "")),
            Put({PK: "ns/A"}),
            Put({PK: "ns/A", SK: 5}),
            Put(item(**{GSI4PK: ""})),
            Put(item(**{GSI4PK: 1})),
            Put(item(big="x" * 410_000)),
            Update(KEY, set={"big": "x" * 410_000}),
            Update(KEY, set={PK: "ns/B"}),
            Update(KEY, set={GSI1PK: ""}),
            Update(KEY, remove=(SK,)),
            Update(KEY, add={"text": 1}),
            Update(KEY, add={"flag": 1}),
            Update(KEY, add={"n": 1}, set={"n": 1}),
            Update(KEY, set={"n": 1}, remove=("n",)),
            Update(KEY, add={"n": 1}, when=Conditions(at_least={"n": 2}, at_most={"n": 1})),
            BatchGet(()),
            BatchGet((KEY, KEY)),
            BatchGet(tuple(Key(str(n), "s") for n in range(1, 102))),
            BatchWrite((Put(item()), Delete(KEY))),
            BatchWrite(tuple(Delete(Key(str(n), "s")) for n in range(1, 27))),
            Transact((Put(item()), Check(KEY, EXISTS))),
            Update(KEY, add={"n": 1}, remove=("n",), when=IS_NEW),
            Put(item(big="x" * 410_000), IS_NEW),
            Transact(()),
        ],
    )
    def test_what_dynamodb_refuses_is_refused_and_changes_nothing(
        self, store: SyncStore, refused: Operation[Any]
    ) -> None:
        store.perform(Put(item(text="x", flag=True)))
        with pytest.raises(NotApplied):
            store.perform(refused)
        assert state(store) == item(text="x", flag=True)

    def test_a_float_is_no_value(self, store: SyncStore) -> None:
        with pytest.raises(TypeError):
            store.perform(Put(item(n=0.5)))

    def test_a_transaction_does_all_of_its_writes(self, store: SyncStore) -> None:
        store.perform(Put(item(n=1)))
        third = Key("ns/C", "#META")
        writes = (Update(KEY, add={"n": 1}), Put(item(OTHER), IS_NEW), Check(third, IS_NEW), Delete(Key("ns/D", "s")))
        assert store.perform(Transact(writes)) is None
        assert [state(store, key) for key in (KEY, OTHER, third)] == [item(n=2), item(OTHER), None]

    def test_a_transaction_does_none_where_one_fails_and_says_which(self, store: SyncStore) -> None:
        store.perform(Put(item(n=1, text="x")))
        writes = (Put(item(OTHER)), Update(KEY, add={"n": 1}, when=IS_NEW), Check(Key("ns/C", "s"), IS_NEW))
        with pytest.raises(TransactionCancelled) as caught:
            store.perform(Transact(writes))
        assert caught.value.reasons == (
            Reason(None),
            Reason("ConditionalCheckFailed", item(n=1, text="x")),
            Reason(None),
        )
        with pytest.raises((TransactionCancelled, NotApplied)):  # stores differ in how they say so
            store.perform(Transact((Put(item(OTHER)), Update(KEY, add={"text": 1}))))
        assert (state(store), state(store, OTHER)) == (item(n=1, text="x"), None)

    def test_a_transaction_repeated_with_its_token_is_done_once(self, store: SyncStore) -> None:
        once = Transact((Update(KEY, add={"n": 1}),), request_token="t")
        store.perform(once)
        assert store.perform(once) is None
        assert state(store) == item(n=1)
        with pytest.raises(NotApplied):
            store.perform(Transact((Update(KEY, add={"n": 2}),), request_token="t"))

    def test_batches_read_and_write_many(self, store: SyncStore) -> None:
        store.perform(Put(item(old=1)))
        assert store.perform(BatchWrite((Delete(KEY), Put(item(OTHER, n=1))))) == Unwritten()
        assert store.perform(BatchGet((KEY, OTHER))) == Found({OTHER: item(OTHER, n=1)})

    @pytest.fixture
    def filled(self, store: SyncStore) -> SyncStore:
        for sk in ("b#2", "a#1", "b#1", "c", "b", "b#10", "é"):
            store.perform(Put({PK: "p", SK: sk, GSI4PK: "ns", GSI4SK: f"same {sk}", "n": 1}))
        store.perform(Put({PK: "other", SK: "b#0"}))
        return store

    @pytest.mark.parametrize("limit", [None, 1, 2, 3, 100])
    @pytest.mark.parametrize(
        ("query", "expected"),
        [
            (Query("p"), ["a#1", "b", "b#1", "b#10", "b#2", "c", "é"]),
            (Query("p", descending=True), ["é", "c", "b#2", "b#10", "b#1", "b", "a#1"]),
            (Query("p", begins_with="b#"), ["b#1", "b#10", "b#2"]),
            (Query("p", after="b#1"), ["b#10", "b#2", "c", "é"]),
            (Query("p", begins_with="b#", after="b#1"), ["b#10", "b#2"]),
            (Query("p", begins_with="b#", after="a"), ["b#1", "b#10", "b#2"]),
            (Query("p", begins_with="b#", after="z"), []),
            (Query("p", begins_with="b#", descending=True), ["b#2", "b#10", "b#1"]),
            (Query("none"), []),
            (Query("ns", index="GSI4"), ["a#1", "b", "b#1", "b#10", "b#2", "c", "é"]),
            (Query("ns", index="GSI4", begins_with="sa", after="saa"), ["a#1", "b", "b#1", "b#10", "b#2", "c", "é"]),
            (Query("ns", index="GSI4", after="samf"), []),
            (Query("ns", index="GSI1"), []),
        ],
    )
    def test_a_query_pages_through_exactly_what_matches(
        self, filled: SyncStore, query: Query, expected: list[str], limit: int | None
    ) -> None:
        limited = Query(query.pk, query.index, query.begins_with, query.after, limit, query.descending)
        assert _pages(filled, limited) == expected

    @pytest.mark.parametrize("limit", [1, 2, 3, 8, 100])
    def test_a_scan_pages_through_the_whole_table(self, filled: SyncStore, limit: int) -> None:
        found: list[Item] = []
        page: Page = filled.perform(Scan(limit))
        while page.next is not None:
            assert len(page.items) == limit
            found += page.items
            page = filled.perform(Scan(limit, page.next))
        keys = [(each[PK], each[SK]) for each in found + page.items]
        assert sorted(keys) == [("other", "b#0"), *(("p", sk) for sk in ("a#1", "b", "b#1", "b#10", "b#2", "c", "é"))]

    def test_an_index_holds_what_its_projection_says(self, store: SyncStore) -> None:
        places = {name: f"{name} of it" for index in INDEXES.values() for name in index[:2]}
        store.perform(Put(item(n=1, **places)))
        for name, index in INDEXES.items():
            keys_alone = item(**{key: places[key] for key in index[:2]})
            expected = item(n=1, **places) if index.projection == "ALL" else keys_alone
            assert store.perform(Query(places[index.pk], cast("IndexName", name))).items == [expected]
        store.perform(Update(KEY, remove=(GSI1PK,)))
        assert store.perform(Query(places[GSI1PK], "GSI1")).items == []

    def test_its_table_is_there(self, store: SyncStore) -> None:
        assert (store.perform(DescribeTable()), store.perform(EnableTtl())) == ("ACTIVE", None)

    def test_threads_lose_no_write(self, store: SyncStore) -> None:
        with ThreadPoolExecutor(8) as threads:
            list(threads.map(lambda _: [store.perform(Update(KEY, add={"n": 1})) for _ in range(50)], range(8)))
        assert state(store) == item(n=400)
