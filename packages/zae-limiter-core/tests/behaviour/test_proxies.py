"""Proxies with a password, which answer what they like: what errors show, and what they say of a write."""

import os
import socket
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from traceback import format_exception
from typing import Any

import pytest

from support.core.echoes import AsyncCaller, SyncCaller
from support.core.transports import needs_aioboto3
from zae_limiter.operations.errors import OutcomeUnknown, StoreError, Unreachable

pytestmark = pytest.mark.slow
PASSWORD = "hunter2%40"
SHOWN = ("hunter2", b64encode(b"user:hunter2@").decode(), b64encode(f"user:{PASSWORD}".encode()).decode())
CALLERS = [pytest.param(SyncCaller, id="sync"), pytest.param(AsyncCaller, id="async", marks=needs_aioboto3)]
Answer = Callable[[bytes], bytes]


@pytest.fixture(autouse=True)
def _nothing_of_this_computer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("NO_PROXY", "")
    monkeypatch.setenv("no_proxy", "")


@contextmanager
def proxy(answer: Answer) -> Iterator[int]:
    """The port of a proxy that answers the first bytes of each connection, and closes it."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    connection, _ = listener.accept()
                    with connection, suppress(OSError):
                        connection.sendall(answer(connection.recv(65_536)))

        threading.Thread(target=accept, daemon=True).start()
        yield listener.getsockname()[1]


def error_behind(port: int, make: Any, url: str, monkeypatch: pytest.MonkeyPatch) -> StoreError:
    for name in ("HTTPS_PROXY", "HTTP_PROXY"):
        monkeypatch.setenv(name, f"http://user:{PASSWORD}@127.0.0.1:{port}")
    caller = make(url)
    try:
        with pytest.raises(StoreError) as caught:
            caller.get("name")
    finally:
        caller.close()
    return caught.value


def of(status: bytes, body: bytes = b"") -> bytes:
    return b"HTTP/1.1 %s\r\nContent-Length: %d\r\n\r\n%s" % (status, len(body), body)


def refused(_: bytes) -> bytes:
    return of(b"407 Proxy Authentication Required")


ANSWERS: dict[str, Answer] = {
    "refused": refused,
    "broken": lambda _: of(b"502 Bad Gateway", b"bad"),
    "moved": lambda _: b"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:1/\r\nContent-Length: 0\r\n\r\n",
    "garbage": lambda _: b"\x16\x03\x01garbage\r\n\r\n",
    "nothing": lambda _: b"",
    "echo in the status": lambda sent: of(b"502 " + sent.replace(b"\r\n", b" ")),
    "echo in the body": lambda sent: of(
        b"400 Bad Request", b'{"__type":"x#ValidationException","message":"%s"}' % sent.replace(b"\r\n", b" ")
    ),
}


@pytest.mark.parametrize("make", CALLERS)
@pytest.mark.parametrize("url", ["http://dynamodb.test", "https://dynamodb.test"])
@pytest.mark.parametrize("answer", ANSWERS)
def test_no_error_shows_the_password_of_a_proxy(
    answer: str, url: str, make: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with proxy(ANSWERS[answer]) as port:
        error = error_behind(port, make, url, monkeypatch)
    shown = "".join((*format_exception(error), repr(error), str(error)))
    assert [each for each in SHOWN if each in shown] == []


@pytest.mark.parametrize("make", CALLERS)
def test_a_request_whose_answer_a_proxy_loses_may_have_been_applied(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with proxy(ANSWERS["nothing"]) as port:
        assert isinstance(error_behind(port, make, "http://dynamodb.test", monkeypatch), OutcomeUnknown)


@pytest.mark.parametrize("make", CALLERS)
def test_a_proxy_that_is_not_there_was_sent_nothing(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    for url in ("http://dynamodb.test", "https://dynamodb.test"):
        assert isinstance(error_behind(port, make, url, monkeypatch), Unreachable)


def test_a_proxy_that_opens_no_tunnel_was_sent_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with proxy(refused) as port:
        assert isinstance(error_behind(port, SyncCaller, "https://dynamodb.test", monkeypatch), Unreachable)
