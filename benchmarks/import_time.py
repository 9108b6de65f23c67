"""What the imports of a program cost that limits calls, against that of boto3, and of a peer.

Lives here: fresh interpreters, in turns. Never: the first request to DynamoDB, which imports the client.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from statistics import median

from .measure import pin_client
from .report import Row

ROUNDS = 9
IN_TASKS = "from zae_limiter import RateLimiter, Repository"
IN_THREADS = "from zae_limiter import SyncRateLimiter, SyncRepository"
ONE_ACQUIRE = """from zae_limiter import Limit, SyncRateLimiter, SyncRepository
with SyncRateLimiter(SyncRepository.in_memory(), default_limits=[Limit.per_minute("rpm", 10)]) as limiter:
    with limiter.acquire("user", "gpt-4", {"rpm": 1}):
        pass"""
PEERS = """from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter"""
THEIRS = "import boto3"
CLIENTS = ("aioboto3", "aiobotocore", "aiohttp", "boto3", "botocore")


def measure() -> list[Row]:
    pin_client()
    statements = (IN_TASKS, IN_THREADS, ONE_ACQUIRE, PEERS, THEIRS)
    with bytecode_apart() as environment:
        for statement in statements:
            cpu_ms(statement, environment)  # which compiles
        taken = [[cpu_ms(statement, environment) for statement in statements] for _ in range(ROUNDS)]
        loaded = _printed(f"{ONE_ACQUIRE}\nimport sys; print(len(sys.modules.keys() & {set(CLIENTS)!r}))", environment)
    in_tasks, in_threads, one_acquire, peers, theirs = zip(*taken, strict=True)
    return [
        _beside("import RateLimiter, Repository / import boto3", in_tasks, theirs, at_most=0.67),
        _beside("import SyncRateLimiter, SyncRepository / import boto3", in_threads, theirs, at_most=0.67),
        _beside("the same, and the first acquire in memory / import boto3", one_acquire, theirs, at_most=1.0),
        _beside("import a limiter and a store of limits / import boto3", peers, theirs),
        Row("import RateLimiter, Repository", median(in_tasks), "ms", least=min(in_tasks)),
        Row("import SyncRateLimiter, SyncRepository", median(in_threads), "ms", least=min(in_threads)),
        Row("import boto3", median(theirs), "ms", least=min(theirs)),
        Row("AWS libraries that an acquire in memory imports", loaded, at_most=0),
    ]


def _beside(what: str, ours: Sequence[float], theirs: Sequence[float], at_most: float | None = None) -> Row:
    """Return the ratio of the times of each round."""
    ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
    return Row(what, median(ratios), at_most=at_most, least=min(ratios))


@contextmanager
def bytecode_apart() -> Iterator[dict[str, str]]:
    """An environment with bytecode of its own: what there is may be old, or be forbidden."""
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        yield environment


def cpu_ms(statement: str, environment: Mapping[str, str]) -> float:
    """CPU time of a statement in a fresh interpreter, whatever else it prints."""
    program = f"import time\nbegun = time.process_time()\n{statement}\nprint(time.process_time() - begun)"
    return 1000 * _printed(program, environment)


def _printed(program: str, environment: Mapping[str, str]) -> float:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return float(done.stdout.splitlines()[-1])
