"""What lives here: a local stack with its Lambdas, from the command line, as a user has it.
What never does: a claim.
"""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import pytest

from zae_limiter_cli.local.credentials import Credentials

from .last_will import afterwards

COMMAND = str(Path(sys.executable).with_name("zae-limiter"))
NAME = "zael-embedded"


@dataclass(frozen=True, slots=True)
class Embedded:
    """A stack that is up; ``environment`` is what its users export."""

    name: str
    environment: dict[str, str]

    @property
    def endpoint_url(self) -> str:
        """Where all of AWS is."""
        return self.environment["AWS_ENDPOINT_URL"]

    def client(self, service: str) -> Any:
        """A client of boto3."""
        return boto3.client(service, endpoint_url=self.endpoint_url, region_name=self.environment["AWS_REGION"])


@contextmanager
def using(credentials: Credentials) -> Iterator[None]:
    """What this process and those that it starts sign with, where they say nothing else; boto3 keeps what it found."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in credentials.variables().items():
            patch.setenv(name, value)
        patch.setattr(boto3, "DEFAULT_SESSION", None)
        yield


@contextmanager
def local_stack(state: Path, *, plane: str = "moto") -> Iterator[Embedded]:
    """A stack on moto alone, which every machine has, unless another data plane is named."""
    environment = {**os.environ, "XDG_STATE_HOME": str(state)}

    def run(*args: str) -> str:
        command = [COMMAND, "local", *args, "--name", NAME]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True, timeout=180).stdout

    with afterwards([COMMAND, "local", "down", "--name", NAME], environment=environment) as last_will:
        run("up", "--port", "0", "--data-plane", plane, "--detach")
        lines = [line.removeprefix("export ") for line in run("env").splitlines() if line.startswith("export ")]
        exported = dict(line.split("=", 1) for line in lines)
        with using(Credentials(exported["AWS_ACCESS_KEY_ID"], exported["AWS_SECRET_ACCESS_KEY"])):
            yield Embedded(NAME, exported)
        run("down")
        last_will.terminate()
