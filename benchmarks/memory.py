"""What a process remembers of each bucket, and that it forgets; what a table in memory keeps of ids that do not return.

Lives here: bytes as tracemalloc counts them, with 1,000 to 50,000 buckets; a count of items.
"""

import gc
import time
import tracemalloc

from zae_limiter import Limit, Options, SyncRateLimiter, SyncRepository
from zae_limiter.engines.memory.store import SyncMemoryStore
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.operations.values import Scan

from .report import Row

# The checked names are remembered as well, 16,384 of them: from 20,000 buckets on nothing may grow, but for the tables
# of dicts, which double once where entries come and go.
BUCKETS = (1_000, 10_000, 20_000, 50_000)


def measure() -> list[Row]:
    table = MemoryTable()
    limiter = SyncRateLimiter(SyncRepository.over(SyncMemoryStore(table), Options()))
    limiter.set_resource_defaults("gpt-4", [Limit.per_minute("rpm", 100), Limit.per_minute("tpm", 100_000)])
    tracemalloc.start()
    _visit(limiter, table, -1)
    empty = _bytes()
    grown: list[int] = []
    for first, end in zip((0, *BUCKETS), BUCKETS, strict=False):
        for number in range(first, end):
            _visit(limiter, table, number)
        grown.append(_bytes() - empty)
    return [
        *(Row(f"{count:,} buckets used", size / 1e6, "MB") for count, size in zip(BUCKETS, grown, strict=True)),
        Row("a known bucket", grown[1] / BUCKETS[1], "B"),
        Row("50,000 buckets / 20,000, of which 10,000 are remembered", grown[3] / grown[2], at_most=1.1),
        Row("items in memory / those that have not expired, at most", _kept(), at_most=1.34),
    ]


class _SetClock:
    """A clock that moves without telling anybody."""

    at_ms = 1_700_000_000_000

    def now_ms(self) -> int:
        return self.at_ms


def _kept() -> float:
    """What a table holds of 20,000 ids, one each 10 ms, of a limit that fills within a second."""
    table, clock, most = MemoryTable(), _SetClock(), 0
    table.expire_by(clock.now_ms)
    limits = [Limit.per_second("rps", 10)]
    limiter = SyncRateLimiter(SyncRepository.over(SyncMemoryStore(table), Options(clock=clock)), default_limits=limits)
    for number in range(20_000):
        clock.at_ms += 10
        with limiter.acquire(f"id-{number}", "gpt-4", {"rps": 1}):
            pass
        if number % 500 == 0:
            most = max(most, len(table.execute(Scan(10**9)).items))
    alive = 6_170  # 100 a second, each for a minute and seven tenths of a second, rounded up
    return most / alive


def _visit(limiter: SyncRateLimiter, table: MemoryTable, number: int) -> None:
    for _ in range(2):
        with limiter.acquire(f"user-{number:06}", "gpt-4", {"rpm": 1, "tpm": 500}):
            pass
    table.expire(int(time.time()) + 10**9)  # the table is not what is measured


def _bytes() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
