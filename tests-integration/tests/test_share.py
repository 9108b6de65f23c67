"""What lives here: processes that go on by their shares while the table is cut off, against their own notes.
What never does: what a share is (core's tests).
"""

import asyncio
import os
import time
from collections.abc import Iterable
from pathlib import Path

import pytest

from support.integration.harness import Harness
from support.integration.held_processes import Admission, overdraft
from support.integration.proxy import Fault, between
from support.integration.sharing_processes import ENTITY, LIMIT, RESOURCE, TOKENS, Note, read_notes, start
from zae_limiter import Limit

pytestmark = [
    pytest.mark.slow,
    pytest.mark.needs("endpoint", "atomic"),
    pytest.mark.parametrize("variant", ["async"], indirect=True),
]

PROCESSES = 3
RATE, BURST = 60, 120  # tokens a second, tokens: all processes together ask for more
REQUESTS = ("UpdateItem", "PutItem", "GetItem", "BatchGetItem", "Query", "TransactWriteItems", "DescribeTable")
START, WARM, AFTER = 3.0, 9.0, 4.0  # seconds
AWAY = float(os.environ.get("ZAEL_TEST_OUTAGE_SECONDS", "6"))


async def test_processes_cut_off_admit_no_more_than_the_limit_and_count_it_when_the_table_is_back(
    harness: Harness, tmp_path: Path
) -> None:
    limiter = await harness.open()
    await limiter.set_resource_defaults(RESOURCE, [Limit.custom(LIMIT, BURST, refill_amount=RATE, refill_period=1)])
    paths = [tmp_path / str(number) for number in range(PROCESSES)]
    away = time.time() + START + WARM
    back = away + AWAY
    with between(harness.target.endpoint_url or "") as proxy:
        running = [start(proxy.url, harness.table_name, path, seed, back + AFTER) for seed, path in enumerate(paths)]
        await asyncio.sleep(away - time.time())
        proxy.faults = [Fault("drop", request) for request in REQUESTS]
        await asyncio.sleep(back - time.time())
        proxy.clear()
        codes = [await asyncio.to_thread(each.wait, 30) for each in running]
    assert codes == [0] * PROCESSES
    notes = read_notes(paths)
    by_share = [note for note in notes if note.degraded and away + 1 < note.before < back]
    assert {note.process for note in by_share} == set(range(PROCESSES))
    seconds = AWAY - 1
    assert 0.5 * RATE * seconds <= len(by_share) * TOKENS <= RATE * (seconds + 1)
    assert _overdraft(note for note in notes if note.before < back) <= 2 * PROCESSES * TOKENS
    assert _overdraft(notes) <= 2 * PROCESSES * TOKENS + BURST  # until all have paid
    assert harness.consumed(ENTITY, RESOURCE, LIMIT) == len(notes) * TOKENS * 1000


def _overdraft(notes: Iterable[Note]) -> float:
    return overdraft([Admission(note.before, note.after) for note in notes], BURST, RATE)
