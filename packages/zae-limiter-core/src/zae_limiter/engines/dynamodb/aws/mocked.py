"""Notice that ``moto.mock_aws`` stands in for AWS in this process, as in a user's unit test.

It replaces what boto3 sends, and nothing else: our own client would ask the network for the real service, and aioboto3
cannot read its answers. moto is not imported: a process without it has no mock.
"""

import sys
from typing import Final
from urllib.parse import urlsplit

from ....operations.errors import NotApplied

_OF_AWS: Final = (".amazonaws.com", ".amazonaws.com.cn")
_INSTEAD: Final = (
    "use Repository.in_memory(), or SyncRepository, which boto3 serves; or let moto serve: "
    "server = moto.server.ThreadedMotoServer('127.0.0.1', port=0); server.start(); "
    "Repository.open(endpoint_url='http://{}:{}'.format(*server.get_host_and_port()))"
)


def is_mocked(url: str) -> bool:
    """Return whether moto answers what boto3 sends to ``url``: an endpoint of AWS, while a mock is active."""
    stubber = getattr(sys.modules.get("moto.core.models"), "botocore_stubber", None)
    return getattr(stubber, "enabled", False) is True and (urlsplit(url).hostname or "").endswith(_OF_AWS)


def refuse_mocked(url: str) -> None:
    """Raise ``NotApplied`` for an async client where a mock answers: none can be served by it."""
    if is_mocked(url):
        raise NotApplied(f"no client: moto.mock_aws does not serve async clients: {_INSTEAD}")
