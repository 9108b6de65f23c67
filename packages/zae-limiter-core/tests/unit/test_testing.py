import subprocess
import sys
from pathlib import Path

import pytest

from zae_limiter.testing import ManualClock

USERS_TESTS = """
from zae_limiter import Limit

def take(limiter):
    with limiter.acquire("user", "api", {"rpm": 1}):
        pass

def test_sync(sync_limiter, manual_clock):
    sync_limiter.set_system_defaults([Limit.per_minute("rpm", 1)])
    take(sync_limiter)
    assert sync_limiter.available("user", "api") == {"rpm": 0}
    manual_clock.advance(seconds=60)
    take(sync_limiter)

def test_it_begins_empty(sync_limiter):
    assert sync_limiter.get_system_defaults() == ([], None)

def test_a_wait_takes_no_time(sync_limiter, manual_clock):
    sync_limiter.set_system_defaults([Limit.per_minute("rpm", 1)])
    begun = manual_clock.now_ms()
    for _ in range(3):
        with sync_limiter.acquire("user", "api", {"rpm": 1}, max_wait=70):
            pass
    assert round((manual_clock.now_ms() - begun) / 1000) == 120

async def test_an_awaited_wait_takes_no_time(limiter, manual_clock):
    await limiter.set_system_defaults([Limit.per_minute("rpm", 1)])
    begun = manual_clock.now_ms()
    for _ in range(3):
        async with limiter.acquire("user", "api", {"rpm": 1}, max_wait=70):
            pass
    assert round((manual_clock.now_ms() - begun) / 1000) == 120

async def test_async(limiter, manual_clock):
    await limiter.set_system_defaults([Limit.per_minute("rpm", 1)])
    async with limiter.acquire("user", "api", {"rpm": 1}):
        assert not (await limiter.check("user", "api", {"rpm": 1})).passes
        manual_clock.advance(seconds=60)
        assert (await limiter.check("user", "api", {"rpm": 1})).passes
"""


def test_the_clock_stands_still_until_it_is_told() -> None:
    clock = ManualClock(start_ms=1_000)
    assert [clock.now_ms(), clock.now_ms()] == [1_000, 1_000]
    clock.advance(seconds=1.5)
    clock.advance(ms=1)
    assert clock.now_ms() == 2_501


def test_the_clock_does_not_go_back() -> None:
    clock = ManualClock(start_ms=1_000)
    with pytest.raises(ValueError, match="does not go back, not even 1 ms"):
        clock.advance(ms=-1)
    assert clock.now_ms() == 1_000


def test_the_clock_alone_imports_neither_pytest_nor_an_aws_library() -> None:
    ask = "import sys, zae_limiter.testing; print({'pytest', 'boto3', 'botocore', 'aioboto3'} & set(sys.modules))"
    answer = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert answer.stdout == "set()\n"


ANYIO_TESTS = """
import pytest
from zae_limiter import Limit

@pytest.fixture
def anyio_backend():
    return "asyncio"

@pytest.mark.anyio
async def test_it(limiter):
    await limiter.set_system_defaults([Limit.per_minute("rpm", 1)])
    for _ in range(2):
        async with limiter.acquire("user", "api", {"rpm": 1}, max_wait=70):
            pass
"""


@pytest.mark.long
@pytest.mark.slow
def test_the_plugin_serves_tests_that_anyio_runs_on_asyncio(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["zae_limiter.testing.plugin"]\n')
    (tmp_path / "test_users.py").write_text(ANYIO_TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:asyncio", str(tmp_path)]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "1 passed" in answer.stdout, answer.stdout + answer.stderr


@pytest.mark.slow
def test_the_plugin_gives_users_a_limiter_in_memory_in_both_variants(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text('pytest_plugins = ["zae_limiter.testing.plugin"]\n')
    (tmp_path / "test_users.py").write_text(USERS_TESTS)
    (tmp_path / "pytest.ini").write_text(
        "[pytest]\nasyncio_mode = auto\nasyncio_default_fixture_loop_scope = function\n"
    )
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-W", "error", str(tmp_path)]
    answer = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "5 passed" in answer.stdout, answer.stdout + answer.stderr


def test_a_limiter_in_memory_imports_no_aws_library() -> None:
    ask = """
import asyncio, sys
from zae_limiter import Limit, RateLimiter, Repository, SyncRateLimiter, SyncRepository

limits = [Limit.per_minute("rpm", 1)]
with SyncRateLimiter(SyncRepository.in_memory(), default_limits=limits).acquire("user", "api", {"rpm": 1}):
    pass

async def main():
    async with RateLimiter(Repository.in_memory(), default_limits=limits).acquire("user", "api", {"rpm": 1}):
        pass

asyncio.run(main())
print({"aioboto3", "aiobotocore", "aiohttp", "boto3", "botocore"} & set(sys.modules))
"""
    answer = subprocess.run([sys.executable, "-c", ask], capture_output=True, text=True, check=True)
    assert answer.stdout == "set()\n"
