"""What a batch of stream records costs the aggregator: writes, units, CPU; and what its handler's import costs.

Lives here: batches over 1, 10 and 100 buckets, on a table in memory; beside them boto3's TypeDeserializer, which reads
the same images into values and does nothing else. Never: a network.
"""

from collections.abc import Sequence
from functools import partial
from statistics import median

from boto3.dynamodb.types import TypeDeserializer

from zae_limiter import Options, SyncRepository
from zae_limiter.clock.system import SystemClock
from zae_limiter.engines.dynamodb.marshal import write_item
from zae_limiter.engines.memory.store import SyncMemoryStore
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.engines.meter import Meter
from zae_limiter.maintenance import Upkeep
from zae_limiter.schema.items import BucketId
from zae_limiter.sync.driver import SyncDriver
from zae_limiter_aggregator.aggregation import Aggregator
from zae_limiter_aggregator.archive import open_archive
from zae_limiter_aggregator.records import Record
from zae_limiter_aggregator.settings import Settings

from .import_time import THEIRS, bytecode_apart, cpu_ms
from .measure import Taken, cpu_seconds, pin_client
from .report import Row, ratio

SIZES = ((100, 10), (1_000, 1), (1_000, 100))
MOST_CPU = {(1_000, 1): 32.0}  # ms
WRITE = "UpdateItem"
WINDOWS = 2  # the hour and the day
ROUNDS = 5
ARN = "arn:aws:dynamodb:us-east-1:123456789012:table/demo/stream/2024-01-01T00:00:00.000"
START_S = 1_704_117_000
HANDLER = "import zae_limiter_aggregator.handler"


def measure() -> list[Row]:
    pin_client()
    rows = [row for records, buckets in SIZES for row in _batch(records, buckets)]
    return [*rows, *_import()]


def _batch(size: int, buckets: int) -> list[Row]:
    """A batch behind another one of the same buckets, and the same batch again."""
    meter = Meter()
    store = SyncMemoryStore(MemoryTable(meter))
    driver, namespace_id = SyncDriver(store), SyncRepository.over(store, Options()).namespace_id
    aggregator = Aggregator(Upkeep(driver.run, SystemClock()), Settings(stack="demo"), open_archive=open_archive)
    batches = [[_record(namespace_id, size * batch + n, buckets) for n in range(size)] for batch in range(ROUNDS + 1)]
    aggregator.process(batches[0])
    meter.reset()
    pairs = [
        (cpu_seconds(partial(aggregator.process, batch)), cpu_seconds(partial(_deserialize, batch)))
        for batch in batches[1:]
    ]
    ours, theirs = (Taken(median(column), min(column)) for column in zip(*pairs, strict=True))
    first = meter.snapshot()
    aggregator.process(batches[-1])
    what = f"{size:,} records of {buckets} bucket{'s' if buckets > 1 else ''}"
    return [
        Row(f"{what}: writes", first.requests[WRITE] / ROUNDS, at_most=WINDOWS * buckets),
        Row(f"{what}: reads", (sum(first.requests.values()) - first.requests[WRITE]) / ROUNDS, at_most=1),
        Row(f"{what}: units", (first.write_units + first.index_units + first.read_units) / ROUNDS),
        Row(
            f"{what}: writes of a repeat, all refused",
            meter.requests[WRITE] - first.requests[WRITE],
        ),
        _milliseconds(f"{what}: CPU", ours, at_most=MOST_CPU.get((size, buckets))),
        _milliseconds(f"{what}: CPU of TypeDeserializer", theirs),
        ratio(f"{what}: CPU / that of TypeDeserializer", ours, theirs, at_most=1 if buckets == 1 else None),
    ]


def _milliseconds(what: str, taken: Taken, *, at_most: float | None = None) -> Row:
    return Row(what, 1000 * taken.median, "ms", at_most=at_most, least=1000 * taken.least)


def _deserialize(batch: Sequence[Record]) -> None:
    read = TypeDeserializer().deserialize
    for record in batch:
        for image in ("OldImage", "NewImage"):
            for value in record["dynamodb"][image].values():
                read(value)


def _import() -> list[Row]:
    with bytecode_apart() as environment:
        for statement in (HANDLER, THEIRS):
            cpu_ms(statement, environment)
        taken = [[cpu_ms(statement, environment) for statement in (HANDLER, THEIRS)] for _ in range(ROUNDS)]
    ours, theirs = (median(column) for column in zip(*taken, strict=True))
    return [Row("import of the handler, beyond that of boto3", ours - theirs, "ms", at_most=100)]


def _record(namespace_id: str, number: int, buckets: int) -> Record:
    """The change that an acquire of two limits makes."""
    key, turn = number % buckets, number // buckets
    bucket = BucketId(namespace_id, f"customer-{key:027}", "gpt-4")
    images = {"OldImage": _image(bucket, turn), "NewImage": _image(bucket, turn + 1)}
    return {
        "eventName": "MODIFY",
        "eventSourceARN": ARN,
        "dynamodb": {
            "ApproximateCreationDateTime": START_S + number // 100,
            "Keys": {name: images["NewImage"][name] for name in ("PK", "SK")},
            "SequenceNumber": str(10**30 + number),
            **images,
        },
    }


def _image(bucket: BucketId, acquires: int) -> Record:
    limits = {
        "b_rpm_tk": -1000 * acquires,
        "b_rpm_tc": 1000 * acquires,
        "b_rpm_cp": 60_000,
        "b_rpm_ra": 60_000,
        "b_rpm_rp": 60_000,
        "b_tpm_tk": -500_000 * acquires,
        "b_tpm_tc": 500_000 * acquires,
        "b_tpm_cp": 90_000_000,
        "b_tpm_ra": 90_000_000,
        "b_tpm_rp": 60_000,
    }
    counts = {"b_wcu_tc": 1000 * acquires, "ev": acquires, "shard_count": 1}
    return write_item({**bucket.attributes(), **limits, **counts, "rf": 1000 * START_S, "cv": 1000 * START_S})
