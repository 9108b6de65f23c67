"""What a process needs that has its limits in memory, or in a file: nothing of AWS, HTTP or TLS."""

import subprocess
import sys
from pathlib import Path

import pytest

AWS = "boto3 botocore aioboto3 aiobotocore aiohttp"
NETWORK = f"{AWS} ssl http urllib3 zae_limiter.engines.dynamodb.aws zae_limiter.engines.dynamodb.protocol"

BLOCKED = """
import sys

class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name in {names}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocked())
"""

IN_TASKS = """
import asyncio
from zae_limiter import Limit, RateLimiter, RateLimitExceeded, Repository

async def main():
    for repository in [Repository.in_memory(), await Repository.sqlite("limits.db")]:
        async with RateLimiter(repository, default_limits=[Limit.per_minute("rpm", 1)]) as limiter:
            async with limiter.acquire("user", "gpt", {"rpm": 1}):
                pass
            try:
                async with limiter.acquire("user", "gpt", {"rpm": 1}):
                    pass
            except RateLimitExceeded:
                print("refused")

asyncio.run(main())
"""

IN_THREADS = """
from zae_limiter import Limit, RateLimitExceeded, SyncRateLimiter, SyncRepository

for repository in [SyncRepository.in_memory(), SyncRepository.sqlite("limits.db")]:
    with SyncRateLimiter(repository, default_limits=[Limit.per_minute("rpm", 1)]) as limiter:
        with limiter.acquire("user", "gpt", {"rpm": 1}):
            pass
        try:
            with limiter.acquire("user", "gpt", {"rpm": 1}):
                pass
        except RateLimitExceeded:
            print("refused")
"""

ON_DYNAMODB = """
import asyncio
from zae_limiter import Repository, SyncRepository
from zae_limiter.exceptions import StoreRefusedError

async def opened(policy):
    return await Repository.open(region="us-east-1", on_unavailable=policy)

for opening in [
    lambda: asyncio.run(opened("block")),
    lambda: asyncio.run(opened("allow")),
    lambda: SyncRepository.open(region="us-east-1", on_unavailable="allow"),
    lambda: SyncRepository.open(region="us-east-1", transport="sdk"),
]:
    try:
        opening()
    except StoreRefusedError as error:
        print(error)
"""


def printed(names: str, program: str, folder: Path) -> list[str]:
    """Return the lines that a program prints where modules are missing."""
    command = [sys.executable, "-c", BLOCKED.format(names=names.split()) + program]
    done = subprocess.run(command, capture_output=True, text=True, cwd=folder, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize(("names", "program"), [(NETWORK, IN_TASKS), (f"{NETWORK} asyncio", IN_THREADS)])
def test_limits_in_memory_and_in_a_file_need_nothing_of_a_network(names: str, program: str, tmp_path: Path) -> None:
    assert printed(names, program, tmp_path) == ["refused", "refused"]


def test_dynamodb_says_what_to_install(tmp_path: Path) -> None:
    lines = printed(AWS, ON_DYNAMODB, tmp_path)
    why = 'DynamoDB needs boto3: pip install "boto3>=1.34"; a file of SQLite and memory do not'
    assert lines == [f"the rate limiter's store cannot be used: cannot create a client: {why}"] * 4
