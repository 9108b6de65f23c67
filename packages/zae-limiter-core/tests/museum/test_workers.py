"""Workers of a server, as processes of the operating system."""

import subprocess
import sys
from pathlib import Path

import pytest

from museum.exhibits import shows

WORKERS = 3
WORKER = """
import sys
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository

repository = SyncRepository.sqlite(sys.argv[1]) if sys.argv[1] else SyncRepository.in_memory()
admitted = 0
with SyncRateLimiter(repository, default_limits=[Limit.per_day("rpd", 5)]) as limiter:
    for _ in range(10):
        try:
            with limiter.acquire("10.0.0.1", "/home", {"rpd": 1}):
                admitted += 1
        except RateLimitExceeded:
            pass
print(admitted)
"""


def admitted_by_workers(path: str) -> int:
    command = [sys.executable, "-c", WORKER, path]
    workers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(WORKERS)]
    return sum(int(worker.communicate(timeout=60)[0]) for worker in workers)


@pytest.mark.long
@pytest.mark.slow
@shows("https://github.com/laurentS/slowapi/issues/226", "Rate Limit NOT working with multiple workers using memory")
def test_workers_of_one_server_share_a_file(tmp_path: Path) -> None:
    assert admitted_by_workers(str(tmp_path / "limits.db")) == 5
    assert admitted_by_workers("") == 5 * WORKERS  # each has a store in its own memory
