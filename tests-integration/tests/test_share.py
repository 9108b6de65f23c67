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
WARM, AFTER = 9.0, 2.0  # seconds
TIMEOUT_SECONDS = 120
AWAY = float(os.environ.get("ZAEL_TEST_OUTAGE_SECONDS", "6"))


@pytest.mark.long(keep=1)
async def test_processes_cut_off_admit_no_more_than_the_limit_and_count_it_when_the_table_is_back(
    harness: Harness, tmp_path: Path
) -> None:
    limiter = await harness.open()
    await limiter.set_resource_defaults(RESOURCE, [Limit.custom(LIMIT, BURST, refill_amount=RATE, refill_period=1)])
    paths = [tmp_path / str(number) for number in range(PROCESSES)]
    end = tmp_path / "end"
    with between(harness.target.endpoint_url or "") as proxy:
        running = [start(proxy.url, harness.table_name, path, seed, end) for seed, path in enumerate(paths)]
        await _all_admit(paths, 0)
        await asyncio.sleep(WARM)
        away = time.time()
        proxy.faults = [Fault("drop", request) for request in REQUESTS]
        await asyncio.sleep(AWAY)
        back = time.time()
        proxy.clear()
        await _all_admit(paths, back)
        await asyncio.sleep(AFTER)
        end.touch()
        codes = [await asyncio.to_thread(each.wait, TIMEOUT_SECONDS) for each in running]
    assert codes == [0] * PROCESSES
    notes = read_notes(paths)
    by_share = [note for note in notes if note.degraded and away + 1 < note.before < back]
    assert {note.process for note in by_share} == set(range(PROCESSES))
    seconds = back - away - 1
    assert 0.5 * RATE * seconds <= len(by_share) * TOKENS <= RATE * (seconds + 1)
    assert _overdraft(note for note in notes if note.before < back) <= 2 * PROCESSES * TOKENS
    assert _overdraft(notes) <= 2 * PROCESSES * TOKENS + BURST  # until all have paid
    assert harness.consumed(ENTITY, RESOURCE, LIMIT) == len(notes) * TOKENS * 1000


async def _all_admit(paths: list[Path], since: float) -> None:
    """Return once each process has admitted somebody that the table counts, since that instant."""
    async with asyncio.timeout(TIMEOUT_SECONDS):
        while _admitting(paths, since) < set(range(len(paths))):  # noqa: ASYNC110 - processes tell no event of this loop
            await asyncio.sleep(0.2)


def _admitting(paths: list[Path], since: float) -> set[int]:
    return {note.process for note in read_notes(paths) if note.before >= since and not note.degraded}


def _overdraft(notes: Iterable[Note]) -> float:
    return overdraft([Admission(note.before, note.after) for note in notes], BURST, RATE)
