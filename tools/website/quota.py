"""Write the tables of docs/operate/quota.md: what each kind of write costs, counted, and what loads take of the quota.

python -m website.quota   (with tools on PYTHONPATH; `just pictures` calls it)
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from zae_limiter import Options, SyncRateLimiter, SyncRepository
from zae_limiter.maintenance import (
    BucketId,
    Consumption,
    Flow,
    SnapshotId,
    SystemClock,
    Use,
    count_usage,
    run,
    split_shard,
    stream_mark,
)
from zae_limiter.stores import MemoryTable, Meter, SyncMemoryStore
from zae_limiter.values.usage import WINDOW_SECONDS
from zae_limiter_cli.stack.template.functions import USAGE_WINDOW_SECONDS

from . import redis
from .markers import fill

PAGE: Final = Path(__file__).parents[2] / "docs" / "operate" / "quota.md"
QUOTA: Final = 40_000  # write units a second of a table on demand, by default
WINDOWS: Final = len(WINDOW_SECONDS)
HOUR: Final = 3600
TOGETHER: Final = 100  # calls that one write of prefetched tokens serves


@dataclass(frozen=True, slots=True)
class Units:
    """The write units of one thing: those of the table, and those of its indexes, each of which has a quota itself."""

    table: float
    indexes: float


def counted(call: Callable[[SyncRateLimiter], object], before: Callable[[SyncRateLimiter], object]) -> Units:
    """Return what a call writes, after another one."""
    meter = Meter()
    repository = SyncRepository.over(SyncMemoryStore(MemoryTable(meter)), Options())
    with SyncRateLimiter(repository, default_limits=redis.LIMITS) as limiter:
        limiter.create_entity("project")
        limiter.create_entity("key", parent_id="project", cascade=True)
        before(limiter)
        meter.reset()
        call(limiter)
        return Units(meter.write_units, meter.index_units)


def _acquire(limiter: SyncRateLimiter) -> None:
    with limiter.acquire("user", "gpt-4", redis.COST):
        pass


def _count(number: int) -> Callable[[SyncRateLimiter], object]:
    """Return what counts one record of the bucket in its hour, as the aggregator does."""

    def call(limiter: SyncRateLimiter) -> object:
        bucket = BucketId(limiter.repository.namespace_id, "user", "gpt-4")
        snapshot = SnapshotId.of_bucket(bucket, "hourly", 0)
        use = Use(stream_mark("2026-03-02T08:14:31.123", str(number)), Consumption({"rpm": 1, "tpm": 500}, {"ev": 1}))
        flow = count_usage(snapshot, 0, [use], expires_at=1, now_ms=0, spread=True)
        return run(limiter.repository, flow)

    return call


def _split(limiter: SyncRateLimiter) -> object:
    bucket = BucketId(limiter.repository.namespace_id, "user", "gpt-4")
    flow: Flow[int] = split_shard(bucket, stack="demo", now=SystemClock().now_ms, among=1)
    return run(limiter.repository, flow)


def _nothing(limiter: SyncRateLimiter) -> None:
    """Use nothing before."""


def _both(limiter: SyncRateLimiter) -> None:
    _acquire(limiter)
    _count(1)(limiter)


KINDS: Final[dict[str, Units]] = {
    **{name: counted(call, call) for name, call in redis.DECISIONS.items()},
    "first use of a new bucket": counted(_acquire, _nothing),
    "usage of a bucket, first write of an hour or a day": counted(_count(1), _acquire),
    "usage of a bucket, any other write": counted(_count(2), _both),
    "split of a shard": counted(_split, _acquire),
}


def kinds() -> str:
    """Return the table of what each kind of write costs."""
    rows = [[name, f"{each.table:g}", f"{each.indexes:g}"] for name, each in KINDS.items()]
    return _table([["what is written", "units of the table", "of all its indexes"], ["---", "---:", "---:"], *rows])


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """Calls a second on so many buckets; each ``writes`` units, and so many calls ``together`` in one write."""

    calls: float
    buckets: float
    writes: float = 1
    together: float = 1

    @property
    def admissions(self) -> float:
        """Units a second of the calls."""
        return self.calls * self.writes / self.together

    @property
    def usage(self) -> float:
        """Units a second of usage on a busy stream: hour and day of each bucket in use, once in a window."""
        return WINDOWS * min(self.calls / self.together, self.buckets / USAGE_WINDOW_SECONDS)

    @property
    def usage_by_batch(self) -> float:
        """The same if each batch wrote: no bucket that is used once a second or less comes twice in one."""
        return WINDOWS * min(self.calls / self.together, self.buckets)

    @property
    def anchors(self) -> float:
        """Units a second of re-anchoring: each bucket once an hour."""
        return self.buckets / HOUR

    @property
    def total(self) -> float:
        """Units a second of all."""
        return self.admissions + self.usage + self.anchors


ROWS: Final = (
    ("1,000 calls a second, 1,000 buckets", Load(calls=1_000, buckets=1_000)),
    ("10,000 calls a second, 1,000 buckets", Load(calls=10_000, buckets=1_000)),
    ("10,000 calls a second, 10,000 buckets", Load(calls=10_000, buckets=10_000)),
    ("the same, each settles", Load(calls=10_000, buckets=10_000, writes=2)),
    ("10,000 calls a second, 100,000 buckets", Load(calls=10_000, buckets=100_000)),
    ("35,000 calls a second, 35,000 buckets", Load(calls=35_000, buckets=35_000)),
    ("50,000 calls a second, 50,000 buckets", Load(calls=50_000, buckets=50_000)),
    (
        f"50,000 calls a second, 500 buckets, {TOGETHER} calls in one write by prefetch",
        Load(calls=50_000, buckets=500, together=TOGETHER),
    ),
)


def loads() -> str:
    """Return the table of what loads take of the quota."""
    head = ["load", "admissions", "usage", "if each batch wrote", "anchors", "together", "of the quota"]
    rows = [[name, *_cells(load)] for name, load in ROWS]
    return _table([head, ["---", *["---:"] * (len(head) - 1)], *rows])


def _cells(load: Load) -> list[str]:
    figures = (load.admissions, load.usage, load.usage_by_batch, load.anchors, load.total)
    return [*(f"{each:,.0f}" for each in figures), f"{100 * load.total / QUOTA:.0f} %"]


def _table(rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def filled(page: str) -> str:
    """Return the page with its tables as they are today."""
    return fill(fill(page, "kinds", kinds()), "loads", loads())


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
