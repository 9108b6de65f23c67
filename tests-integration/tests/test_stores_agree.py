"""What lives here: the proof that the store in memory answers as DynamoDB does, to any sequence of operations.
What never does: what the operations are for.
"""

import time
from collections.abc import Iterator, Mapping
from itertools import count
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.core.operations import SORT_KEYS, batches, item_of, outcome, puts, single, transactions
from support.integration.targets import Target
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.engines.engine import SyncStore
from zae_limiter.engines.memory.store import SyncMemoryStore
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.engines.meter import Meter
from zae_limiter.operations.errors import StoreError
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
    Put,
    Query,
    Scan,
    Transact,
    Update,
)

pytestmark = [pytest.mark.needs("endpoint"), pytest.mark.differs]


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

    # A busy machine may take half a minute to draw the first example
    @settings(max_examples=examples, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])
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
