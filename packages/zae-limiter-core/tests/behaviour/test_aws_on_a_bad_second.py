"""What botocore does for its users, and a client of our own must do, too: a resolver that is slow, keys that were
exchanged, settings of an operator. Over real sockets, in both variants.
"""

import json
import logging
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from botocore.credentials import ReadOnlyCredentials

from support.core.echoes import PATIENCE, AsyncCaller, Caller, Peer, SyncCaller, echo, serving, wait_for
from support.core.transports import CLIENTS
from zae_limiter.operations.errors import Denied, NotApplied, StoreError
from zae_limiter.runtime.addresses import Addresses

Open = Callable[..., Caller]
ANSWER = json.dumps({"Item": {"PK": {"S": "name"}, "SK": {"S": "s"}}}).encode()
pytestmark = pytest.mark.usefixtures("nothing_of_this_computer")


class Aws(ThreadingHTTPServer):
    """Answers those that sign with a key of ``keys``; ``seen`` has the headers of all requests."""

    daemon_threads = True

    def __init__(self) -> None:
        aws = self
        self.keys = {"x", "old"}
        self.seen: list[dict[str, str]] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                aws.seen.append({name.lower(): value for name, value in self.headers.items()})
                good = aws.keys & {self.headers["Authorization"].partition("Credential=")[2].partition("/")[0]}
                kind = "com.amazon.coral.service#UnrecognizedClientException"
                body = ANSWER if good else json.dumps({"__type": kind, "message": "invalid"}).encode()
                self.send_response(200 if good else 400)
                self.send_header("x-amzn-RequestId", "REQUEST-1")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def aws() -> Iterator[Aws]:
    with Aws() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


def opened(client: tuple[str, str], url: str, **options: Any) -> Caller:
    variant, transport = client
    return (AsyncCaller if variant == "async" else SyncCaller)(url, transport=transport, **options)


# keys that were exchanged


@pytest.fixture
def exchange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Writes the file of credentials."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    path = tmp_path / "credentials"
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))

    def write(key: str) -> None:
        path.write_text(f"[default]\naws_access_key_id = {key}\naws_secret_access_key = secret\n")

    write("old")
    return write


def test_a_file_of_credentials_that_was_exchanged_is_read_again_and_no_call_fails(
    opening: Open, aws: Aws, exchange: Callable[[str], None]
) -> None:
    caller = opening(aws.url)
    assert caller.get("name") == "name"
    exchange("new")
    aws.keys = {"new"}
    aws.seen.clear()
    assert caller.get_all([["name"]] * 8) == [["name"]] * 8
    keys = [each["authorization"].partition("Credential=")[2].partition("/")[0] for each in aws.seen]
    assert keys.count("new") == 8
    assert keys.count("old") <= 8  # each call was repeated once


def test_keys_that_are_refused_and_were_not_exchanged_are_refused_without_a_repeat(
    opening: Open, aws: Aws, exchange: Callable[[str], None]
) -> None:
    caller = opening(aws.url)
    assert caller.get("name") == "name"
    aws.keys = set()
    aws.seen.clear()
    for _ in range(5):
        with pytest.raises(Denied, match=r"UnrecognizedClientException: invalid \(request REQUEST-1\)"):
            caller.get("name")
    assert len(aws.seen) == 5


# a resolver


@contextmanager
def resolving(monkeypatch: pytest.MonkeyPatch, port: int) -> Iterator[dict[str, Any]]:
    """A resolver that answers when ``free`` is set, and raises ``error``; how many look-ups began and ended."""
    state: dict[str, Any] = {"free": threading.Event(), "error": None, "asked": 0, "ended": 0}
    state["free"].set()

    def resolve(host: str, _port: int) -> list[Any]:
        state["asked"] += 1
        assert state["free"].wait(PATIENCE)
        if state["error"]:
            raise state["error"]
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", ("127.0.0.1", port))]

    def look_up(host: Addresses, resolver: Callable[[str, int], list[Any]]) -> list[Any]:
        try:
            return whole(host, resolver)
        finally:
            state["ended"] += 1

    whole = Addresses.look_up
    monkeypatch.setattr(Addresses, "look_up", look_up)
    for module in ("aio", "sync"):
        monkeypatch.setattr(f"zae_limiter.engines.dynamodb.{module}.connecting.addresses_of", resolve)
    yield state
    state["free"].set()


def once(peer: Peer, name: str) -> None:
    """Answer, and close the connection."""
    echo(peer, name)
    raise OSError


def test_a_resolver_that_is_slow_or_away_takes_no_connection_from_whoever_knows_the_addresses(
    opening: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zae_limiter.runtime.addresses.FRESH", 0.0)
    with serving(once) as server, resolving(monkeypatch, server.port) as resolver:
        caller: Any = opening(f"http://dynamodb.example:{server.port}")

        def connect() -> None:
            assert caller.get("name") == "name"
            caller.rest(until=lambda: server.ended == server.opened)

        connect()
        resolver["free"].clear()
        begun = time.monotonic()
        for _ in range(4):
            connect()
        assert time.monotonic() - begun < PATIENCE / 2
        assert resolver["asked"] == 2  # the second one goes on, and others do not begin
        resolver["error"] = socket.gaierror("Temporary failure in name resolution")
        resolver["free"].set()
        wait_for(lambda: resolver["ended"] == resolver["asked"])
        connect()
        connect()
        assert server.opened == 7


def test_a_look_up_that_outlasts_its_caller_serves_the_next_one(opening: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(once) as server, resolving(monkeypatch, server.port) as resolver:
        resolver["free"].clear()
        caller = opening(f"http://dynamodb.example:{server.port}", connect_timeout=0.2, read_timeout=0.2)
        with pytest.raises(StoreError):
            caller.get("name")
        resolver["free"].set()
        wait_for(lambda: resolver["ended"] == 1)
        resolver["free"].clear()
        assert caller.get("name") == "name"


def test_a_resolver_that_is_slower_than_the_time_to_connect_makes_no_first_call_fail(
    opening: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving() as server, resolving(monkeypatch, server.port) as resolver:
        resolver["free"].clear()
        threading.Timer(0.5, resolver["free"].set).start()
        caller = opening(f"http://dynamodb.example:{server.port}", connect_timeout=0.2)
        assert caller.get("name") == "name"


def test_connections_that_are_opened_together_share_a_look_up(opening: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(10)

    def treat(peer: Peer, name: str) -> None:
        if name == "crowd":
            together.wait(PATIENCE)
        peer.answer(name)

    with serving(treat) as server, resolving(monkeypatch, server.port) as resolver:
        caller = opening(f"http://dynamodb.example:{server.port}")
        assert caller.get("first") == "first"
        assert caller.get_all([["crowd"]] * 10) == [["crowd"]] * 10
        assert (server.opened, resolver["asked"]) == (10, 1)


# settings


@pytest.mark.parametrize("client", CLIENTS)
def test_the_user_agent_carries_the_application(
    client: tuple[str, str], aws: Aws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SDK_UA_APP_ID", "shop/é\r\nX-Evil: 1")
    monkeypatch.setenv("AWS_EXECUTION_ENV", "AWS_Lambda_python3.12")
    caller = opened(client, aws.url)
    assert caller.get("name") == "name"
    caller.close()
    agent = aws.seen[0]["user-agent"]
    assert agent.partition(" app/")[2].split(" ")[0].startswith("shop")
    assert "zae-limiter/" in agent
    assert "exec-env/AWS_Lambda_python3.12" in agent
    assert "x-evil" not in aws.seen[0]
    assert agent.isascii()


def test_an_id_of_an_application_that_is_too_long_is_cut_and_told(
    opening: Open, aws: Aws, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AWS_SDK_UA_APP_ID", "a" * 51)
    opening(aws.url).get("name")
    assert aws.seen[0]["user-agent"].endswith(" app/" + "a" * 50)
    assert "AWS_SDK_UA_APP_ID" in caplog.text


@pytest.mark.parametrize("client", CLIENTS)
def test_settings_of_retries_that_do_not_apply_are_told_once(
    client: tuple[str, str], aws: Aws, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "10")
    monkeypatch.setenv("AWS_RETRY_MODE", "adaptive")
    aws.keys = set()
    with caplog.at_level(logging.WARNING, "zae_limiter"):
        for _ in range(2):
            caller = opened(client, aws.url)
            with pytest.raises(Denied):
                caller.get("name")
            caller.close()
    assert len(aws.seen) == 2
    lines = [line.getMessage() for line in caplog.records]
    assert len([line for line in lines if line.startswith("AWS_MAX_ATTEMPTS and AWS_RETRY_MODE")]) == 1


def test_an_endpoint_of_an_account_that_is_required_and_cannot_be_is_refused(
    opening: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_ACCOUNT_ID_ENDPOINT_MODE", "required")
    caller = opening(None)
    with pytest.raises(NotApplied, match=r"AWS_ACCOUNT_ID_ENDPOINT_MODE is required.*set AWS_ACCOUNT_ID"):
        caller.get("name")


@pytest.mark.parametrize("mode", ["required", "preferred", None])
def test_requests_go_to_the_endpoint_of_the_account(
    opening: Open, monkeypatch: pytest.MonkeyPatch, mode: str | None
) -> None:
    asked: list[str] = []

    def resolve(host: str, _port: int) -> list[Any]:
        asked.append(host)
        raise socket.gaierror("there is no network in tests")

    for module in ("aio", "sync"):
        monkeypatch.setattr(f"zae_limiter.engines.dynamodb.{module}.connecting.addresses_of", resolve)
    monkeypatch.setenv("AWS_ACCOUNT_ID", "123456789012")
    if mode is not None:
        monkeypatch.setenv("AWS_ACCOUNT_ID_ENDPOINT_MODE", mode)
    with pytest.raises(StoreError):
        opening(None).get("name")
    if "account_id" in ReadOnlyCredentials._fields:
        assert asked == ["123456789012.ddb.us-east-1.amazonaws.com"]
    else:  # an older botocore knows no accounts
        assert asked == ([] if mode == "required" else ["dynamodb.us-east-1.amazonaws.com"])
