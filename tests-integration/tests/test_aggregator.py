"""What lives here: the aggregator's real handler on real streams: what it counts is what was consumed.
What never does: how a batch is read (the aggregator's own tests).
"""

import asyncio
import random
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

import pytest

from support.aggregator.streams import record
from support.integration.consumers import ENTITIES, RESOURCES, Ledger, consume, prepare
from support.integration.harness import Harness
from support.integration.load import Job, Load
from support.integration.stream_reader import Record, records_of
from support.integration.targets import Target
from zae_limiter import Limit, Options, SyncRepository
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.operations.values import Get, Key
from zae_limiter.schema.items import ONE_WRITE, WRITES, BucketId
from zae_limiter.values.usage import UsageSnapshot, Window, window_start
from zae_limiter_aggregator.handler import on_event

pytestmark = [pytest.mark.needs("endpoint", "atomic"), pytest.mark.apart]

WINDOWS: tuple[Window, Window] = ("hourly", "daily")
COUNTERS = {"rpm": ("b_rpm_tc", 1000), "tpm": ("b_tpm_tc", 1000), "events": ("ev", 1)}

WindowLedger = Counter[tuple[str, str, datetime, str]]  # by entity, resource, window start and limit, or "events"


@pytest.fixture
def stack(target: Target, table_name: str, monkeypatch: pytest.MonkeyPatch) -> str:
    """The environment in which the handler finds the table; the name of the table."""
    assert target.endpoint_url is not None
    monkeypatch.setenv("ZAEL_STACK", table_name)
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", target.endpoint_url)
    return table_name


@pytest.fixture(scope="module")
def load() -> Iterator[Load]:
    load = Load()
    yield load
    load.close()


def snapshots(target: Target, table_name: str, window: Window) -> list[UsageSnapshot]:
    store = SyncDynamoDBStore(table_name, region="us-east-1", endpoint_url=target.endpoint_url, read_timeout=30)
    with SyncRepository.over(store, Options(read_timeout=30)) as repository:
        found: list[UsageSnapshot] = []
        for entity in ENTITIES:
            found += repository.get_usage_snapshots(entity_id=entity, window=window, limit=1000).snapshots
        return found


def counted(snapshots: Sequence[UsageSnapshot]) -> Ledger:
    ledger: Ledger = Counter()
    for each in snapshots:
        ledger[each.entity_id, each.resource, "events"] += each.total_events
        for limit, amount in each.consumed.items():
            ledger[each.entity_id, each.resource, limit] += amount
    return ledger


def by_window(records: Sequence[Record], window: Window) -> WindowLedger:
    """What the stream says was consumed of each limit, window by window, summed as plainly as can be."""
    ledger: WindowLedger = Counter()
    for each in records:
        change = each["dynamodb"]
        if change["Keys"]["SK"]["S"] == "#STATE" and "NewImage" in change:
            new, old = change["NewImage"], change.get("OldImage", {})
            start = window_start(window, int(change["ApproximateCreationDateTime"]) * 1000)
            for name, (attribute, unit) in COUNTERS.items():
                amount = int(new[attribute]["N"]) - int(old.get(attribute, {"N": "0"})["N"])
                ledger[new["entity_id"]["S"], new["resource"]["S"], start, name] += amount // unit
    return ledger


def in_windows(snapshots: Sequence[UsageSnapshot]) -> WindowLedger:
    """What the snapshots say, window by window."""
    ledger: WindowLedger = Counter()
    for each in snapshots:
        for name, amount in {**each.consumed, "events": each.total_events}.items():
            ledger[each.entity_id, each.resource, each.window_start, name] += amount
    return ledger


def without_zeros(ledger: WindowLedger) -> WindowLedger:
    """The ledger without zeros; negative amounts stay."""
    return Counter({place: amount for place, amount in ledger.items() if amount})


def deliver(records: Sequence[Record], *, most: int, seed: int) -> None:
    """Batches cut by chance; every one comes twice, and overlaps the one before.

    Where the handler says that a record failed, as by a table that is slow, the stream comes again from there.
    """
    chance, position = random.Random(seed), 0
    numbers = {each["dynamodb"]["SequenceNumber"]: index for index, each in enumerate(records)}
    while position < len(records):
        end = position + chance.randint(1, most)
        begin = max(0, position - chance.randint(1, most // 4))
        for _ in range(2):
            failures = on_event({"Records": list(records[begin:end])}, None)["batchItemFailures"]
        position = min([end, *(numbers[failure["itemIdentifier"]] for failure in failures)])


@pytest.mark.long(keep=1)
async def test_usage_equals_what_three_processes_consumed(target: Target, stack: str) -> None:
    assert target.endpoint_url is not None
    await prepare(target.endpoint_url, stack)
    consumed = consume(target.endpoint_url, stack, acquires=target.quirks.acquires, callers=100)
    records = records_of(target.endpoint_url, stack)
    deliver(records, most=1000, seed=1)
    for window in WINDOWS:
        found = snapshots(target, stack, window)
        assert +counted(found) == +consumed
        assert without_zeros(in_windows(found)) == without_zeros(by_window(records, window))
    assert len({(entity, resource) for entity, resource, _ in consumed}) == len(ENTITIES) * len(RESOURCES)


@pytest.mark.long(keep=1)
async def test_a_second_delivery_of_the_whole_stream_changes_nothing(target: Target, stack: str) -> None:
    assert target.endpoint_url is not None
    await prepare(target.endpoint_url, stack)
    consumed = consume(target.endpoint_url, stack, acquires=120, callers=10)
    for seed in range(2):  # the second time, with what the first has written itself
        deliver(records_of(target.endpoint_url, stack), most=400, seed=seed)
        assert +counted(snapshots(target, stack, "daily")) == +consumed


STANDING = Limit.custom("tpm", 2000, refill_amount=1, refill_period=10 * 365 * 24 * 3600)


def heat(harness: Harness, shard: int) -> None:
    """Have the handler see a shard, as soon as it is there, as if it had just been written 900 times."""
    key = Key(BucketId(harness.namespace_id, "key", "gpt-4", shard).pk, "#STATE")
    for _ in range(600):
        item = harness.perform(Get(key))
        if item is not None:
            break
        time.sleep(0.05)
    hot = record(1, item, {**item, WRITES: item[WRITES] + 900 * ONE_WRITE}, at_ms=time.time_ns() // 1_000_000)
    assert on_event({"Records": [hot]}, None) == {"batchItemFailures": []}


@pytest.mark.parametrize("variant", ["async"], indirect=True)
async def test_shards_that_it_splits_give_no_more_and_no_less_while_processes_take_from_them(
    harness: Harness, stack: str, load: Load, target: Target
) -> None:
    limiter = await harness.open()
    await limiter.set_resource_defaults("gpt-4", [STANDING])
    job = Job(target.endpoint_url or "", harness.table_name, "key", "gpt-4", "tpm", "async", most=3)
    taking = asyncio.get_running_loop().run_in_executor(None, load.take, job)
    for shard in (0, 0, 1):
        await asyncio.to_thread(heat, harness, shard)
    taken = await taking
    bucket = await limiter.repository.get_bucket("key", "gpt-4")
    assert bucket is not None
    assert bucket.shard_count in {4, 8}  # 8 where shard 1 was one of 4 already when it was first seen
    assert 1990 <= taken.admitted <= 2000
    deliver(records_of(target.endpoint_url or "", stack), most=300, seed=3)
    (usage,) = (await limiter.repository.get_usage_snapshots(entity_id="key", window="daily")).snapshots
    assert (usage.consumed, usage.total_refused) == ({"tpm": taken.admitted}, taken.refused)


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("variant", ["async", "sync"], indirect=True)
async def test_usage_has_all_refusals_that_three_processes_got(
    harness: Harness, stack: str, load: Load, target: Target
) -> None:
    limiter = await harness.open()
    await limiter.set_resource_defaults("gpt-4", [Limit.custom("tpm", 20, refill_amount=20, refill_period=1)])
    job = Job(target.endpoint_url or "", harness.table_name, "key", "gpt-4", "tpm", harness.variant, most=3, seconds=2)
    taking = asyncio.get_running_loop().run_in_executor(None, load.take, job)
    await asyncio.sleep(1)
    await limiter.set_resource_defaults("gpt-4", [Limit.custom("tpm", 25, refill_amount=15, refill_period=1)])
    taken = await taking
    for seed in range(2):
        deliver(records_of(target.endpoint_url or "", stack), most=300, seed=seed)
        (usage,) = (await limiter.repository.get_usage_snapshots(entity_id="key", window="daily")).snapshots
        assert (usage.consumed, usage.total_refused) == ({"tpm": taken.admitted}, taken.refused)
    [first] = await limiter.repository.get_top_usage("gpt-4", window="daily")
    assert (first.entity_id, first.total_refused) == ("key", taken.refused)
    assert taken.refused > 20
