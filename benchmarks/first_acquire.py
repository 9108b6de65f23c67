"""The first acquire of an entity in memory, beside 1,000 to 1,000,000 others, and the memory that each of these takes.

Lives here: CPU of one process whose table grows; the calls of functions do not depend on the machine. Never: a network.
"""

import gc
import time
from pathlib import Path
from statistics import median

from zae_limiter import Limit, SyncRateLimiter, SyncRepository

from .measure import pin_client
from .report import Row

ENTITIES = (1_000, 100_000, 1_000_000)
PART, PARTS = 1_000, 5
PAGE_BYTES = 4096
RESOURCE, COST = "gpt-4", {"rpm": 1}


def measure() -> list[Row]:
    pin_client()
    limiter = SyncRateLimiter(SyncRepository.in_memory())
    limiter.set_resource_defaults(RESOURCE, [Limit.per_minute("rpm", 100)])
    _meet(limiter, 0, 100)
    empty, met, taken = _resident(), 100, dict[int, float]()
    rows = list[Row]()
    for entities in ENTITIES:
        _meet(limiter, met, entities)
        parts = [_meet(limiter, begin, begin + PART) for begin in range(entities, entities + PARTS * PART, PART)]
        met, taken[entities] = entities + PARTS * PART, median(parts) / PART * 1e6
        gc.collect()
        what = f"the first acquire of an entity, beside {entities:,} others"
        rows.append(Row(what, taken[entities], "us", at_most=80))
        if entities > ENTITIES[0]:
            rows.append(Row(f"memory of an entity, of {met:,}", (_resident() - empty) / met, "B"))
    fewest, most = min(ENTITIES), max(ENTITIES)
    return [*rows, Row(f"the same beside {most:,} / beside {fewest:,}", taken[most] / taken[fewest], at_most=1.5)]


def _meet(limiter: SyncRateLimiter, begin: int, end: int) -> float:
    """Seconds of CPU of the first acquires of so many entities."""
    begun = time.process_time()
    for number in range(begin, end):
        with limiter.acquire(f"user-{number:07}", RESOURCE, COST):
            pass
    return time.process_time() - begun


def _resident() -> int:
    """Bytes of this process that are in memory; 0 where the system does not say."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * PAGE_BYTES
    except OSError:
        return 0
