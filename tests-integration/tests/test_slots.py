"""What lives here: processes that hold slots, some stopped for longer than they last, some killed.
What never does: what a write does to the slots (core's tests), histories in simulated time (core's tests).
"""

import asyncio
import random
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from support.integration.harness import Harness
from support.integration.slot_processes import ENTITY, LIMIT, RESOURCE, read_notes, start
from zae_limiter import Limit, RateLimiter, RateLimitExceeded, Repository

SLOTS, EXPIRES = 10, 2
CROWDS = pytest.mark.parametrize("processes", [13, pytest.param(20, marks=pytest.mark.long)])
SECONDS, MOST_SECONDS = 8.0, 120.0  # a busy machine takes longer until all compete
Start = Callable[[Path, int], subprocess.Popen[bytes]]


async def _disturbed(paths: list[Path], begin: Start) -> None:
    """Let processes run, stop some and kill some; kill all at the end."""
    chance = random.Random(1)
    running = [begin(path, seed) for seed, path in enumerate(paths)]
    try:
        while not all(path.exists() for path in paths):
            assert all(each.poll() is None for each in running)
            await asyncio.sleep(0.1)
        until = time.monotonic() + SECONDS
        while time.monotonic() < until or (not _compete(paths) and time.monotonic() < until + MOST_SECONDS):
            await asyncio.sleep(0.8)
            place = chance.randrange(len(paths))
            if chance.random() < 0.4:
                running[place].kill()
                running[place].wait()
                running[place] = begin(paths[place], 100 + place)
            else:
                running[place].send_signal(signal.SIGSTOP)
                asyncio.get_running_loop().call_later(
                    chance.choice((0.3, 1.5 * EXPIRES, 3 * EXPIRES)), running[place].send_signal, signal.SIGCONT
                )
    finally:
        for each in running:
            each.kill()
            each.wait()


def _compete(paths: list[Path]) -> bool:
    """Whether many have had slots, nearly all at the same time."""
    leases, _, most = read_notes(paths)
    return leases > 4 * SLOTS and most >= SLOTS - 2


async def _all_slots_come_back(limiter: RateLimiter) -> None:
    """Take all slots at once, when they have expired."""
    async with limiter.acquire(ENTITY, RESOURCE, {LIMIT: SLOTS}, max_wait=15 * EXPIRES):
        with pytest.raises(RateLimitExceeded):
            await limiter.acquire(ENTITY, RESOURCE, {LIMIT: 1}).__aenter__()


async def _prove(limiter: RateLimiter, folder: Path, processes: int, place: str, table: str) -> None:
    await limiter.repository.set_resource_defaults(RESOURCE, [Limit.concurrent(LIMIT, SLOTS, expires=EXPIRES)])
    paths = [folder / str(number) for number in range(processes)]
    await _disturbed(paths, lambda path, seed: start(place, table, path, seed))
    await _all_slots_come_back(limiter)
    _, _, most = read_notes(paths)
    assert most <= SLOTS
    assert _compete(paths), "they hardly compete"


@pytest.mark.long(keep=1)
@pytest.mark.needs("endpoint", "atomic")
@pytest.mark.parametrize("variant", ["async"], indirect=True)
@CROWDS
async def test_ten_slots_are_never_held_eleven_times_on_dynamodb(
    harness: Harness, tmp_path: Path, processes: int
) -> None:
    await _prove(await harness.open(), tmp_path, processes, harness.target.endpoint_url or "", harness.table_name)


@pytest.mark.long
@CROWDS
async def test_ten_slots_are_never_held_eleven_times_on_a_file(tmp_path: Path, processes: int) -> None:
    place = f"sqlite:///{tmp_path / 'limits.db'}"
    async with RateLimiter(await Repository.open(store=place)) as limiter:
        await _prove(limiter, tmp_path, processes, place, "")
