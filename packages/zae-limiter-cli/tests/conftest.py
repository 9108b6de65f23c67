import os
import time
from collections.abc import Callable, Iterator
from functools import cache
from threading import Lock
from typing import Any
from urllib.request import Request, urlopen

import pytest

from zae_limiter_cli import confirmation

AWS = {
    "AWS_ACCESS_KEY_ID": "test",
    "AWS_SECRET_ACCESS_KEY": "test",
    "AWS_DEFAULT_REGION": "us-east-1",
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}


@pytest.fixture(scope="session")
def moto_server() -> Iterator[str]:
    """The address of moto's server in this process; its Lambdas are not run, which would take Docker.

    Its stacks read templates as those of `local up` do. Its tables are asked one request after the other: a transaction
    copies them, and breaks where they change meanwhile.
    """
    from moto.awslambda.models import LambdaBackend
    from moto.cloudformation import parsing
    from moto.dynamodb.responses import DynamoHandler
    from moto.server import ThreadedMotoServer

    from zae_limiter_cli.local.moto_templates import mended

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    turn, answer = Lock(), DynamoHandler.call_action

    def in_turn(handler: DynamoHandler) -> Any:
        with turn:
            return answer(handler)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LambdaBackend, "send_dynamodb_items", lambda *_: "")
        patch.setattr(DynamoHandler, "call_action", in_turn)
        patch.setattr(parsing, "clean_json", mended(parsing.clean_json))
        server.start()
        host, port = server.get_host_and_port()
        yield f"http://{host}:{port}"
        server.stop()


@pytest.fixture
def on_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody who can answer, with what a test gives as input."""
    monkeypatch.setattr(confirmation, "can_ask", lambda: True)


@pytest.fixture
def forget(moto_server: str) -> Callable[[], None]:
    """What empties the account."""
    return lambda: urlopen(Request(f"{moto_server}/moto-api/reset", method="POST")).close()


@pytest.fixture(scope="session")
def built_once() -> Iterator[None]:
    """Build the code of each Lambda once: what is installed stays the same, and to build it is half of a `deploy`."""
    from zae_limiter_cli.artifacts.builder import build_artifact

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zae_limiter_cli.stack.deploy.build_artifact", cache(build_artifact))
        yield


@pytest.fixture
def aws(moto_server: str, built_once: None, forget: Callable[[], None], monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of an AWS that has nothing in it yet, which clients of this process find by themselves."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "ZAEL_"))]:
        monkeypatch.delenv(name)
    for name, value in AWS.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("AWS_ENDPOINT_URL", moto_server)
    forget()
    return moto_server


@pytest.fixture(autouse=True, scope="session")
def _at_utc() -> Iterator[None]:
    """Have the machine's zone be UTC, wherever the tests run: commands print times in it, too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()
