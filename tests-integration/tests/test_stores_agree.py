"""What lives here: the proof that the store in memory answers as DynamoDB does, to any sequence of operations.
What never does: what the operations are for.
"""

import time
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.integration.targets import Target
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.engines.engine import SyncStore
from zae_limiter.engines.memory.store import SyncMemoryStore
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.engines.meter import Meter
from zae_limiter.operations.errors import ConditionFailed, NotApplied, StoreError, TransactionCancelled
from zae_limiter.operations.values import (
    BatchGet,
    BatchWrite,
    Check,
    Conditions,
    CreateTable,
    Delete,
    DescribeTable,
    EnableTtl,
    Get,
    Item,
    Key,
    Operation,
    Page,
    Put,
    Query,
    Scan,
    Transact,
    Update,
)

pytestmark = pytest.mark.needs("endpoint")

NAMES = ("n", "m", "s", "b_rpm_tk")
SORT_KEYS = ("#META", "#USAGE#a", "#USAGE#b", "z")

names = st.sampled_from(NAMES)
numbers = st.integers(-3, 3)
values = numbers | st.sampled_from(["", "x", "é", True, False, None]) | st.lists(numbers, max_size=2)
nested = values | st.dictionaries(names, values, max_size=2)
indexes = st.sampled_from([None, "GSI1", "GSI2", "GSI3", "GSI4"])
places = st.fixed_dictionaries(
    {}, optional={f"GSI{n}{part}": st.sampled_from(["i", "j#1", "j#2"]) for n in (1, 2, 3, 4) for part in ("PK", "SK")}
)
keys = st.builds(Key, st.sampled_from(["i", "j#1"]), st.sampled_from(SORT_KEYS))
conditions = st.builds(
    Conditions,
    exists=st.lists(names | st.just("PK"), max_size=1).map(tuple),
    absent=st.lists(names | st.just("PK"), max_size=1).map(tuple),
    equals=st.dictionaries(names, values, max_size=1),
    at_least=st.dictionaries(names, numbers, max_size=2),
    at_most=st.dictionaries(names, numbers, max_size=2),
    below=st.dictionaries(names, st.sampled_from(["x", "y", "é"]), max_size=1),
) | st.just(Conditions())


def item_of(key: Key, attributes: Item, place: Item) -> Item:
    return {"PK": key.pk, "SK": key.sk, **attributes, **place}


items = st.builds(item_of, keys, st.dictionaries(names, nested, max_size=4), places)
puts = st.builds(Put, items, conditions)
deletes = st.builds(Delete, keys, conditions)
updates = st.builds(
    Update,
    keys,
    add=st.dictionaries(names, numbers, max_size=2),
    set=st.dictionaries(names, nested, max_size=1),
    remove=st.lists(names, max_size=1).map(tuple),
    when=conditions,
)
queries = st.builds(
    Query,
    st.sampled_from(["i", "j#1"]),
    indexes,
    begins_with=st.sampled_from([None, "#USAGE#", "j#", "i"]),
    after=st.sampled_from([None, "#USAGE#a", "j#1", "a", "zz"]),
    limit=st.sampled_from([None, 1, 2]),
    descending=st.booleans(),
)
batch_writes = st.builds(
    BatchWrite, st.lists(st.builds(Put, items) | st.builds(Delete, keys), min_size=1, max_size=4).map(tuple)
)
single = puts | updates | updates | deletes | st.builds(Get, keys) | queries | batch_writes
batches = st.builds(BatchGet, st.lists(keys, min_size=1, max_size=4).map(tuple))


checks = st.builds(Check, keys, conditions.filter(lambda when: when != Conditions()))


def place_of(write: Put | Update | Delete | Check) -> Key:
    return Key(write.item["PK"], write.item["SK"]) if isinstance(write, Put) else write.key


def is_well_formed(write: Put | Update | Delete | Check) -> bool:
    """The emulators do not agree with each other on how a transaction with a malformed write fails."""
    if isinstance(write, Update):
        changed = [*write.add, *write.set, *write.remove]
        if not changed or len(set(changed)) < len(changed):
            return False
    return all(low <= write.when.at_most.get(name, low) for name, low in write.when.at_least.items())


transactions = st.builds(
    Transact,
    st.lists(
        (puts | updates | deletes | checks).filter(is_well_formed), min_size=1, max_size=3, unique_by=place_of
    ).map(tuple),
)


def outcome(store: SyncStore, operation: Operation[Any]) -> Any:
    """The answer, or all that an error says; of a query, all of its pages."""
    try:
        if isinstance(operation, Query):
            return list(pages(store, operation))
        return store.perform(operation)
    except ConditionFailed as error:
        return "condition", error.item
    except TransactionCancelled as error:
        # AWS names the write that adds to a string, DynamoDB Local refuses the whole request.
        malformed = any(reason.code == "ValidationError" for reason in error.reasons)
        return "not applied" if malformed else ("cancelled", error.reasons)
    except NotApplied:
        return "not applied"


def pages(store: SyncStore, query: Query) -> Iterator[tuple[Any, ...]]:
    place = f"{query.index}SK" if query.index else "SK"
    start = None
    while True:
        page: Page = store.perform(
            Query(query.pk, query.index, query.begins_with, query.after, query.limit, query.descending, start)
        )
        # Where index keys are equal DynamoDB promises no order, nor which of them come first.
        yield from ((item[place], item if query.index is None else None) for item in page.items)
        start = page.next
        if start is None:
            return


@pytest.fixture
def dynamodb(target: Target, table_name: str) -> Iterator[SyncDynamoDBStore]:
    store = SyncDynamoDBStore(table_name, region="us-east-1", endpoint_url=target.endpoint_url, read_timeout=30)
    store.perform(CreateTable())
    while store.perform(DescribeTable()) != "ACTIVE":
        time.sleep(0.05)
    yield store
    store.close()


def inside(example: int, operation: Any) -> Any:
    """The operation in a partition of its own, so that examples share a table."""
    match operation:
        case Key(pk, sk):
            return Key(f"{example}/{pk}", sk)
        case Transact(writes) | BatchWrite(writes):
            return type(operation)(tuple(inside(example, write) for write in writes))
        case BatchGet(among):
            return BatchGet(tuple(inside(example, key) for key in among))
        case Query():
            rest = (operation.begins_with, operation.after, operation.limit, operation.descending)
            return Query(f"{example}/{operation.pk}", operation.index, *rest)
        case Put(item, when):
            partitions = {name: f"{example}/{value}" for name, value in item.items() if name.endswith("PK")}
            return Put(item | partitions, when)
        case Update(key):
            return Update(inside(example, key), operation.add, operation.set, operation.remove, operation.when)
        case Delete(key, when) | Check(key, when):
            return type(operation)(inside(example, key), when)
        case Get(key):
            return Get(inside(example, key))


def agree_on(dynamodb: SyncStore, steps: st.SearchStrategy[list[Operation[Any]]], examples: int) -> None:
    numbered = count()

    @settings(max_examples=examples, deadline=None, database=None)
    @given(steps)
    def check(operations: list[Operation[Any]]) -> None:
        memory, example = SyncMemoryStore(), next(numbered)
        for operation in operations:
            asked = inside(example, operation)
            assert outcome(memory, asked) == outcome(dynamodb, asked), asked
        everything = BatchGet(tuple(inside(example, Key(pk, sk)) for pk in ("i", "j#1") for sk in SORT_KEYS))
        assert memory.perform(everything) == dynamodb.perform(everything)

    check()


def test_the_stores_agree_on_single_operations(dynamodb: SyncDynamoDBStore) -> None:
    agree_on(dynamodb, st.lists(single | batches, min_size=1, max_size=12), 40)


def test_the_stores_agree_on_transactions(dynamodb: SyncDynamoDBStore) -> None:
    agree_on(dynamodb, st.lists(puts | transactions | transactions, min_size=1, max_size=8), 40)


def test_the_stores_agree_on_tokens(dynamodb: SyncDynamoDBStore, table_name: str) -> None:
    key, token = Key("p", "s"), table_name
    once, other = (Transact((Update(key, add={"n": n}),), token) for n in (1, 2))
    for store in (SyncMemoryStore(), dynamodb):
        assert [outcome(store, step) for step in (once, once, other)] == [None, None, "not applied"]
        assert store.perform(Get(key)) == {"PK": "p", "SK": "s", "n": 1}


@pytest.mark.parametrize("limit", [1, 2, 9])
def test_the_stores_agree_on_the_pages_of_a_scan(dynamodb: SyncDynamoDBStore, limit: int) -> None:
    stores: tuple[SyncStore, SyncStore] = (SyncMemoryStore(), dynamodb)
    written = [item_of(Key(pk, sk), {"n": 1}, {}) for pk in ("i", "j#1") for sk in ("a", "b")]
    for store in stores:
        for item in written:
            store.perform(Put(item))
        found: list[Item] = []
        start: Mapping[str, str] | None = None
        while (page := store.perform(Scan(limit, start))).next is not None:
            assert len(page.items) == limit
            found, start = [*found, *page.items], page.next
        assert sorted(found + page.items, key=lambda item: (item["PK"], item["SK"])) == written


def test_the_stores_agree_that_expiry_may_be_switched_on_twice(dynamodb: SyncDynamoDBStore) -> None:
    assert [dynamodb.perform(EnableTtl()), dynamodb.perform(EnableTtl())] == [None, None]


def test_the_stores_agree_that_a_table_is_made_once(dynamodb: SyncDynamoDBStore) -> None:
    outcomes = []
    for store in (SyncMemoryStore(), dynamodb):
        with pytest.raises(StoreError) as caught:
            store.perform(CreateTable())
        outcomes.append(type(caught.value))
    assert outcomes[0] is outcomes[1]


LARGE, SMALL, NONE = Key("p", "large"), Key("p", "small"), Key("p", "none")
PLACES = {"GSI1PK": "c", "GSI1SK": "d", "GSI4PK": "ns", "GSI4SK": "x"}


@pytest.mark.needs("capacity")
@pytest.mark.parametrize(
    "operation",
    [
        Put(item_of(NONE, {"n": 1}, PLACES)),
        Put(item_of(LARGE, {"n": 1}, {})),
        Update(LARGE, add={"n": 1}),
        Update(SMALL, add={"n": 1}),
        Update(SMALL, set={"GSI4SK": "y"}),
        Update(SMALL, add={"n": 1}, when=Conditions(equals={"n": 7})),
        Update(LARGE, add={"n": 1}, when=Conditions(equals={"n": 7})),
        Delete(LARGE),
        Delete(NONE),
        Get(LARGE),
        Get(NONE),
        BatchGet(
            (LARGE, SMALL)
        ),  # what is not there costs a unit on AWS, as dynoxide and we say; not on DynamoDB Local
        BatchWrite((Put(item_of(LARGE, {}, {})), Delete(SMALL))),
        Query("p"),
        Query("ns", "GSI4"),
        Scan(10),
    ],
    ids=str,
)
def test_the_stores_agree_on_the_cost(target: Target, table_name: str, operation: Operation[Any]) -> None:
    meters = Meter(), Meter()
    store = SyncDynamoDBStore(table_name, region="us-east-1", endpoint_url=target.endpoint_url, meter=meters[1])
    store.perform(CreateTable())
    for each in (store, memory := SyncMemoryStore(MemoryTable(meters[0]))):
        each.perform(Put(item_of(LARGE, {"n": 1, "text": "x" * 5_000}, PLACES)))
        each.perform(Put(item_of(SMALL, {"n": 1}, PLACES)))
    for meter in meters:
        meter.reset()
    assert outcome(memory, operation) == outcome(store, operation)
    store.close()
    assert meters[0] == meters[1]
