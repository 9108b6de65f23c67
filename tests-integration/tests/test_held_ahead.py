"""What lives here: processes that hold tokens ahead, some stopped for a while, some killed, against their own notes.
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
from support.integration.held_processes import ENTITY, LIMIT, RESOURCE, overdraft, read_notes, start
from zae_limiter import Limit

pytestmark = [pytest.mark.needs("endpoint", "atomic"), pytest.mark.parametrize("variant", ["async"], indirect=True)]

PROCESSES = int(os.environ.get("ZAEL_TEST_PROCESSES", "6"))
SECONDS = float(os.environ.get("ZAEL_TEST_SECONDS", "10"))
RATE, BURST = 300, 900  # of which 600 are usable


async def test_processes_that_are_stopped_and_killed_never_admit_more_than_the_burst(
    harness: Harness, tmp_path: Path
) -> None:
    limiter = await harness.open()
    limit = Limit.custom(LIMIT, RATE, burst=BURST, refill_amount=RATE, refill_period=1, ahead=1)
    await limiter.set_resource_defaults(RESOURCE, [limit])
    chance, url = random.Random(1), harness.target.endpoint_url or ""
    paths = [tmp_path / str(number) for number in range(PROCESSES)]
    running = [start(url, harness.table_name, path, seed, SECONDS) for seed, path in enumerate(paths)]
    end = time.time() + SECONDS
    try:
        while time.time() < end:
            await asyncio.sleep(SECONDS / 20)
            place = chance.randrange(PROCESSES)
            if chance.random() < 0.3:
                running[place].kill()
                running[place].wait()
                left = max(0.5, end - time.time())
                running[place] = start(url, harness.table_name, paths[place], 100 + place, left)
            else:
                running[place].send_signal(signal.SIGSTOP)
                await asyncio.sleep(1.2)
                running[place].send_signal(signal.SIGCONT)
    finally:
        for each in running:
            each.send_signal(signal.SIGCONT)
            if each.wait(30) not in (0, -signal.SIGKILL):
                pytest.fail("a process failed")
    admissions = read_notes(paths)
    assert len(admissions) > RATE * SECONDS / 4
    assert overdraft(admissions, BURST, RATE) <= PROCESSES
    counted = harness.consumed(ENTITY, RESOURCE, LIMIT) / 1000
    assert counted <= len(admissions) + 1  # killed processes lose counts of what they spent
