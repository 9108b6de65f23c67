import http.client
import os
import socket
from collections.abc import Iterator
from contextlib import closing

import pytest

from zae_limiter_cli.local.gate import BY_A_PAGE
from zae_limiter_cli.local.lambdas.loop import KEY_HEADER
from zae_limiter_cli.local.lambdas.runtime_api import OF_ANOTHER_USER, Exited, Invocation, RuntimeApi

KEY = "KEYOFTHESTACK"
NEXT = "/2018-06-01/runtime/invocation/next"


@pytest.fixture
def api() -> Iterator[RuntimeApi]:
    api = RuntimeApi(KEY)
    api.calls.put(Invocation("id", b"secret", "arn", 0))
    yield api
    api.close()


def ask(api: RuntimeApi, method: str, headers: dict[str, str]) -> tuple[int, str, str | None]:
    with closing(http.client.HTTPConnection(api.address, timeout=60)) as connection:
        connection.request(method, NEXT, headers=headers)
        answer = connection.getresponse()
        return answer.status, answer.read().decode(), answer.getheader("Access-Control-Allow-Origin")


@pytest.mark.parametrize("method", ["GET", "POST", "OPTIONS"])
@pytest.mark.parametrize(
    "headers", [{"Origin": "http://evil.example"}, {"Sec-Fetch-Site": "cross-site"}, {"Host": "evil.example"}], ids=str
)
def test_a_web_page_gets_no_call_and_answers_none(api: RuntimeApi, method: str, headers: dict[str, str]) -> None:
    status, body, leave = ask(api, method, headers)
    assert (status, leave) == (403, None)
    assert body.startswith("the local AWS of zae-limiter")
    assert "secret" not in body
    api.events.put(Exited(0))
    assert api.events.get() == Exited(0)  # nothing came before it


def test_a_page_is_told_so(api: RuntimeApi) -> None:
    assert ask(api, "GET", {"Origin": "null"})[1] == f"{BY_A_PAGE}\n"


def test_the_process_of_the_function_gets_the_call(api: RuntimeApi) -> None:
    assert ask(api, "GET", {})[:2] == (200, "secret")


def test_who_shows_the_key_gets_the_call_where_the_system_does_not_tell_users_apart() -> None:
    with closing(RuntimeApi(KEY, user=os.geteuid() + 1)) as api:
        api.calls.put(Invocation("id", b"secret", "arn", 0))
        for headers in ({}, {KEY_HEADER: "another"}, {KEY_HEADER: "é"}):
            assert ask(api, "GET", headers)[:2] == (403, f"{OF_ANOTHER_USER}\n")
        assert ask(api, "GET", {KEY_HEADER: KEY})[:2] == (200, "secret")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be several users")
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_another_user_of_the_machine_gets_no_call_and_answers_none(api: RuntimeApi, method: str) -> None:
    os.seteuid(54321)
    try:
        connection = socket.socket()
    finally:
        os.seteuid(0)
    host, port = api.address.split(":")
    with connection:
        connection.settimeout(60)
        connection.connect((host, int(port)))
        connection.sendall(f"{method} {NEXT} HTTP/1.1\r\nHost: {api.address}\r\n\r\n".encode())
        answer = b"".join(iter(lambda: connection.recv(65_536), b""))
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"secret" not in answer
    api.events.put(Exited(0))
    assert api.events.get() == Exited(0)  # nothing came before it
