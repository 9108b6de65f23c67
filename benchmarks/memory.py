"""What a process remembers of each bucket, and that it forgets.

Lives here: bytes as tracemalloc counts them, with 1,000 to 50,000 buckets. Never: what the table holds.
"""

import gc
import time
import tracemalloc

from zae_limiter import Limit, Options, SyncRateLimiter, SyncRepository
from zae_limiter.memory.table import MemoryTable
from zae_limiter.sync.store import SyncMemoryStore

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
    ]


def _visit(limiter: SyncRateLimiter, table: MemoryTable, number: int) -> None:
    for _ in range(2):
        with limiter.acquire(f"user-{number:06}", "gpt-4", {"rpm": 1, "tpm": 500}):
            pass
    table.expire(int(time.time()) + 10**9)  # the table is not what is measured


def _bytes() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]
