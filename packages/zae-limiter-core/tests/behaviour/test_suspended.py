"""A machine that was suspended knows at once that it was: no clock of what a process holds stands still with it.

Suspending is played by the system call that the elapsed time comes from; ``time.monotonic`` goes on as it would.
"""

import subprocess
import sys

import pytest

MACHINE = """
import asyncio, time

read, slept = time.clock_gettime_ns, 0
time.clock_gettime_ns = lambda clock: read(clock) + slept  # before anything takes it
time.clock_gettime = lambda clock: time.clock_gettime_ns(clock) / 10**9

def suspend(seconds):
    global slept
    slept += round(seconds * 10**9)

from zae_limiter import *
from zae_limiter.operations.errors import Unreachable
from zae_limiter.stores import Capabilities, SyncMemoryStore

class Guarded(SyncMemoryStore):
    away, requests = False, 0
    @property
    def capabilities(self):
        return Capabilities(deadlines="driver")
    def perform(self, operation):
        self.requests += 1
        if self.away:
            raise Unreachable("connection refused")
        return super().perform(operation)

def opened(*limits, **options):
    store = Guarded()
    return store, SyncRateLimiter(SyncRepository.over(store, Options(**options)), default_limits=list(limits))
"""

CASES = {
    "slots are lost": """
store, limiter = opened(Limit.concurrent("calls", 1, expires=60))
with limiter.acquire("e", "r", {"calls": 1}) as lease:
    assert not lease.lost_slots
    suspend(300)
    assert lease.lost_slots == ("calls",)
""",
    "slots are renewed when they are due, not later by the time of the suspension": """
store, limiter = opened(Limit.concurrent("calls", 1, expires=4))
with limiter.acquire("e", "r", {"calls": 1}) as lease:
    suspend(5.5)  # a renewal is due after at most six seconds, and too late after eight
    deadline, before = time.monotonic() + 2, store.requests
    while store.requests == before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert store.requests > before
    suspend(3)
    assert not lease.lost_slots
""",
    "a bucket has refilled": """
store, limiter = opened(Limit.per_minute("rpm", 10))
with limiter.acquire("e", "r", {"rpm": 10}):
    pass
suspend(60)
with limiter.acquire("e", "r", {"rpm": 10}):
    pass
""",
    "a refusal is not told from a copy": """
store, limiter = opened(Limit.per_day("rpd", 1))
with limiter.acquire("e", "r", {"rpd": 1}):
    pass
def refused():
    before = store.requests
    try:
        with limiter.acquire("e", "r", {"rpd": 1}):
            raise SystemExit("admitted")
    except RateLimitExceeded:
        return store.requests - before
refused()
assert refused() == 0
suspend(5)
assert refused() > 0
""",
    "limits are read again": """
store, limiter = opened(Limit.per_hour("rph", 10**6))
with limiter.acquire("e", "r", {"rph": 1}):
    pass
def requests():
    before = store.requests
    with limiter.acquire("e", "r", {"rph": 1}):
        return store.requests - before
once = requests()
suspend(61)
assert requests() > once
""",
    "a share of an outage ends": """
store, limiter = opened(Limit.per_hour("rph", 600), on_unavailable="share")
for _ in range(20):
    with limiter.acquire("e", "r", {"rph": 10}):
        pass
    suspend(10)
store.away = True
with limiter.acquire("e", "r", {"rph": 1}) as lease:
    assert lease.degraded
suspend(120)
try:
    with limiter.acquire("e", "r", {"rph": 1}):
        raise SystemExit("the share outlived its windows")
except RateLimiterUnavailable:
    pass
""",
    "the breaker asks before it tells an old silence": """
store, limiter = opened(Limit.per_minute("rpm", 10), on_unavailable="allow")
with limiter.acquire("e", "r", {"rpm": 1}):
    pass
store.away = True
for _ in range(3):
    with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        assert lease.degraded
store.away = False
suspend(60)
with limiter.acquire("e", "r", {"rpm": 1}) as lease:
    assert not lease.degraded
""",
    "a renewal is due on an event loop, too": """
async def main():
    repository = Repository.in_memory()
    limiter = RateLimiter(repository, default_limits=[Limit.concurrent("calls", 1, expires=4)])
    async with limiter.acquire("e", "r", {"calls": 1}) as lease:
        suspend(5.5)
        await asyncio.sleep(2)
        suspend(3)
        assert not lease.lost_slots
asyncio.run(main())
""",
}


@pytest.mark.long(keep=2)
@pytest.mark.parametrize("case", CASES)
def test_behind_a_suspension(case: str) -> None:
    script = MACHINE + CASES[case]
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
