"""What an acquire costs, as counts that do not depend on the machine: calls of functions, requests, modules.

A figure above its ceiling is a path that has grown: lower the ceiling whenever you can, and argue in the commit to
raise it. The ceilings are the exact figures on Python 3.11; other versions may make some calls more.
"""

import asyncio
import itertools
import subprocess
import sys
import threading
from contextlib import suppress
from typing import Any

import pytest

from support.core.calls import CountedCalls
from zae_limiter import Limit, Options, RateLimiter, RateLimitExceeded, Repository
from zae_limiter.engines.memory.store import MemoryStore
from zae_limiter.engines.memory.table import MemoryTable
from zae_limiter.testing import ManualClock

CEILINGS = {  # calls, requests: builtins count as calls
    "warm": (45, 0),
    "refused": (49, 0),
    "parent": (117, 0),
    "held": (36, 0),
    "warm, by requests": (188, 1),
    "refused, by requests": (107, 0),
    "new": (503, 2),
    "new, by requests": (855, 2),
    "parent, by requests": (397, 2),
}
CALLS = {
    "warm": ("solo", "gpt", 1),
    "refused": ("solo", "gpt", 990),
    "parent": ("user", "gpt", 1),
    "held": ("a", "h", 1),
    "new": ("id-{}", "gpt", 1),
}
MODULES = 139

ONE_ACQUIRE = """
import asyncio, sys
from zae_limiter import Limit, RateLimiter, Repository

async def main():
    async with Repository.in_memory() as repository:
        async with RateLimiter(repository).acquire("user", "gpt", {"rpm": 1}, limits=[Limit.per_minute("rpm", 100)]):
            pass

asyncio.run(main())
print(sum(name.split(".")[0] == "zae_limiter" for name in sys.modules))
"""

IN_A_THREAD = """
import sys
from zae_limiter import Limit, SyncRateLimiter, SyncRepository

with SyncRateLimiter(SyncRepository.in_memory(), default_limits=[Limit.per_minute("rpm", 100)]) as limiter:
    with limiter.acquire("user", "gpt", {"rpm": 1}):
        pass

print(*sys.modules)
"""
HEAVY = {  # each takes a millisecond at least
    "asyncio", "dataclasses", "decimal", "hashlib", "http", "importlib.metadata", "inspect", "ipaddress", "json",
    "locale", "pathlib", "sqlite3", "ssl", "urllib.parse", "zoneinfo",
}  # fmt: skip

SPARE = 0 if sys.version_info[:2] == (3, 11) else 40  # calls


async def counts(entity: str, resource: str, amount: int, requests: list[Any], *, own: bool) -> tuple[int, int]:
    """The calls of functions and the requests of one acquire, after many of the same; ``own``: nobody else may use
    the table.
    """
    opened = Repository.in_memory(clock=ManualClock())
    if not own:
        opened = await Repository.over(MemoryStore(MemoryTable()), Options(clock=ManualClock(), split_above=None))
    async with opened as repository:
        limiter = RateLimiter(repository)
        await repository.create_entity("org")
        await repository.create_entity("user", parent_id="org", cascade=True)
        await repository.set_system_defaults([Limit.per_minute("rpm", 1000), Limit.per_minute("tpm", 100_000)])
        prefetch = [Limit.per_minute("rpm", 6000, prefetch=1), Limit.per_minute("tpm", 600_000, prefetch=1)]
        await repository.set_resource_defaults("h", prefetch)

        new, names = "{}" in entity, map(entity.format, itertools.count())

        async def one() -> None:
            with suppress(RateLimitExceeded):
                async with limiter.acquire(next(names) if new else entity, resource, {"rpm": amount, "tpm": 10}):
                    pass

        for _ in range(400 if resource == "h" else 12):  # fewer are not worth a block of an own table
            await one()
        requests.clear()
        with CountedCalls() as calls:
            await one()
        return calls.number, len(requests)


def work() -> None:
    for _ in range(1000):
        len("")


def in_another_thread() -> None:
    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


def test_the_calls_of_threads_count_that_the_block_starts_and_no_others() -> None:
    begin = threading.Event()

    def begun() -> None:
        begin.wait()
        in_another_thread()

    other = threading.Thread(target=begun)
    other.start()
    with CountedCalls() as calls:
        begin.set()
        other.join()
    assert calls.number < 1000
    with CountedCalls() as calls:
        in_another_thread()
    assert calls.number > 1000


@pytest.mark.parametrize("call", CEILINGS)
def test_an_acquire_makes_no_more_calls_and_requests(call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    requests: list[Any] = []
    execute = MemoryTable.execute

    def counted(table: MemoryTable, operation: Any) -> Any:
        requests.append(operation)
        return execute(table, operation)

    monkeypatch.setattr(MemoryTable, "execute", counted)
    called, _, way = call.partition(", ")
    # the smallest, because what other tests left in a bounded cache may be dropped meanwhile
    calls, sent = min(asyncio.run(counts(*CALLS[called], requests, own=not way)) for _ in range(2))
    most_calls, most_sent = CEILINGS[call]
    assert calls <= most_calls + SPARE, "lower a ceiling when you can; argue in the commit to raise it"
    assert sent <= most_sent, "lower a ceiling when you can; argue in the commit to raise it"


def test_one_acquire_loads_no_more_modules() -> None:
    loaded = subprocess.run([sys.executable, "-c", ONE_ACQUIRE], check=True, capture_output=True, text=True).stdout
    assert int(loaded) <= MODULES, "lower the ceiling when you can; argue in the commit to raise it"


@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="this Python does not show it")
def test_one_acquire_of_a_thread_loads_nothing_heavy_of_the_standard_library() -> None:
    loaded = subprocess.run([sys.executable, "-c", IN_A_THREAD], check=True, capture_output=True, text=True).stdout
    assert HEAVY & set(loaded.split()) == set()
