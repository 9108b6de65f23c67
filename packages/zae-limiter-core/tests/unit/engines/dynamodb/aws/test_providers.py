"""Credentials through botocore's own providers, on this machine."""

import hashlib
import json
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from botocore.credentials import RefreshableCredentials

from zae_limiter.engines.dynamodb.aws.credentials import THREAD_NAME, CredentialSource
from zae_limiter.engines.dynamodb.aws.endpoint import open_session
from zae_limiter.engines.dynamodb.options import ClientOptions
from zae_limiter.engines.dynamodb.protocol.requests import Credentials
from zae_limiter.operations.errors import Denied, Unreachable

Configure = Callable[[str], None]
LONG = 30.0


@pytest.fixture(autouse=True)
def _no_thread_stays() -> Iterator[None]:
    yield
    settle()


def settle() -> None:
    for thread in threading.enumerate():
        if thread.name == THREAD_NAME:
            thread.join(LONG)


def of_profile(profile: str | None = None) -> CredentialSource:
    return CredentialSource(open_session(ClientOptions(region="us-east-1", profile=profile)))


def stamp(seconds: float) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def keys_in(source: CredentialSource, seconds: float) -> set[str]:
    """The access keys that callers have within that time; there is one at any instant."""
    keys = set()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        keys.add((source.current() or source.refreshed().result(LONG)).access_key)
        time.sleep(0.005)
    return keys


@contextmanager
def served(answer: Callable[[], tuple[int, str]]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            status, text = answer()
            self.rfile.read(int(self.headers.get("Content-Length", 0)))
            self.send_response(status)
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text.encode())

        def do_POST(self) -> None:
            self.do_GET()

        def do_PUT(self) -> None:
            self.do_GET()

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_keys_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    source = of_profile()
    assert source.refreshed().result(LONG) == Credentials("AKIA", "secret", None)
    assert source.current() == Credentials("AKIA", "secret", None)
    monkeypatch.setenv("AWS_SESSION_TOKEN", "token")
    assert of_profile().refreshed().result(LONG).token == "token"


def test_keys_of_a_profile(configure: Configure) -> None:
    configure("[profile own]\naws_access_key_id = AKIA\naws_secret_access_key = secret\n")
    assert of_profile("own").refreshed().result(LONG) == Credentials("AKIA", "secret", None)


def test_no_keys_anywhere() -> None:
    with pytest.raises(Denied, match="AWS_PROFILE or AWS_ACCESS_KEY_ID"):
        of_profile().refreshed().result(LONG)


def test_half_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIA")
    with pytest.raises(Denied, match="AWS_SECRET_ACCESS_KEY"):
        of_profile().refreshed().result(LONG)


class Provider:
    """A provider of ``RefreshableCredentials`` that live two seconds."""

    def __init__(self) -> None:
        self.asked = 0
        self.fails = False

    def get_component(self, _: str) -> "Provider":
        return self

    def load_credentials(self) -> Any:
        return RefreshableCredentials.create_from_metadata(self.fetch(), self.fetch, "test")

    def fetch(self) -> dict[str, str]:
        self.asked += 1
        if self.fails:
            raise OSError("no route")
        key = f"key{self.asked}"
        return {"access_key": key, "secret_key": "secret", "token": "token", "expiry_time": stamp(2.0)}


@pytest.mark.slow
def test_refreshable_credentials_are_renewed_when_due_alone() -> None:
    provider = Provider()
    source = CredentialSource(provider)
    keys = keys_in(source, 3.2)
    settle()
    assert 2 <= len(keys) <= 5  # each second, though botocore would renew them at each call
    assert len(keys) < provider.asked <= len(keys) + 2  # the first ones are asked for twice, the last ones not met


@pytest.mark.slow
def test_refreshable_credentials_are_used_until_they_expire() -> None:
    provider = Provider()
    source = CredentialSource(provider)
    began = time.monotonic()
    first = source.refreshed().result(LONG)
    provider.fails = True
    had = asked = last = time.monotonic()
    while (keys := source.current()) is not None:
        assert keys == first
        last = asked
        time.sleep(0.005)
        asked = time.monotonic()
    assert time.monotonic() - began > 1.5
    assert last - had < 2.5  # whatever holds this test up
    with pytest.raises(Unreachable, match="no route"):
        source.refreshed().result(LONG)
    provider.fails = False
    assert source.refreshed().result(LONG) != first


PROCESS = """
import datetime, json, pathlib, sys
count = pathlib.Path(sys.argv[1])
number = int(count.read_text()) + 1 if count.exists() else 1
count.write_text(str(number))
expiry = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=float(sys.argv[2]))
print(json.dumps({"Version": 1, "AccessKeyId": f"key{number}", "SecretAccessKey": "secret", "SessionToken": "token",
                  "Expiration": expiry.isoformat()}))
"""


def process_profile(tmp_path: Path, life: float) -> str:
    script = tmp_path / "script.py"
    script.write_text(PROCESS)
    return f"[profile own]\ncredential_process = {sys.executable} {script} {tmp_path / 'count'} {life}\n"


@pytest.mark.slow
def test_a_process_is_asked_again_before_its_credentials_expire(configure: Configure, tmp_path: Path) -> None:
    configure(process_profile(tmp_path, 3.0))
    assert 2 <= len(keys_in(of_profile("own"), 4.0)) <= 5


def test_a_process_that_answers_with_the_past(configure: Configure, tmp_path: Path) -> None:
    configure(process_profile(tmp_path, -10.0))
    with pytest.raises(Denied, match="expired"):
        of_profile("own").refreshed().result(LONG)


def test_a_process_that_fails(configure: Configure) -> None:
    configure(f"[profile own]\ncredential_process = {sys.executable} -c 'raise SystemExit(\"log in first\")'\n")
    with pytest.raises(Denied, match="log in first"):
        of_profile("own").refreshed().result(LONG)
    configure("[profile own]\ncredential_process = /no/such/program\n")
    with pytest.raises(Denied, match="/no/such/program"):
        of_profile("own").refreshed().result(LONG)
    configure(f"[profile own]\ncredential_process = {sys.executable} -c 'print(1/3)'\n")
    with pytest.raises(Denied, match="no credentials"):
        of_profile("own").refreshed().result(LONG)


def test_the_credentials_of_a_container(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = 0

    def answer() -> tuple[int, str]:
        nonlocal asked
        asked += 1
        parts = {"AccessKeyId": f"key{asked}", "SecretAccessKey": "secret", "Token": "token"}
        return 200, json.dumps({**parts, "Expiration": stamp(3600)})

    with served(answer) as url:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{url}/keys")
        source = of_profile()
        assert source.refreshed().result(LONG) == Credentials("key1", "secret", "token")
        assert keys_in(source, 0.05) == {"key1"}
        settle()
        assert asked == 1


def test_a_container_that_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    with served(lambda: (403, "not yours")) as url:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{url}/keys")
        monkeypatch.setattr("botocore.utils.ContainerMetadataFetcher.SLEEP_TIME", 0)
        with pytest.raises(Denied, match="not yours"):
            of_profile().refreshed().result(LONG)


ASSUMED = """<AssumeRoleResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleResult><Credentials>
<AccessKeyId>key{number}</AccessKeyId><SecretAccessKey>secret</SecretAccessKey><SessionToken>token</SessionToken>
<Expiration>{expiry}</Expiration></Credentials></AssumeRoleResult></AssumeRoleResponse>"""
REFUSED = """<ErrorResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><Error><Type>Sender</Type>
<Code>AccessDenied</Code><Message>not authorized to assume it</Message></Error></ErrorResponse>"""
ROLE = """
[profile own]
role_arn = arn:aws:iam::123456789012:role/own
source_profile = base
[profile base]
aws_access_key_id = AKIA
aws_secret_access_key = secret
"""


@pytest.mark.slow
def test_an_assumed_role_is_assumed_again(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(ROLE)
    asked = 0

    def answer() -> tuple[int, str]:
        nonlocal asked
        asked += 1
        return 200, ASSUMED.format(number=asked, expiry=stamp(2.0))

    with served(answer) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", url)
        assert 2 <= len(keys_in(of_profile("own"), 2.5)) <= 5


def test_a_role_that_is_refused(configure: Configure, monkeypatch: pytest.MonkeyPatch) -> None:
    configure(ROLE)
    with served(lambda: (403, REFUSED)) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", url)
        with pytest.raises(Denied, match="not authorized to assume it"):
            of_profile("own").refreshed().result(LONG)


def test_the_role_of_an_instance(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = {"Code": "Success", "AccessKeyId": "key", "SecretAccessKey": "secret", "Token": "token"}
    answers = iter([(200, "a-token"), (200, "the-role"), (200, json.dumps({**parts, "Expiration": stamp(3600)}))])
    monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
    with served(lambda: next(answers)) as url:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", url)
        assert of_profile().refreshed().result(LONG) == Credentials("key", "secret", "token")


def test_the_token_of_a_web_identity(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("a.b.c")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/own")
    text = ASSUMED.replace("AssumeRole", "AssumeRoleWithWebIdentity").format(number=1, expiry=stamp(3600))
    with served(lambda: (200, text)) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", url)
        assert of_profile().refreshed().result(LONG)[:3] == ("key1", "secret", "token")


def test_a_session_of_sso(configure: Configure, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    configure(
        "[profile own]\nsso_session = mine\nsso_account_id = 123456789012\nsso_role_name = Dev\n"
        "[sso-session mine]\nsso_region = us-east-1\nsso_start_url = https://mine.awsapps.com/start\n"
    )
    cache = tmp_path / ".aws" / "sso" / "cache"
    cache.mkdir(parents=True)
    token = {"accessToken": "t", "expiresAt": stamp(3600), "startUrl": "https://mine.awsapps.com/start"}
    (cache / f"{hashlib.sha1(b'mine').hexdigest()}.json").write_text(json.dumps({**token, "region": "us-east-1"}))
    monkeypatch.setattr("botocore.tokens.SSOTokenProvider._SSO_TOKEN_CACHE_DIR", str(cache))
    keys = {"accessKeyId": "key", "secretAccessKey": "secret", "sessionToken": "token"}
    expiry = int((time.time() + 3600) * 1000)
    with served(lambda: (200, json.dumps({"roleCredentials": {**keys, "expiration": expiry}}))) as url:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SSO", url)
        assert of_profile("own").refreshed().result(LONG)[:3] == ("key", "secret", "token")
