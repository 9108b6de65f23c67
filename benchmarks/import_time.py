"""What an import costs, against that of boto3.

Lives here: fresh interpreters, in turns. Never: the first request, which imports the client.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from statistics import median

from .measure import pin_client
from .report import Row

ROUNDS = 9
OURS = "import zae_limiter"
USED = "import zae_limiter; zae_limiter.RateLimiter, zae_limiter.Repository"
THEIRS = "import boto3"
CLIENTS = ("aioboto3", "aiobotocore", "aiohttp", "boto3", "botocore")


def measure() -> list[Row]:
    pin_client()
    with bytecode_apart() as environment:
        cpu_ms(f"{USED}; {THEIRS}", environment)
        taken = [[cpu_ms(statement, environment) for statement in (OURS, USED, THEIRS)] for _ in range(ROUNDS)]
        loaded = _printed(f"{USED}; import sys; print(len(sys.modules.keys() & {set(CLIENTS)!r}))", environment)
    ours, used, theirs = (median(column) for column in zip(*taken, strict=True))
    return [
        Row("import zae_limiter / import boto3", ours / theirs, at_most=0.67),
        Row("import zae_limiter", ours, "ms"),
        Row("import zae_limiter, RateLimiter, Repository", used, "ms"),
        Row("the same / import boto3", used / theirs),
        Row("import boto3", theirs, "ms"),
        Row("AWS libraries that import zae_limiter imports", loaded, at_most=0),
    ]


@contextmanager
def bytecode_apart() -> Iterator[dict[str, str]]:
    """An environment with bytecode of its own: what there is may be old, or be forbidden."""
    with tempfile.TemporaryDirectory() as bytecode:
        environment = {**os.environ, "PYTHONPYCACHEPREFIX": bytecode}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        yield environment


def cpu_ms(statement: str, environment: Mapping[str, str]) -> float:
    """CPU time of a statement in a fresh interpreter, whatever else it prints."""
    program = f"import time; begun = time.process_time(); {statement}; print(time.process_time() - begun)"
    return 1000 * _printed(program, environment)


def _printed(program: str, environment: Mapping[str, str]) -> float:
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=environment)
    return float(done.stdout.splitlines()[-1])
