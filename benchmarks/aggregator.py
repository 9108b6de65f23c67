"""What a batch of stream records costs the aggregator: writes, units, CPU; and what its handler's import costs.

Lives here: batches over 1, 10 and 100 buckets, on a table in memory. Never: a network.
"""

from functools import partial
from statistics import median

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
from .measure import cpu_seconds, pin_client
from .report import Row

SIZES = ((100, 1), (100, 10), (100, 100), (1_000, 1), (1_000, 10), (1_000, 100))
WRITE = "UpdateItem"
WINDOWS = 2  # the hour and the day
ROUNDS = 7
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
    driver = SyncDriver(SyncMemoryStore(MemoryTable(meter)))
    aggregator = Aggregator(Upkeep(driver.run, SystemClock()), Settings(stack="demo"), open_archive=open_archive)
    batches = [[_record(size * batch + n, buckets) for n in range(size)] for batch in range(ROUNDS + 1)]
    aggregator.process(batches[0])
    meter.reset()
    taken = [cpu_seconds(partial(aggregator.process, batch)) for batch in batches[1:]]
    first = meter.snapshot()
    aggregator.process(batches[-1])
    what = f"{size:,} records of {buckets} bucket{'s' if buckets > 1 else ''}"
    return [
        Row(f"{what}: writes", first.requests[WRITE] / ROUNDS, at_most=WINDOWS * buckets),
        Row(f"{what}: reads", (sum(first.requests.values()) - first.requests[WRITE]) / ROUNDS, at_most=1),
        Row(f"{what}: units", (first.write_units + first.index_units + first.read_units) / ROUNDS),
        Row(
            f"{what}, which came before: writes, all refused",
            meter.requests[WRITE] - first.requests[WRITE],
        ),
        Row(f"{what}: CPU", 1000 * median(taken), "ms"),
    ]


def _import() -> list[Row]:
    with bytecode_apart() as environment:
        for statement in (HANDLER, THEIRS):
            cpu_ms(statement, environment)
        taken = [[cpu_ms(statement, environment) for statement in (HANDLER, THEIRS)] for _ in range(ROUNDS)]
    ours, theirs = (median(column) for column in zip(*taken, strict=True))
    return [Row("import of the handler, beyond that of boto3", ours - theirs, "ms", at_most=100)]


def _record(number: int, buckets: int) -> Record:
    """The change that an acquire of two limits makes."""
    key, turn = number % buckets, number // buckets
    images = {"OldImage": _image(key, turn), "NewImage": _image(key, turn + 1)}
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


def _image(key: int, acquires: int) -> Record:
    place = BucketId("namespace-1", f"customer-{key:027}", "gpt-4")
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
    return write_item({**place.attributes(), **limits, **counts, "rf": 1000 * START_S, "cv": 1000 * START_S})
