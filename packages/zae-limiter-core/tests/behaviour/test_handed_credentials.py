"""`credentials=`: botocore's own, or those of a session, by which every request is signed, in all four clients."""

import asyncio
import json
import logging
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import boto3
import botocore.session
import pytest
from botocore.credentials import Credentials, ReadOnlyCredentials, RefreshableCredentials

from support.core.transports import CLIENTS
from zae_limiter import Options, Repository, SyncRepository, ValidationError
from zae_limiter.engines.dynamodb.aio.store import DynamoDBStore
from zae_limiter.engines.dynamodb.aws import identity
from zae_limiter.engines.dynamodb.options import ClientOptions
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.operations.values import Get, Key

SECRET = "secret-that-nobody-may-see"
LIFE = """
import os, sys, threading
from datetime import UTC, datetime, timedelta
from botocore.credentials import RefreshableCredentials
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.operations.values import Get, Key

renewals = [0]

def renew():
    renewals[0] += 1
    expiry = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    return dict(access_key=f"KEY{renewals[0]}", secret_key="s", token="t", expiry_time=expiry)

found = RefreshableCredentials.create_from_metadata(renew(), refresh_using=renew, method="test")
store = SyncDynamoDBStore("t", region="us-east-1", endpoint_url=sys.argv[1], credentials=found, transport=sys.argv[2])
store.perform(Get(Key("p", "s")))
found._refresh_lock.acquire()  # as by a thread that renews while the process forks
child = os.fork()
if child == 0:
    found._expiry_time = datetime.now(UTC)
    store._opener._service and setattr(store._opener._service.credentials, "_held", None)
    store.perform(Get(Key("p", "s")))
    os._exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


class Endpoint(ThreadingHTTPServer):
    """A table without items, and by whom each request was signed: the access key and the token."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.signed: list[tuple[str, str | None]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Answering(BaseHTTPRequestHandler):
    server: Endpoint
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        key = self.headers["Authorization"].partition("Credential=")[2].partition("/")[0]
        self.server.signed.append((key, self.headers["X-Amz-Security-Token"]))
        body = json.dumps({}).encode()
        self.send_response(200)
        self.send_header("x-amzn-RequestId", "a-request")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Keep quiet."""


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Endpoint]:
    for name in [name for name in os.environ if name.startswith("AWS_") or name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)
    config = "[default]\nregion = eu-west-3\n[profile other]\nregion = eu-west-2\n"
    (tmp_path / "config").write_text(config)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "OF-THE-ENVIRONMENT")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def ask(endpoint: Endpoint, client: tuple[str, str], **options: Any) -> tuple[str, str | None]:
    """By whom a request is signed."""
    variant, transport = client
    options = {"region": "us-east-1", "endpoint_url": endpoint.url, "transport": transport, **options}
    if variant == "sync":
        store = SyncDynamoDBStore("t", **options)
        store.perform(Get(Key("p", "s")))
        store.close()
    else:

        async def perform() -> None:
            store = DynamoDBStore("t", **options)
            await store.perform(Get(Key("p", "s")))
            await store.close()

        asyncio.run(perform())
    return endpoint.signed[-1]


def of_botocore() -> botocore.session.Session:
    session = botocore.session.Session()
    session.set_credentials("OF-BOTOCORE", SECRET, "token")
    return session


@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_handed_in_signs_and_not_what_the_environment_has(endpoint: Endpoint, client: tuple[str, str]) -> None:
    of_boto3 = boto3.Session("OF-BOTO3", SECRET, "token")
    given = {"OF-BOTOCORE": of_botocore(), "OF-BOTO3": of_boto3, "MINE": Credentials("MINE", SECRET, "token")}
    for key, credentials in given.items():
        assert ask(endpoint, client, credentials=credentials) == (key, "token")
    assert ask(endpoint, client) == ("OF-THE-ENVIRONMENT", None)


@pytest.mark.parametrize("client", CLIENTS)
def test_credentials_that_expire_are_renewed_by_botocore_in_the_object_of_the_program(
    endpoint: Endpoint, client: tuple[str, str]
) -> None:
    renewals: list[str] = []

    def renew() -> dict[str, str]:
        renewals.append(f"KEY{len(renewals)}")
        expiry = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
        return {"access_key": renewals[-1], "secret_key": SECRET, "token": "token", "expiry_time": expiry}

    expired = {**renew(), "expiry_time": (datetime.now(UTC) - timedelta(hours=1)).isoformat()}
    given = RefreshableCredentials.create_from_metadata(expired, refresh_using=renew, method="test")
    for _ in range(2):
        assert ask(endpoint, client, credentials=given) == ("KEY1", "token")
    assert (renewals, given.get_frozen_credentials().access_key) == (["KEY0", "KEY1"], "KEY1")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
@pytest.mark.parametrize("transport", ["http", "sdk"])
def test_a_child_renews_what_a_thread_of_its_parent_was_renewing(endpoint: Endpoint, transport: str) -> None:
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}
    command = [sys.executable, "-c", LIFE, endpoint.url, transport]
    assert subprocess.run(command, env=environment, timeout=60, check=False).returncode == 0
    assert [key for key, _ in endpoint.signed] == ["KEY1", "KEY2"]


@pytest.mark.parametrize(
    ("chosen", "environment", "expected"),
    [({}, {}, "eu-west-2"), ({"region": "eu-west-1"}, {}, "eu-west-1"), ({}, {"AWS_REGION": "eu-west-1"}, "eu-west-1")],
)
def test_the_profile_of_a_session_gives_the_region_unless_another_is_named(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, chosen: Any, environment: Any, expected: str
) -> None:
    from zae_limiter.engines.dynamodb.aws.endpoint import find_endpoint, open_session
    from zae_limiter.engines.dynamodb.options import HandedIn

    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    session = boto3.Session("MINE", SECRET, profile_name="other")
    options = ClientOptions(**chosen, credentials=HandedIn(session))
    assert find_endpoint(open_session(options), options).region == expected
    named = ClientOptions(**chosen, credentials=HandedIn(boto3.Session("MINE", SECRET, region_name="ap-south-1")))
    assert find_endpoint(open_session(named), named).region == (chosen.get("region") or "ap-south-1")
    assert session.region_name == "eu-west-2"  # nobody has changed it


def test_nothing_shows_a_secret(endpoint: Endpoint, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "zae_limiter")
    given = Credentials("MINE", SECRET, SECRET)
    ask(endpoint, ("sync", "http"), credentials=given)
    shown = [repr(Options(credentials=given)), repr(ClientOptions()), caplog.text]
    for wrong in (ReadOnlyCredentials("MINE", SECRET, SECRET), {"secret": SECRET}, (SECRET,), SECRET):
        with pytest.raises(ValidationError) as refused:
            Options(credentials=wrong)  # type: ignore[arg-type]
        assert "must be credentials of botocore, or a session of boto3 or botocore" in str(refused.value)
        shown += [str(refused.value), repr(refused.value)]
    assert not [text for text in shown if SECRET in text]


def test_what_does_not_go_together_is_one_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given = Credentials("MINE", SECRET)
    with pytest.raises(ValidationError, match=r"'Credentials': are for DynamoDB, and the store sqlite:.* is a file"):
        SyncRepository.sqlite(tmp_path / "limits.db", credentials=given)  # type: ignore[call-arg]
    with pytest.raises(ValidationError, match="the session in `credentials` has its own"):
        Options(credentials=of_botocore(), profile="other")
    with pytest.raises(ValidationError, match="must be credentials"):
        Options(credentials=Credentials)
    monkeypatch.setenv("ZAEL_STORE", "sqlite:///limits.db")
    assert Options(credentials=given).file is None
    assert SyncRepository.in_memory(credentials=given).name == "default"


def test_a_session_whose_credentials_are_for_coroutines_is_refused() -> None:
    aioboto3 = pytest.importorskip("aioboto3", reason="aioboto3 is not installed: zae-limiter-core[aioboto3]")
    with pytest.raises(ValidationError, match="gives its credentials to coroutines alone"):
        Options(credentials=aioboto3.Session())


async def test_a_session_without_credentials_is_a_refusal_that_says_so(endpoint: Endpoint, tmp_path: Path) -> None:
    session = botocore.session.Session()
    session.register_component("credential_provider", type("None_", (), {"load_credentials": lambda _: None})())
    with pytest.raises(Exception, match="Unable to locate credentials"):
        await Repository.open(stack="t", region="us-east-1", endpoint_url=endpoint.url, credentials=session)


def test_sts_is_asked_by_them_whatever_the_profile_would_ask_a_person_for(
    endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from zae_limiter.engines.dynamodb.options import HandedIn

    (tmp_path / "config").write_text("[default]\nregion = eu-west-3\nmfa_serial = arn:aws:iam::1:mfa/me\n")
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", endpoint.url)
    options = ClientOptions(credentials=HandedIn(Credentials("MINE", SECRET)))
    assert identity.caller_arn(options) is None  # the answer is no one of STS
    assert endpoint.signed == [("MINE", None)]
