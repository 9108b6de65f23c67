"""What lives here: processes that prefetch tokens, some stopped for a while, some killed, against their own notes.
What never does: what a hold decides (core's tests), histories in virtual time (core's simulation).
"""

import asyncio
import os
import random
import signal
import time
from pathlib import Path

import pytest

from support.integration.harness import Harness
from support.integration.held_processes import (
    ENTITY,
    LIMIT,
    MOST_SECONDS,
    RESOURCE,
    REST,
    STEADY,
    TOKENS,
    overdraft,
    read_notes,
    start,
)
from zae_limiter import Limit

pytestmark = [pytest.mark.needs("endpoint", "atomic"), pytest.mark.parametrize("variant", ["async"], indirect=True)]

PROCESSES = int(os.environ.get("ZAEL_TEST_PROCESSES", "6"))
TIMEOUT_SECONDS = 120
RATE, BURST, PREFETCH = 30, 600, 10  # 300 are usable


async def _begin_together(paths: list[Path], begin: Path) -> float:
    """Have processes begin once all are there; return the instant."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while not all(path.exists() for path in paths):  # noqa: ASYNC110 - processes tell no event of this loop
            await asyncio.sleep(0.1)
    begun = time.time()
    begin.with_suffix(".new").write_text(str(begun))
    begin.with_suffix(".new").replace(begin)
    return begun


@pytest.mark.long(keep=1)
async def test_processes_that_are_stopped_and_killed_never_admit_more_than_the_burst(
    harness: Harness, tmp_path: Path
) -> None:
    limiter = await harness.open()
    limit = Limit.custom(LIMIT, BURST, refill_amount=RATE, refill_period=1, prefetch=PREFETCH)
    await limiter.set_resource_defaults(RESOURCE, [limit])
    chance, url, begin = random.Random(1), harness.target.endpoint_url or "", tmp_path / "begin"
    paths = [tmp_path / str(number) for number in range(PROCESSES)]
    running = [start(url, harness.table_name, path, seed, begin) for seed, path in enumerate(paths)]
    try:
        begun = await _begin_together(paths, begin)
        while time.time() < begun + STEADY + REST:
            await asyncio.sleep(1)
            place = chance.randrange(PROCESSES)
            if chance.random() < 0.2:
                running[place].kill()
                running[place].wait()
                running[place] = start(url, harness.table_name, paths[place], 100 + place, begin)
            else:
                running[place].send_signal(signal.SIGSTOP)
                await asyncio.sleep(0.5)
                running[place].send_signal(signal.SIGCONT)
    finally:
        for each in running:
            each.send_signal(signal.SIGCONT)
            if each.wait(MOST_SECONDS + TIMEOUT_SECONDS) not in (0, -signal.SIGKILL):
                pytest.fail("a process failed")
    admissions = read_notes(paths)
    assert len(admissions) * TOKENS > BURST / 2
    assert overdraft(admissions, BURST, RATE) <= PROCESSES * TOKENS
    counted = harness.consumed(ENTITY, RESOURCE, LIMIT) / 1000
    assert counted <= (len(admissions) + PROCESSES) * TOKENS  # killed processes lose counts of what they spent
