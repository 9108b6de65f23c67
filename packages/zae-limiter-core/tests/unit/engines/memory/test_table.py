import pytest

from zae_limiter.engines.memory.store import SyncMemoryStore
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.engines.meter import Meter
from zae_limiter.operations.errors import ConditionFailed, Invalid, Reason, TableExists, TransactionCancelled
from zae_limiter.operations.values import (
    BatchGet,
    Check,
    Conditions,
    CreateTable,
    Get,
    Put,
    Query,
    Scan,
    Transact,
    Update,
)
from zae_limiter.testing.conformance import EXISTS, IS_NEW, KEY, OTHER, StoreConformance, item


class TestMemory(StoreConformance):
    @pytest.fixture
    def store(self) -> SyncMemoryStore:
        return SyncMemoryStore()


def test_its_table_cannot_be_created() -> None:
    with pytest.raises(TableExists):
        MemoryTable().execute(CreateTable())


def test_expire_removes_what_is_past_its_time() -> None:
    store = MemoryTable()
    store.execute(Put(item(ttl=100)))
    store.execute(Put(item(OTHER, ttl="100")))
    assert [store.expire(100), store.expire(101), store.expire(102)] == [0, 1, 0]
    assert (store.execute(Get(KEY)), store.execute(Get(OTHER))) == (None, item(OTHER, ttl="100"))


def test_a_meter_counts_requests_and_units() -> None:
    meter = Meter()
    store = MemoryTable(meter)
    store.execute(Put(item(n=1, GSI4PK="ns", GSI4SK="ns/A", text="x" * 1024)))
    store.execute(Update(KEY, add={"n": 1}))
    with pytest.raises(ConditionFailed):
        store.execute(Update(KEY, add={"n": 1}, when=IS_NEW))
    assert (meter.write_units, meter.index_units, meter.read_units) == (6, 1, 0)
    store.execute(Get(KEY))
    store.execute(BatchGet((KEY, OTHER)))
    store.execute(Query("ns", "GSI4"))
    assert meter.read_units == 3.5
    store.execute(Scan(9))
    assert meter.read_units == 4.5
    before = meter.snapshot()
    meter.reset()
    store.execute(Transact((Put(item(OTHER)), Check(KEY, EXISTS))))
    assert (meter.write_units, meter.index_units) == (6, 0)
    with pytest.raises(TransactionCancelled):
        store.execute(Transact((Put(item(OTHER)), Check(KEY, IS_NEW))))
    assert meter.write_units == 12
    assert meter.requests == {"TransactWriteItems": 2}
    assert before.requests == {"PutItem": 1, "UpdateItem": 2, "GetItem": 1, "BatchGetItem": 1, "Query": 1, "Scan": 1}


@pytest.mark.parametrize(
    "malformed",
    [
        Transact((Update(KEY, add={"n": 1}), Update(OTHER, add={"n": 1}, remove=("n",)))),
        Transact((Check(KEY, Conditions(at_least={"n": 2}, at_most={"n": 1})),)),
    ],
)
def test_a_transaction_with_a_malformed_write_is_refused_as_a_whole(malformed: Transact) -> None:
    with pytest.raises(Invalid):
        MemoryTable().execute(malformed)


def test_a_transaction_says_which_write_its_item_makes_impossible() -> None:
    store = MemoryTable()
    store.execute(Put(item(text="x")))
    with pytest.raises(TransactionCancelled) as caught:
        store.execute(Transact((Put(item(OTHER)), Update(KEY, add={"text": 1}))))
    assert caught.value.reasons == (Reason(None), Reason("ValidationError"))


def test_a_transaction_that_failed_may_be_repeated_with_its_token() -> None:
    store = MemoryTable()
    attempt = Transact((Update(KEY, add={"n": 1}, when=EXISTS),), request_token="t")
    with pytest.raises(TransactionCancelled):
        store.execute(attempt)
    store.execute(Put(item(n=0)))
    store.execute(attempt)
    assert store.execute(Get(KEY)) == item(n=1)
