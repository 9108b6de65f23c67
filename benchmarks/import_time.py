"""What an import costs, against that of boto3.

Lives here: fresh interpreters, in turns. Never: the first request, which imports the client.
"""

import subprocess
import sys
from statistics import median

from .measure import pin_client
from .report import Row

ROUNDS = 9
OURS = "import zae_limiter; zae_limiter.RateLimiter, zae_limiter.Repository"
THEIRS = "import boto3"
CLIENTS = ("aioboto3", "aiobotocore", "aiohttp", "boto3", "botocore")


def measure() -> list[Row]:
    pin_client()
    taken = [(_cpu_ms(OURS), _cpu_ms(THEIRS)) for _ in range(ROUNDS)]
    ours, theirs = (median(column) for column in zip(*taken, strict=True))
    loaded = _printed(f"{OURS}; import sys; print(len(sys.modules.keys() & {set(CLIENTS)!r}))")
    return [
        Row("import zae_limiter / import boto3", ours / theirs, at_most=0.67),
        Row("import zae_limiter, RateLimiter, Repository", ours, "ms"),
        Row("import boto3", theirs, "ms"),
        Row("AWS libraries that import zae_limiter imports", loaded, at_most=0),
    ]


def _cpu_ms(statement: str) -> float:
    return 1000 * _printed(f"import time; begun = time.process_time(); {statement}; print(time.process_time() - begun)")


def _printed(program: str) -> float:
    done = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    return float(done.stdout)
