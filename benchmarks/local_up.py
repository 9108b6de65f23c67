"""How long `zae-limiter local up --detach` takes until its stack is ready.

Lives here: the command as a user has it, on each data plane that is here. Never: what the stack can do then.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from .emulator import dynoxide_binary
from .report import NotHere, Row

ROUNDS = 3
COMMAND = str(Path(sys.executable).with_name("zae-limiter"))
NAMES = {"moto": "my-app", "dynoxide": "my-application"}  # dynoxide wants 11 characters


def measure() -> list[Row]:
    planes = list(_planes())
    taken = [[_seconds(plane) for plane in planes] for _ in range(ROUNDS)]
    return [
        Row(f"local up --name {NAMES[plane]} --data-plane {plane}", median(column), "s", at_most=10)
        for plane, column in zip(planes, zip(*taken, strict=True), strict=True)
    ]


def _planes() -> Iterator[str]:
    """moto is there wherever the benchmarks are."""
    yield "moto"
    try:
        os.environ["ZAEL_DYNOXIDE"] = dynoxide_binary()
    except NotHere as reason:
        print(f"without dynoxide: {reason}")
    else:
        yield "dynoxide"


def _seconds(plane: str) -> float:
    with tempfile.TemporaryDirectory() as state:
        environment = {**os.environ, "XDG_STATE_HOME": state}
        begun = time.perf_counter()
        _local("up", "--name", NAMES[plane], "--port", "0", "--data-plane", plane, "--detach", environment=environment)
        seconds = time.perf_counter() - begun
        _local("down", "--name", NAMES[plane], environment=environment)
    return seconds


def _local(*words: str, environment: dict[str, str]) -> None:
    subprocess.run([COMMAND, "local", *words], env=environment, check=True, stdout=subprocess.DEVNULL)
