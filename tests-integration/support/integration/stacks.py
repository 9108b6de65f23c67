"""What lives here: targets that have a stack with Lambdas in it: the local one, LocalStack, a real account.
What never does: how a stack is made (the CLI), or DynamoDB emulators (emulators).
"""

import gc
import os
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
import uuid
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest

from zae_limiter_cli.local.children import start_command
from zae_limiter_cli.local.state_dir import Running, StateDir

from .embedded import using
from .fetch import Unavailable

COMMAND: Final = Path(sys.executable).with_name("zae-limiter")
LOCALSTACK_IMAGE: Final = "localstack/localstack:4.14.0"  # the last one that runs without a token
PULL_SECONDS: Final = 60
READY_SECONDS: Final = 120
DEPLOY_SECONDS: Final = 900


@dataclass(frozen=True, slots=True)
class Place:
    """Where a target answers; ``None`` leaves it to the SDK. ``stack`` is what `deploy` has made there."""

    endpoint_url: str | None
    stack: str


@contextmanager
def embedded() -> Iterator[Place]:
    """`zae-limiter local up`, on moto alone, which is there wherever the tests are."""
    name = "zael-embedded"
    with tempfile.TemporaryDirectory() as directory, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", directory)
        up = [str(COMMAND), "local", "up", "-n", name, "--port", "0", "--data-plane", "moto"]
        with (Path(directory) / "up.log").open("wb") as log:
            child = start_command(up, output=log.fileno())  # ends with this process, even where that is killed
        try:
            running = _ready(StateDir(name), child.process, Path(directory) / "up.log")
            with using(running.credentials):
                yield Place(running.endpoint_url, name)
            _cli("local", "down", "-n", name)
        finally:
            child.end()


def _ready(state_dir: StateDir, process: subprocess.Popen[bytes], log: Path) -> Running:
    deadline = time.monotonic() + READY_SECONDS
    while (running := state_dir.running()) is None:
        if process.poll() is not None or time.monotonic() > deadline:
            raise RuntimeError(f"`zae-limiter local up` is not ready: {log.read_text(encoding='utf-8')}")
        time.sleep(0.05)
    return running


@contextmanager
def localstack() -> Iterator[Place]:
    """LocalStack in a container, with the stack that `zae-limiter deploy` makes of the real template."""
    image = os.environ.get("ZAEL_LOCALSTACK_IMAGE") or LOCALSTACK_IMAGE
    _have_image(image)
    os.environ["TESTCONTAINERS_RYUK_DISABLED"] = "true"  # it would be another image; the container ends here
    from testcontainers.core.container import DockerContainer

    container = DockerContainer(image).with_exposed_ports(4566)
    # LocalStack runs each Lambda in a container beside its own.
    container.with_volume_mapping("/var/run/docker.sock", "/var/run/docker.sock", "rw")
    with container:
        url = f"http://{container.get_container_host_ip()}:{container.get_exposed_port(4566)}"
        wait_until_healthy(url)
        _cli("deploy", "-n", "zael-localstack", "--endpoint-url", url, "--region", "us-east-1")
        yield Place(url, "zael-localstack")


@contextmanager
def aws() -> Iterator[Place]:
    """A stack in the account that the environment names, deleted in the end."""
    name, region = f"zael-test-{uuid.uuid4().hex[:8]}", _region()
    _cli("deploy", "-n", name)
    try:
        yield Place(f"https://dynamodb.{region}.amazonaws.com", name)
    finally:
        _cli("delete", "-n", name, "--yes")


def drop(client: Any, table: str) -> None:
    """Delete a table, where it is there."""
    with suppress(client.exceptions.ResourceNotFoundException):
        client.delete_table(TableName=table)


def _cli(*words: str) -> None:
    """Run our command; ``RuntimeError`` where it fails, for then it is what is tested that fails."""
    command = [str(COMMAND), *words]
    done = subprocess.run(command, check=False, capture_output=True, text=True, timeout=DEPLOY_SECONDS)
    if done.returncode != 0:
        raise RuntimeError(f"`{' '.join(command)}` failed: {done.stderr.strip()}")


def _have_image(image: str) -> None:
    """Raise ``Unavailable`` where there is no engine, or not the image and no way to it within a minute."""
    from docker.errors import ImageNotFound

    with closing(_engine()) as engine:
        try:
            engine.images.get(image)
        except ImageNotFound:
            _pull(engine, image)


def _engine() -> Any:
    """A client of the container engine; ``Unavailable`` where none answers."""
    import docker
    from docker.errors import DockerException

    with warnings.catch_warnings(action="ignore", category=ResourceWarning):
        try:
            return docker.from_env(timeout=10)  # asks for the engine's version
        except DockerException as error:
            complaint = str(error)
        gc.collect()  # a socket that could not connect is left open by the library
    raise Unavailable(f"no container engine answers: {complaint}")


def _pull(engine: Any, image: str) -> None:
    failed: list[Exception] = []

    def pull() -> None:
        try:
            engine.images.pull(image)
        except Exception as error:  # noqa: BLE001  whatever it was, the image is not there
            failed.append(error)

    thread = threading.Thread(target=pull, daemon=True)
    thread.start()
    thread.join(PULL_SECONDS)
    if thread.is_alive():
        raise Unavailable(f"the image {image} was not pulled within {PULL_SECONDS} s")
    if failed:
        raise Unavailable(f"the image {image} cannot be pulled: {failed[0]}")


def wait_until_healthy(url: str) -> None:
    """Raise ``RuntimeError`` where it does not get there: engine and image are here, so nothing is to be skipped."""
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        try:
            urllib.request.urlopen(f"{url}/_localstack/health", timeout=2).close()
        except OSError:
            time.sleep(0.5)
        else:
            return
    raise RuntimeError(f"LocalStack at {url} is not healthy after {READY_SECONDS} s")


def _region() -> str:
    import boto3

    region = boto3.Session().region_name
    if region is None:
        raise Unavailable("there is no region: set AWS_REGION")
    return str(region)
