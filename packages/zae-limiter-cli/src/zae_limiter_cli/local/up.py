"""Run a local stack from start to stop, part by part, and back in the opposite order."""

import logging
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from importlib.metadata import requires
from importlib.util import find_spec
from pathlib import Path
from types import FrameType

from ..connection import Connection
from ..errors import CommandError
from .aws import REGION, forget_the_users_aws, serving
from .credentials import Credentials
from .engines import Choice, Engine, choose
from .state_dir import Running, StateDir


@dataclass(frozen=True, slots=True)
class UpRequest:
    """The options of `local up`."""

    name: str
    port: int | None = None
    data_plane: Choice = "auto"
    data: Path | None = None
    audit_retention_days: int | None = None


def run(request: UpRequest, ready: Callable[[Running], None]) -> None:
    """Run a local stack until a signal comes; call ``ready`` once it is up. Raises ``CommandError``."""
    begun, days = time.monotonic(), request.audit_retention_days
    request = replace(request, data=_writable(request.data))
    state_dir = StateDir(request.name)
    engine = choose(request.data_plane, name=request.name, data=request.data, scratch=state_dir.items)
    state_dir.take()
    credentials, log = Credentials.random(), state_dir.logs / "local.log"
    with _until_a_signal(), _logging_to(log), _stack(request, state_dir, engine, credentials) as url:
        seconds = round(time.monotonic() - begun, 1)
        running = Running(request.name, os.getpid(), url, REGION, str(engine), seconds, credentials, days)
        state_dir.write(running)
        ready(running)
        _wait()
    state_dir.forget()


def check_extra() -> None:
    """Raise ``CommandError`` if a library of the extra `local` is not installed."""
    missing = [name for name in ("moto", "flask_cors", "werkzeug") if find_spec(name) is None]
    if missing:
        problem = f"`local up` needs the extra `local`, of which {' and '.join(missing)} cannot be found"
        raise CommandError(f"{problem}: pip install {' '.join(_of_extra())}")


def _of_extra() -> Iterator[str]:
    """Yield what the extra installs. The distribution itself is not named: until its release, an index may have
    another one of that name.
    """
    from packaging.requirements import Requirement

    for each in map(Requirement, requires("zae-limiter-cli") or ()):
        if each.marker and each.marker.evaluate({"extra": "local"}) and not each.marker.evaluate({"extra": ""}):
            each.marker = None
            yield f"'{each}'"


def _writable(data: Path | None) -> Path | None:
    if data is None:
        return None
    try:
        data.mkdir(0o700, parents=True, exist_ok=True)
        probe = data / ".probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise CommandError(f"--data {data}: {error.strerror}") from error
    return data.resolve()


@contextmanager
def _until_a_signal() -> Iterator[None]:
    signals = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

    def stop(number: int, frame: FrameType | None) -> None:  # noqa: ARG001  the signature of handlers
        for each in signals:
            signal.signal(each, signal.SIG_IGN)  # nothing interrupts the way down
        raise KeyboardInterrupt

    for each in signals:
        signal.signal(each, stop)
    try:
        yield
    except KeyboardInterrupt:
        return


def _wait() -> None:
    """Wait for a signal. The system may give it to another thread: this one hears of it when it wakes."""
    while True:
        time.sleep(1)


@contextmanager
def _logging_to(path: Path) -> Iterator[None]:
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s.%(msecs)03dZ %(message)s", "%Y-%m-%dT%H:%M:%S"))
    handler.formatter.converter = time.gmtime  # type: ignore[union-attr]  # it was set just now
    logger = logging.getLogger(__package__)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        handler.close()


@contextmanager
def _stack(request: UpRequest, state_dir: StateDir, engine: Engine, credentials: Credentials) -> Iterator[str]:
    """Deploy the stack, and yield its endpoint once it is complete."""
    forget_the_users_aws(credentials)
    with serving(engine, state_dir.directory, credentials, port=request.port, data=request.data) as aws:
        _deploy(aws.connection(request.name), request.audit_retention_days)
        aws.pump.start()
        yield aws.url


def _deploy(connection: Connection, audit_retention_days: int | None) -> None:
    """Deploy the stack as `deploy` does, and add what moto leaves out of it."""
    from zae_limiter.maintenance import TTL

    from ..stack.deploy import DeployRequest, deploy

    chosen = {"audit_retention_days": audit_retention_days}
    deploy(connection, DeployRequest(chosen), lambda _: None)
    connection.client("dynamodb").update_time_to_live(
        TableName=connection.name, TimeToLiveSpecification={"Enabled": True, "AttributeName": TTL}
    )
