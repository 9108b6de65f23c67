"""What a signal handler raises reaches the caller that it interrupts: a ``TimeoutError``, as that of the sockets."""

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from support.core.authority import make_authority, openssl_is_here
from support.core.echoes import Peer, SyncCaller, serving
from zae_limiter.operations.errors import OutcomeUnknown, Unreachable

pytestmark = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="this system has no SIGALRM")
MINE = "my job took too long"
CLIENT = "zae_limiter.engines.dynamodb.sync."
TIMED = ["the answer", "the handshake", "the address"]


@contextmanager
def struck(error: BaseException) -> Iterator[None]:
    """Have a signal handler raise the error once this thread waits in a call of the store."""

    def strike(*_: object) -> None:
        raise error

    over, caller = threading.Event(), threading.get_ident()

    def strike_the_waiting() -> None:
        seen, since = None, time.monotonic()
        while not over.wait(0.01):
            if (place := waiting_place(caller)) is None or place != seen:
                seen, since = place, time.monotonic()
            elif time.monotonic() - since >= 0.2:
                signal.pthread_kill(caller, signal.SIGALRM)
                return

    before = signal.signal(signal.SIGALRM, strike)
    striker = threading.Thread(target=strike_the_waiting)
    striker.start()
    try:
        yield
    finally:
        over.set()
        striker.join()
        signal.signal(signal.SIGALRM, before)


def waiting_place(thread: int) -> tuple[int, int] | None:
    """Where a thread stays if it is in a call of the store."""
    frame = sys._current_frames()[thread]
    place, below = (id(frame), frame.f_lasti), frame
    while below is not None and not below.f_globals.get("__name__", "").startswith(CLIENT):
        below = below.f_back  # type: ignore[assignment]  # None at the bottom
    return None if below is None else place


def slowly(work: Callable[..., Any]) -> Callable[..., Any]:
    """The same work, a second later."""

    def late(*args: Any, **options: Any) -> Any:
        time.sleep(1)
        return work(*args, **options)

    return late


@pytest.fixture
def waits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    """The URL of a server that has a caller wait for something."""
    for name in [name for name in os.environ if name.startswith("AWS_") or name == "REQUESTS_CA_BUNDLE"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    if request.param == "the credentials":
        slow = f'{sys.executable} -c "import time; time.sleep(1)"'
        (tmp_path / "config").write_text(f"[default]\ncredential_process = {slow}\n")
    else:
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "x")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    if request.param == "the address":
        monkeypatch.setattr(socket, "getaddrinfo", slowly(socket.getaddrinfo))
    if request.param == "the handshake":
        if not openssl_is_here():
            pytest.skip("there is no command `openssl`")
        monkeypatch.setenv("AWS_CA_BUNDLE", str(make_authority(tmp_path).bundle))

    def treat(peer: Peer, name: str) -> None:
        time.sleep(1)

    with serving(treat) as server:
        yield server.url.replace("http:", "https:") if request.param == "the handshake" else server.url


@pytest.mark.parametrize("waits", [*TIMED, "the credentials"], indirect=True)
@pytest.mark.parametrize("error", [TimeoutError(MINE), TimeoutError("timed out"), TimeoutError()])
def test_the_time_limit_of_a_signal_handler_ends_the_call_that_it_interrupts(waits: str, error: TimeoutError) -> None:
    caller = SyncCaller(waits)
    with struck(error), pytest.raises(TimeoutError) as raised:
        caller.get("e")
    assert raised.value is error
    caller.close()


@pytest.mark.parametrize("waits", TIMED, indirect=True)
def test_the_time_out_of_the_call_itself_is_that_of_the_store(waits: str) -> None:
    caller = SyncCaller(waits, connect_timeout=0.2, read_timeout=0.2)
    with pytest.raises((Unreachable, OutcomeUnknown)):
        caller.get("e")
    caller.close()
