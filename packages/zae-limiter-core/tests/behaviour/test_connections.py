"""What comes over a connection: an answer in time and whole, or none; in both variants, over real sockets."""

import asyncio
import gc
import json
import os
import socket
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

from processes.signals import points
from support.core.transports import ASYNC_TRANSPORTS, CLIENTS
from zae_limiter import Limit, Options, RateLimiter, RateLimiterUnavailable, Repository, SyncRepository
from zae_limiter.aio.driver import Driver
from zae_limiter.engines.dynamodb.aio.store import DynamoDBStore
from zae_limiter.engines.dynamodb.options import TRANSPORTS, Transport
from zae_limiter.engines.dynamodb.sync.connecting import Connection
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.engines.memory.store import MemoryStore
from zae_limiter.flows.steps import Flow
from zae_limiter.operations.errors import BudgetSpent, Denied, NotApplied, OutcomeUnknown, StoreError
from zae_limiter.operations.values import Get, Key, Operation
from zae_limiter.stores import Capabilities, Store
from zae_limiter.sync.driver import SyncDriver

GET = Get(Key("p", "s"))
BODY = json.dumps({"Item": {"PK": {"S": "p"}, "SK": {"S": "s"}}}).encode()
Serve = Callable[[socket.socket], None]
TIMEOUT = 0.3  # seconds
BUSY_SECONDS = 20  # an answer in time on any machine; whoever waits for these servers waits longer


@pytest.fixture(autouse=True)
def _credentials(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")


@contextmanager
def serving(serve: Serve) -> Iterator[str]:
    """The address of a server that treats each connection so, in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(10)

        def accept() -> None:
            while True:
                try:
                    connection, _ = listener.accept()
                except OSError:
                    return
                threading.Thread(target=treat, args=(connection,), daemon=True).start()

        def treat(connection: socket.socket) -> None:
            with connection:
                try:
                    serve(connection)
                except OSError:
                    return

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def answer(connection: socket.socket, *, crc: int | None = None, pause: float = 0) -> None:
    """Read a request, and answer it: a byte at a time, with a pause behind each, where there is one."""
    while b"\r\n\r\n" not in (request := connection.recv(65536)):
        if not request:
            return
    head = [b"HTTP/1.1 200 OK", b"Content-Type: application/x-amz-json-1.0", b"Content-Length: %d" % len(BODY)]
    if crc is not None:
        head.append(b"x-amz-crc32: %d" % crc)
    if pause:
        head.append(b"x-more: " + b"." * 1_000)  # a minute at least
    whole = b"\r\n".join([*head, b"", BODY])
    for part in [whole] if not pause else [whole[at : at + 1] for at in range(len(whole))]:
        connection.sendall(part)
        time.sleep(pause)


def silent(connection: socket.socket) -> None:
    """Read until the client leaves, and answer nothing."""
    while connection.recv(65536):
        pass


def ask() -> Flow[object]:
    return (yield GET)


@pytest.fixture(params=CLIENTS)
def get(request: pytest.FixtureRequest) -> Callable[[str], object]:
    """What a store of one variant answers, through its driver."""
    variant, transport = request.param
    options: dict[str, Any] = {"connect_timeout": TIMEOUT, "read_timeout": TIMEOUT, "transport": transport}

    def in_sync(url: str) -> object:
        store = SyncDynamoDBStore("t", region="eu-west-1", endpoint_url=url, **options)
        try:
            return SyncDriver(store, operation_timeout=0.6).run(ask())
        finally:
            store.close()

    async def in_async(url: str) -> object:
        store = DynamoDBStore("t", region="eu-west-1", endpoint_url=url, **options)
        try:
            return await Driver(store, operation_timeout=0.6).run(ask())
        finally:
            await store.close()

    return in_sync if variant == "sync" else lambda url: asyncio.run(in_async(url))


@pytest.mark.parametrize("crc", [None, zlib.crc32(BODY)])
def test_an_answer_that_comes_whole_is_taken(get: Callable[[str], object], crc: int | None) -> None:
    with serving(lambda connection: answer(connection, crc=crc)) as url:
        assert get(url) == {"PK": "p", "SK": "s"}


def test_an_answer_whose_checksum_is_wrong_is_refused(get: Callable[[str], object]) -> None:
    damaged = serving(lambda connection: answer(connection, crc=zlib.crc32(BODY) + 1))
    with damaged as url, pytest.raises(OutcomeUnknown, match="CRC32"):
        get(url)


@pytest.mark.parametrize(
    ("message", "shown"),
    [("The request signature we calculated does not match", "^InvalidSig"), ("Signature expired: 2015 is", "clock")],
)
def test_a_signature_that_the_store_refuses_is_a_refusal_of_the_credentials(
    get: Callable[[str], object], message: str, shown: str
) -> None:
    body = json.dumps({"__type": "com.amazon.coral.service#InvalidSignatureException", "message": message}).encode()
    head = b"HTTP/1.1 400 Bad Request\r\nContent-Length: %d\r\n\r\n" % len(body)

    def refuse(connection: socket.socket) -> None:
        if connection.recv(65536):
            connection.sendall(head + body)

    with serving(refuse) as url, pytest.raises(Denied, match=shown):
        get(url)


@pytest.mark.parametrize("pause", [0.05, 0.2])
def test_an_answer_that_trickles_is_cut_off_when_its_time_is_over(get: Callable[[str], object], pause: float) -> None:
    with serving(lambda connection: answer(connection, pause=pause)) as url:
        begun = time.monotonic()
        with pytest.raises(StoreError) as caught:
            get(url)
    assert isinstance(caught.value, OutcomeUnknown)
    assert 0.2 < time.monotonic() - begun < BUSY_SECONDS


def test_a_server_that_never_answers_is_not_waited_for(get: Callable[[str], object]) -> None:
    with serving(silent) as url:
        begun = time.monotonic()
        with pytest.raises(OutcomeUnknown):
            get(url)
    assert time.monotonic() - begun < BUSY_SECONDS


@pytest.mark.parametrize("transport", ASYNC_TRANSPORTS)
def test_a_loop_that_ends_during_a_call_reports_nothing(transport: Transport) -> None:
    reported: list[dict[str, Any]] = []
    with serving(lambda connection: time.sleep(3)) as url:
        store = DynamoDBStore("t", region="eu-west-1", endpoint_url=url, transport=transport)
        loop = asyncio.new_event_loop()
        loop.set_exception_handler(lambda _, context: reported.append(context))
        call = loop.create_task(store.perform(GET))
        loop.run_until_complete(asyncio.sleep(1))
        assert not call.done()
        loop.run_until_complete(loop.shutdown_asyncgens())
        call.cancel()
        loop.run_until_complete(asyncio.wait([call]))
        loop.run_until_complete(store.close())
        loop.close()
    assert reported == []


def test_a_loop_that_is_closed_during_calls_leaves_nothing_to_report(monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[object] = []
    gc.collect()  # what an earlier test has left is not a matter of this one
    monkeypatch.setattr(sys, "unraisablehook", reported.append)
    with serving(lambda connection: time.sleep(3)) as url:
        store = DynamoDBStore("t", region="eu-west-1", endpoint_url=url, max_connections=2)
        for pause in (0.0, 0.3):  # while they open a client, and while they wait for answers and connections
            loop = asyncio.new_event_loop()
            calls = [loop.create_task(store.perform(GET)) for _ in range(6)]
            loop.run_until_complete(asyncio.sleep(pause))
            for call in calls:
                call._log_destroy_pending = False  # type: ignore[attr-defined]  # destroyed on purpose
            loop.close()
            del call, calls, loop
            gc.collect()
        asyncio.run(store.close())
    assert reported == []


def test_a_loop_that_is_closed_while_it_connects_leaves_nothing_to_report(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, recwarn: pytest.WarningsRecorder
) -> None:
    reported: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", reported.append)

    async def begin(turns: int) -> asyncio.Task[None]:
        task = asyncio.create_task(take())
        for _ in range(turns):
            await asyncio.sleep(0)
        return task

    async def take() -> None:
        async with limiter.acquire("e", "r", {"rpm": 1}):
            pass

    with serving(silent) as url:  # which ends no handshake
        store = Moving(DynamoDBStore("t", region="eu-west-1", endpoint_url=url.replace("http", "https")))
        limiter = RateLimiter(asyncio.run(Repository.over(store, Options())), default_limits=[Limit.per_day("rpm", 9)])
        store.moved = True
        gc.freeze()  # what was there before is not looked at, each time
        for turns in range(40):
            loop = asyncio.new_event_loop()
            task = loop.run_until_complete(begin(turns))
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # destroyed on purpose
            loop.close()
            del task, loop
            gc.collect()
        asyncio.run(limiter.close())
    gc.collect()
    gc.unfreeze()
    assert (reported, caplog.messages, [str(warning.message) for warning in recwarn]) == ([], [], [])


class Moving(Store):
    """A store in memory, until it has ``moved``."""

    moved = False

    def __init__(self, other: DynamoDBStore) -> None:
        self._first, self._other = MemoryStore(), other

    @property
    def capabilities(self) -> Capabilities:
        return self._other.capabilities

    async def perform(self, operation: Operation[Any]) -> Any:
        return await (self._other if self.moved else self._first).perform(operation)

    async def close(self) -> None:
        await self._other.close()


def test_an_answer_that_never_pauses_is_cut_off_when_its_time_is_over() -> None:
    with socket.socket() as unused:
        connection = Connection(Pouring(unused))  # type: ignore[arg-type]
        connection._is_tls = True  # then it does not wait for bytes between two parts of an answer
        with pytest.raises(OutcomeUnknown, match="in time"):
            connection.call(b"request", time.monotonic() + 0.05)


class Pouring:
    """A socket that has bytes whenever it is asked, for a while."""

    def __init__(self, unused: socket.socket) -> None:
        self.fileno, self.getsockopt = unused.fileno, unused.getsockopt
        self._parts = iter([b"HTTP/1.1 200 OK\r\n\r\n", *[b"x"] * 5000])

    def setblocking(self, _: object) -> None: ...

    def send(self, data: bytes) -> int:
        return len(data)

    def recv(self, size: int) -> bytes:
        time.sleep(0.001)
        return next(self._parts)


@pytest.mark.long
def test_credentials_that_do_not_come_are_waited_for_no_longer_than_the_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "config").write_text(
        f"[default]\ncredential_process = {sys.executable} -c 'import time; time.sleep(60)'\n"
    )
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", os.devnull)
    store = SyncDynamoDBStore("t", region="eu-west-1", endpoint_url="http://127.0.0.1:9")
    driver = SyncDriver(store)

    def timed(_: int) -> float:
        begun = time.monotonic()
        with pytest.raises((StoreError, BudgetSpent), match=r"credentials did not come|no answer"):
            driver.run(ask(), budget=TIMEOUT)
        return time.monotonic() - begun

    with ThreadPoolExecutor(3) as pool:
        assert max(pool.map(timed, range(3))) < 45  # on a busy machine, too
    store.close()


OPENINGS = [client for client in CLIENTS if client.id != "sync-sdk"]  # boto3 waits in the caller's own thread


@pytest.mark.parametrize("client", OPENINGS)
def test_a_repository_does_not_open_for_ever_while_its_credentials_do_not_come(
    client: tuple[str, Transport], monkeypatch: pytest.MonkeyPatch
) -> None:
    variant, transport = client
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, os.devnull)
    for module in ("aio.primitives", "sync.primitives"):
        monkeypatch.setattr(f"zae_limiter.engines.dynamodb.{module}.OPENING_SECONDS", TIMEOUT)
    options: dict[str, Any] = {"region": "eu-west-1", "endpoint_url": "http://127.0.0.1:9", "transport": transport}
    with serving(silent) as provider:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", provider)
        with pytest.raises(RateLimiterUnavailable, match="credentials did not come within"):
            SyncRepository.open(**options) if variant == "sync" else asyncio.run(Repository.open(**options))


@pytest.mark.parametrize("transport", TRANSPORTS)
def test_what_the_sdk_raises_for_expired_credentials_is_a_store_error(
    monkeypatch: pytest.MonkeyPatch, transport: Transport
) -> None:
    monkeypatch.setenv("AWS_CREDENTIAL_EXPIRATION", "2020-01-01T00:00:00Z")
    store = SyncDynamoDBStore("t", region="eu-west-1", endpoint_url="http://127.0.0.1:9", transport=transport)
    with pytest.raises(StoreError, match="expired"):
        SyncDriver(store).run(ask())
    store.close()


def test_no_client_shows_the_password_of_an_endpoint(get: Callable[[str], object]) -> None:
    with pytest.raises(NotApplied, match="has credentials") as caught:
        get("http://user:secret@127.0.0.1:9")
    assert "secret" not in str(caught.value)


POOLS = {
    "http": ("sync/http.py", "sync/connecting.py", "sync/primitives.py", "threading.py", "weakref.py"),
    "sdk": ("connectionpool.py", "connections.py", "queue.py", "threading.py"),
}


class Struck(BaseException):
    """A signal handler's exception."""


def strike(number: int, pool: tuple[str, ...]) -> Callable[[FrameType, str, Any], Any]:
    """A trace function that raises where the interpreter looks for signals for the n-th time in a connection pool."""
    left = number

    def enters(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.endswith(pool):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return steps

    def steps(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if event == "opcode" and frame.f_lasti in points(frame.f_code):
            left -= 1
            if left == 0:
                raise Struck
        return steps

    return enters


@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")  # lost ones
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="later Pythons crash when they are traced by opcodes")
@pytest.mark.parametrize("transport", TRANSPORTS)
def test_an_interruption_anywhere_in_the_connection_pool_leaves_the_store_working(transport: Transport) -> None:

    def answer_all(connection: socket.socket) -> None:
        while connection.recv(1, socket.MSG_PEEK):
            answer(connection)

    with serving(answer_all) as url:
        store = SyncDynamoDBStore("t", region="us-east-1", endpoint_url=url, transport=transport, max_connections=2)
        store.perform(GET)
        number, struck = 0, True
        gc.disable()  # a lost slot must not need it
        while struck:
            number += 1
            sys.settrace(strike(number, POOLS[transport]))
            try:
                store.perform(GET)
            except Struck:
                pass
            else:
                struck = False
            finally:
                sys.settrace(None)
            if transport == "http":
                assert len(store._client._pool._free) == 2, f"a slot is lost after point {number}"  # type: ignore[union-attr]
            asking = threading.Thread(target=store.perform, args=(GET,), daemon=True)
            asking.start()
            asking.join(5)
            assert not asking.is_alive(), f"hangs after it was interrupted at point {number}"
        gc.enable()
        store.close()
    assert number > 20
