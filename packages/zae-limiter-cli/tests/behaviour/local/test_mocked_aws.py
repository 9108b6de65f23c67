"""What a user's unit test meets under ``moto.mock_aws``: boto3, or one error; never the network."""

import asyncio
import re
import socket
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from moto import mock_aws

from zae_limiter import RateLimiterUnavailable, Repository, SyncRepository
from zae_limiter.engines.dynamodb.options import Transport
from zae_limiter.exceptions import StoreRefusedError

PAGE = Path(__file__).resolve().parents[5] / "docs/guides/testing.md"
SECTION = PAGE.read_text(encoding="utf-8").partition("## With moto")[2].partition("\n## ")[0]
EXAMPLES = dict(re.findall(r"^```python (\S+)\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL))


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names that this process asks for, beside its own; none is answered."""
    names: list[str] = []
    resolve = socket.getaddrinfo

    def spy(host: Any, *args: Any, **options: Any) -> Any:
        if host in {"127.0.0.1", "localhost", None}:
            return resolve(host, *args, **options)
        names.append(str(host))
        raise socket.gaierror(-2, "no network in tests")

    monkeypatch.setattr(socket, "getaddrinfo", spy)
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "ZAEL_TRANSPORT", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    return names


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_the_page_ask_no_network(name: str, asked: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    scope: dict[str, Any] = {}
    exec(compile(EXAMPLES[name], name, "exec"), scope)
    (test,) = [each for key, each in scope.items() if key.startswith("test_")]
    test(*([monkeypatch] if name == "test_served.py" else []))
    assert asked == []


@pytest.mark.parametrize("transport", [None, "http", "sdk"])
def test_an_async_repository_says_what_to_write(transport: Transport | None, asked: list[str]) -> None:
    if transport == "sdk":
        pytest.importorskip("aioboto3", reason="aioboto3 is not installed: zae-limiter-core[aioboto3]")
    opening = Repository.open(region="us-east-1", create_table=True, transport=transport)
    with mock_aws(), pytest.raises(StoreRefusedError, match="ThreadedMotoServer"):
        asyncio.run(opening)
    assert asked == []


@pytest.mark.parametrize("endpoint_url", ["http://elsewhere.test", None])
def test_our_own_client_asks_where_the_mock_does_not_answer(endpoint_url: str | None, asked: list[str]) -> None:
    """A configured endpoint; and AWS itself, once the mock is over."""
    with mock_aws():
        pass
    with mock_aws() if endpoint_url else nullcontext(), pytest.raises(RateLimiterUnavailable, match="no network"):
        SyncRepository.open(region="us-east-1", endpoint_url=endpoint_url)
    assert asked
    assert set(asked) == {"elsewhere.test" if endpoint_url else "dynamodb.us-east-1.amazonaws.com"}
