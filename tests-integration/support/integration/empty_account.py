"""An empty account at moto, which runs no Lambda, and reads templates as AWS does.

Never: a claim.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.request import Request, urlopen

import pytest


@contextmanager
def empty_account(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The account that the SDK finds in the environment until the end of the block."""
    from moto.awslambda.models import LambdaBackend
    from moto.cloudformation import parsing
    from moto.server import ThreadedMotoServer

    from zae_limiter_cli.local.moto_templates import mended

    monkeypatch.setattr(parsing, "clean_json", mended(parsing.clean_json))
    monkeypatch.setattr(LambdaBackend, "send_dynamodb_items", lambda *_: "")
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    urlopen(Request(f"http://{host}:{port}/moto-api/reset", method="POST")).close()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://{host}:{port}")
    yield
    server.stop()
