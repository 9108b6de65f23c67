"""Who the caller is, as STS tells it: asked once, in a bounded time, and only where DynamoDB is that of AWS."""

import asyncio
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from zae_limiter.engines.dynamodb.aio.store import DynamoDBStore
from zae_limiter.engines.dynamodb.aws import identity
from zae_limiter.engines.dynamodb.aws.identity import CallerIdentity
from zae_limiter.engines.dynamodb.options import ClientOptions
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore

ARN = "arn:aws:sts::123456789012:assumed-role/admin/ann"
ANSWER = (
    '<GetCallerIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><GetCallerIdentityResult>'
    f"<Arn>{ARN}</Arn><UserId>U</UserId><Account>123456789012</Account></GetCallerIdentityResult>"
    "<ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></GetCallerIdentityResponse>"
).encode()


class Sts(BaseHTTPRequestHandler):
    """Answers each request, and keeps what was asked; with a ``status`` it refuses."""

    asked: list[bytes]
    status = 200

    def do_POST(self) -> None:
        self.asked.append(self.rfile.read(int(self.headers["Content-Length"])))
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  the server's name
        """Say nothing."""


@pytest.fixture
def sts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[type[Sts]]:
    """An STS that clients of this process find by themselves."""
    for name in ("AWS_PROFILE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB", "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))

    class Own(Sts):
        asked: list[bytes] = []  # noqa: RUF012  of this test

    with ThreadingHTTPServer(("127.0.0.1", 0), Own) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", f"http://127.0.0.1:{server.server_port}")
        yield Own
        server.shutdown()


def test_a_store_asks_once_and_not_when_it_is_made(sts: type[Sts]) -> None:
    store = SyncDynamoDBStore("my-app")
    assert sts.asked == []
    assert (store.caller(), store.caller()) == (ARN, ARN)
    assert [b"Action=GetCallerIdentity" in each for each in sts.asked] == [True]


async def test_the_async_store_asks_beside_the_event_loop(sts: type[Sts]) -> None:
    store = DynamoDBStore("my-app")
    assert await store.caller() == ARN
    assert await store.caller() == ARN
    assert len(sts.asked) == 1
    await store.close()


@pytest.mark.parametrize("setting", ["option", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB"])
def test_another_endpoint_is_not_of_aws(sts: type[Sts], setting: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "http://127.0.0.1:1"
    if setting != "option":
        monkeypatch.setenv(setting, url)
    assert CallerIdentity(ClientOptions(endpoint_url=url if setting == "option" else None)).arn() is None
    assert sts.asked == []


@pytest.mark.parametrize("setting", ["mfa_serial = arn:aws:iam::1:mfa/ann", "credential_process = ask"])
def test_nobody_is_asked_for_a_second_code(sts: type[Sts], tmp_path: Path, setting: str) -> None:
    (tmp_path / "config").write_text(f"[profile careful]\n{setting}\n", encoding="utf-8")
    assert CallerIdentity(ClientOptions(profile="careful")).arn() is None
    assert sts.asked == []


def test_a_refusal_leaves_the_author_unknown_for_good(sts: type[Sts]) -> None:
    sts.status = 403
    caller = CallerIdentity(ClientOptions())
    assert (caller.arn(), caller.arn(), len(sts.asked)) == (None, None, 1)


@pytest.mark.parametrize("profile", ["missing"])
def test_a_profile_that_is_missing_is_left_to_the_first_request(sts: type[Sts], profile: str) -> None:
    assert CallerIdentity(ClientOptions(profile=profile)).arn() is None


def test_an_answer_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "SECONDS", 0.05)
    let_go = threading.Event()
    caller = CallerIdentity(ClientOptions(), ask=lambda _: ARN if let_go.wait(30) else None)
    began = time.monotonic()
    assert (caller.arn(), caller.arn()) == (None, None)
    assert time.monotonic() - began < 5
    let_go.set()


async def test_a_slow_answer_does_not_hold_up_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    let_go = threading.Event()
    store = DynamoDBStore("my-app")
    store._identity = CallerIdentity(ClientOptions(), ask=lambda _: ARN if let_go.wait(30) else None)
    asking = asyncio.create_task(store.caller())
    await asyncio.sleep(0.01)
    assert not asking.done()
    let_go.set()
    assert await asking == ARN
    await store.close()
