"""Run an AWS on a port of this machine, assembled from its parts, without a stack yet."""

import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..connection import Connection
from .credentials import Credentials, kept_id, random_id
from .data_plane import DataPlane
from .engines import Engine
from .server import Server, listen

if TYPE_CHECKING:
    from .lambdas.pool import Pool
    from .pump.pump import Pump
    from .pump.reader import Clients

REGION: Final = "us-east-1"
KEY_FILE: Final = "data-plane-key"  # beside the kept items, which DynamoDB Local keeps apart for each key
LONGEST_CALL_SECONDS: Final = 910  # a function runs 900 at most

# All that is asked here is on this machine.
_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy")


@dataclass(frozen=True, slots=True)
class Aws:
    """The address of a local AWS; ``pump`` delivers streams to functions once it is started."""

    url: str
    pump: "Pump"

    def connection(self, name: str) -> Connection:
        """Return a command's connection to a stack in this AWS."""
        return Connection(name, region=REGION, endpoint_url=self.url)


@contextmanager
def serving(
    engine: Engine, directory: Path, credentials: Credentials, *, port: int | None = 0, data: Path | None = None
) -> Iterator[Aws]:
    """Serve an AWS until the end of the block, to callers that have its credentials.

    Begin first what takes long to start or to import.
    """
    with ExitStack() as parts:
        listening = parts.enter_context(listen(port))
        host, port = listening.getsockname()
        url = f"http://{host}:{port}"
        key = kept_id(data / KEY_FILE) if data else random_id()
        data_plane = DataPlane(engine, directory / "data-plane.log", key)
        parts.callback(data_plane.close)

        from . import moto_stacks, moto_templates
        from .custom_resources import CustomResources
        from .functions import Functions
        from .gate import Gate
        from .moto_server import application
        from .pump.checkpoints import Checkpoints
        from .pump.pump import Pump
        from .router import Router

        moto = application()
        functions = Functions(parts.enter_context(_pool(directory, url, credentials)))
        clients = _clients(url)
        parts.callback(clients.close)
        pump = Pump(clients, Checkpoints(data / "stream.json" if data else None))
        custom_resources = CustomResources(functions, url, credentials.access_key_id)
        moto_stacks.install(custom_resources)
        moto_templates.install()
        items = data_plane.application(moto)
        router = Router(moto, items, functions, custom_resources, written=pump.ring, status=pump.tallies)
        parts.callback(Server(listening, Gate(router, port, credentials.access_key_id)).close)
        parts.callback(pump.close)
        yield Aws(url, pump)


def forget_the_users_aws(credentials: Credentials) -> None:
    """Use these credentials from now on, ignore the user's AWS configuration, and never reach the user's AWS."""
    for variable in [each for each in os.environ if each.startswith("AWS_") or each in _PROXIES]:
        del os.environ[variable]
    os.environ.update(
        credentials.variables(),
        AWS_CONFIG_FILE=os.devnull,
        AWS_SHARED_CREDENTIALS_FILE=os.devnull,
        AWS_EC2_METADATA_DISABLED="true",
    )


@contextmanager
def _pool(directory: Path, url: str, credentials: Credentials) -> "Iterator[Pool]":
    """Run functions until the end of the block; their logs stay, their code does not."""
    from .lambdas.pool import Pool

    code, logs = directory / "code", directory / "logs"
    for place in (code, logs):
        place.mkdir(exist_ok=True)
    pool = Pool(code=code, logs=logs, endpoint_url=url, credentials=credentials)
    try:
        yield pool
    finally:
        pool.close()
        shutil.rmtree(code, ignore_errors=True)


def _clients(url: str) -> "Clients":
    from botocore.config import Config

    from .pump.reader import Clients

    connection = Connection("", region=REGION, endpoint_url=url)
    # dynoxide's sequence numbers are shorter than the SDK lets through.
    unchecked = Config(parameter_validation=False)
    return Clients(
        functions=connection.client("lambda", read_seconds=LONGEST_CALL_SECONDS),
        queues=connection.client("sqs"),
        streams=connection.session.client("dynamodbstreams", endpoint_url=url, config=unchecked),
    )
