"""What becomes of connections: how many are opened, when one is used again, whom it trusts; over real sockets."""

import asyncio
import gc
import os
import random
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any

import pytest

from support.core.authority import Authority
from support.core.echoes import (
    PATIENCE,
    STORE,
    AsyncCaller,
    Caller,
    Peer,
    SyncCaller,
    get,
    get_in_task,
    serving,
    wait_for,
)
from zae_limiter.engines.dynamodb.aio.connecting import _connect_socket
from zae_limiter.engines.dynamodb.aio.store import DynamoDBStore
from zae_limiter.operations.errors import Closed, OutcomeUnknown, Unreachable, Untrusted

Open = Callable[..., Caller]
pytestmark = pytest.mark.usefixtures("nothing_of_this_computer")


@pytest.fixture
def trusted(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Authority:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(authority.bundle))
    return authority


@pytest.fixture(params=["plain", "TLS"])
def plain_or_tls(request: pytest.FixtureRequest) -> Authority | None:
    """What a test that runs over both has its server by."""
    return request.getfixturevalue("trusted") if request.param == "TLS" else None


def test_many_callers_open_no_more_connections_than_allowed(opening: Open) -> None:
    names = [[f"{caller}-{call}" for call in range(10)] for caller in range(200)]
    with serving() as server:
        assert opening(server.url, max_connections=20).get_all(names) == names
        assert 0 < server.opened <= 20
        assert len(server.asked) == 2000


def test_tasks_that_wait_for_a_connection_are_served_in_their_order() -> None:
    names = [str(number) for number in range(50)]
    with serving() as server:
        caller = AsyncCaller(server.url, max_connections=1)
        assert caller.get("open") == "open"  # in whatever order the first callers find the client open
        assert caller.get_all([[name] for name in names]) == [[name] for name in names]
        caller.close()
        assert [name for _, name in server.asked] == ["open", *names]


def test_threads_that_wait_for_a_connection_are_served_in_their_order() -> None:
    names, complete = [str(number) for number in range(50)], threading.Event()

    def treat(peer: Peer, name: str) -> None:
        complete.wait(PATIENCE)
        peer.answer(name)

    with serving(treat) as server, ThreadPoolExecutor(len(names)) as pool:
        caller = SyncCaller(server.url, max_connections=1)
        calls = []
        for number, name in enumerate(names, 1):
            calls.append(pool.submit(caller.get, name))
            wait_for(partial(lambda calls: len(server.asked) + caller.waiting() == calls, number))
        complete.set()
        assert [call.result(PATIENCE) for call in calls] == names
        caller.close()
        assert [name for _, name in server.asked] == names


@pytest.mark.slow
def test_a_request_that_waited_until_no_time_is_left_for_its_answer_is_not_sent(opening: Open) -> None:
    seconds = {"open": 0, "first": 0.95, "second": 0.87}  # then an eighth of its time would be left for the third

    def treat(peer: Peer, name: str) -> None:
        time.sleep(seconds.get(name, PATIENCE))
        peer.answer(name)

    with serving(treat) as server:
        caller = opening(server.url, max_connections=1, connect_timeout=1.0, read_timeout=1.0)
        assert caller.get("open") == "open"  # in whatever order the first callers find the client open
        assert isinstance(caller.outcomes(["first", "second", "third"])[2], Unreachable)
        assert "third" not in [name for _, name in server.asked]


def test_a_connection_that_the_server_closes_is_replaced_before_the_next_call(opening: Open) -> None:
    def treat(peer: Peer, name: str) -> None:
        peer.answer(name)
        raise OSError

    with serving(treat) as server:
        caller = opening(server.url)
        for number in range(3):
            assert caller.get(str(number)) == str(number)
            caller.rest(until=lambda: server.ended == server.opened)
        assert server.opened == 3


@pytest.mark.parametrize(("idle_seconds", "opened"), [(10.0, 1), (0.02, 2)])
def test_a_connection_that_was_idle_for_long_is_not_used_again(
    opening: Open, variant: str, monkeypatch: pytest.MonkeyPatch, idle_seconds: float, opened: int
) -> None:
    monkeypatch.setattr(
        f"zae_limiter.engines.dynamodb.{'aio' if variant == 'async' else 'sync'}.http.IDLE_SECONDS", idle_seconds
    )
    with serving() as server:
        caller = opening(server.url)
        caller.get("first")
        caller.rest(until=lambda: True)
        caller.get("second")
        assert server.opened == opened


def test_connections_that_nobody_uses_any_more_are_closed_by_the_calls_of_others(
    opening: Open, variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = f"zae_limiter.engines.dynamodb.{'aio' if variant == 'async' else 'sync'}.http"
    monkeypatch.setattr(f"{module}.IDLE_SECONDS", 0.2)
    monkeypatch.setattr(f"{module}.LOOK_SECONDS", 0.01)
    together = threading.Barrier(10)

    def treat(peer: Peer, name: str) -> None:
        if name == "crowd":
            together.wait(PATIENCE)
        peer.answer(name)

    with serving(treat) as server:
        caller = opening(server.url)
        caller.get_all([["crowd"]] * 10)
        assert server.opened == 10
        deadline = time.monotonic() + PATIENCE
        while server.ended < 9:
            caller.get("alone")
            caller.rest(until=lambda: True)
            assert time.monotonic() < deadline
        wait_for(lambda: server.opened - server.ended <= 1)


@pytest.mark.skipif(sys.platform != "linux", reason="only there a full backlog drops a connection without a word")
def test_an_address_that_does_not_answer_leaves_time_for_the_next_one(
    opening: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving() as server, mute() as dead:
        found = [(socket.AF_INET, socket.SOCK_STREAM, 0, "", place) for place in (dead, ("127.0.0.1", server.port))]
        for module in ("aio", "sync"):
            monkeypatch.setattr(
                f"zae_limiter.engines.dynamodb.{module}.connecting.addresses_of", lambda _host, _port: found
            )
        assert opening(server.url, connect_timeout=3.0).get("name") == "name"


@contextmanager
def mute() -> Iterator[tuple[str, int]]:
    """A place that drops each attempt to connect."""
    with socket.create_server(("127.0.0.1", 0), backlog=0) as listener, ExitStack() as stack:
        for _ in range(4):
            waiting = stack.enter_context(socket.socket())
            waiting.setblocking(False)
            waiting.connect_ex(listener.getsockname())
        yield listener.getsockname()


class OtherLoop:
    """An event loop that is none of asyncio's own, as uvloop's is."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.create_future, self.add_writer, self.remove_writer = (
            loop.create_future,
            loop.add_writer,
            loop.remove_writer,
        )


async def test_a_socket_is_connected_without_the_help_of_the_loop() -> None:
    loop: Any = OtherLoop(asyncio.get_running_loop())
    with socket.create_server(("127.0.0.1", 0)) as listener:
        place = listener.getsockname()
        for refused in (False, True):
            with socket.socket() as sock:
                sock.setblocking(False)
                if refused:
                    listener.close()
                    with pytest.raises(ConnectionRefusedError):
                        await _connect_socket(loop, sock, place)
                else:
                    await _connect_socket(loop, sock, place)
                    assert sock.getpeername() == place


@pytest.mark.parametrize("how", ["given up", "timed out"])
def test_a_connection_whose_answer_is_still_to_come_is_closed(opening: Open, how: str) -> None:
    late = threading.Event()

    def treat(peer: Peer, name: str) -> None:
        if name == "slow":
            late.wait(PATIENCE)
        peer.answer(name)

    with serving(treat) as server:
        caller = opening(server.url, read_timeout=PATIENCE if how == "given up" else 1.5)
        assert caller.get("first") == "first"
        if how == "given up":
            caller.give_up("slow")
        else:
            with pytest.raises(OutcomeUnknown):
                caller.get("slow")
        assert caller.get("second") == "second"
        late.set()
        caller.rest(until=lambda: server.ended == 1)
        assert caller.get("third") == "third"
        assert server.asked == [(0, "first"), (0, "slow"), (1, "second"), (1, "third")]


@pytest.mark.parametrize("how", ["with the answer", "later"])
def test_an_answer_that_nobody_asked_for_closes_its_connection(opening: Open, how: str) -> None:
    strays = threading.Event()

    def treat(peer: Peer, name: str) -> None:
        if name != "first":
            peer.answer(name)
        elif how == "later":
            peer.answer(name)
            strays.wait(PATIENCE)
            peer.answer("stray")
        else:
            peer.answer(name, "stray")

    with serving(treat) as server:
        caller = opening(server.url)
        assert caller.get("first") == "first"
        strays.set()
        caller.rest(until=lambda: True)
        assert caller.get_all([["second", "third"]]) == [["second", "third"]]
        wait_for(lambda: server.ended == 1)
        assert [number for number, _ in server.asked] == [0, 1, 1]


def test_nobody_gets_the_answer_of_a_cancelled_call_and_no_connection_is_lost(
    plain_or_tls: Authority | None,
) -> None:
    most, chance = 5, random.Random(7)
    together = threading.Barrier(most)

    def treat(peer: Peer, name: str) -> None:
        together.wait(PATIENCE) if name == "together" else time.sleep(0.002)
        peer.answer(name)

    async def call(store: DynamoDBStore, number: int) -> None:
        task = asyncio.ensure_future(get(store, str(number)))
        if number % 2:
            await asyncio.sleep(chance.random() * 0.1)
            task.cancel()
        with suppress(asyncio.CancelledError):
            assert await task == str(number)

    async def storm(url: str) -> None:
        store = DynamoDBStore("t", endpoint_url=url, max_connections=most, **STORE)
        await asyncio.gather(*(call(store, number) for number in range(100)))
        assert await asyncio.gather(*(get(store, "together") for _ in range(most))) == ["together"] * most
        await store.close()

    with serving(treat, plain_or_tls) as server:
        asyncio.run(storm(server.url))


def test_a_call_that_is_cancelled_as_it_gets_a_connection_gives_it_back() -> None:
    async def calls(url: str) -> None:
        store = DynamoDBStore("t", endpoint_url=url, max_connections=1, **STORE)
        await get(store, "first")
        waiting: list[asyncio.Task[str]] = []

        async def earlier() -> None:
            await get_in_task(store, "earlier")
            waiting[0].cancel()  # its connection is there, and it has not run since

        before = asyncio.ensure_future(earlier())
        waiting.append(asyncio.ensure_future(get_in_task(store, "waiting")))
        await before
        with pytest.raises(asyncio.CancelledError):
            await waiting[0]
        async with asyncio.timeout(PATIENCE):
            assert await get(store, "last") == "last"
        await store.close()

    with serving() as server:
        asyncio.run(calls(server.url))
        assert server.asked == [(0, "first"), (0, "earlier"), (0, "last")]


def test_the_authority_of_the_bundle_is_trusted(opening: Open, trusted: Authority) -> None:
    with serving(authority=trusted) as server:
        caller = opening(server.url)
        assert caller.get_all([["a", "b"], ["c", "d"]]) == [["a", "b"], ["c", "d"]]
        assert server.opened == 2


def test_no_other_authority_is_trusted(opening: Open, authority: Authority) -> None:
    with serving(authority=authority) as server:
        with pytest.raises(Untrusted, match="unable to get local issuer"):
            opening(server.url).get("a")
        assert server.asked == []


def test_a_certificate_for_another_host_is_refused(opening: Open, trusted: Authority) -> None:
    with serving(authority=trusted) as server:
        with pytest.raises(Untrusted, match=r"not valid for '127\.0\.0\.1'"):
            opening(f"https://127.0.0.1:{server.port}").get("a")
        assert server.asked == []


@pytest.mark.long(keep=1)
@pytest.mark.parametrize("end", ["closed", "dropped"])
def test_a_store_lives_through_ten_event_loops_and_leaves_no_connection_open(
    plain_or_tls: Authority | None, end: str, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    async def life(store: DynamoDBStore) -> list[str]:
        return await asyncio.gather(*(get(store, name) for name in "abc"))

    with serving(authority=plain_or_tls) as server:
        store = DynamoDBStore("t", endpoint_url=server.url, **STORE)
        for _ in range(10):
            assert asyncio.run(life(store)) == ["a", "b", "c"]
        if end == "closed":
            asyncio.run(store.close())
        del store
        gc.collect()  # an unclosed socket would be a warning, hence an error
        wait_for(lambda: server.ended == server.opened == 30)
    assert capfd.readouterr() == ("", "")
    assert caplog.records == []


@pytest.mark.long(keep=1)
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # the server has threads
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_the_connection_of_a_parent_outlives_a_child(opening: Open, plain_or_tls: Authority | None) -> None:
    with serving(authority=plain_or_tls) as server:
        caller = opening(server.url)
        assert caller.get("parent") == "parent"
        child = os.fork()
        if child == 0:  # pragma: no cover - another process
            in_child(caller)
        _, status = os.waitpid(child, 0)
        assert os.waitstatus_to_exitcode(status) == 0
        assert caller.get("parent") == "parent"
        assert server.asked == [(0, "parent"), (1, "child"), (0, "parent")]


def in_child(caller: Caller) -> None:
    signal.alarm(30)
    code = 1
    try:
        gc.collect()
        code = 0 if caller.get("child") == "child" else 2
        caller.close()
        gc.collect()
    finally:
        os._exit(code)


async def test_a_store_that_is_closed_during_calls_leaves_no_connection_open() -> None:
    def slowly(peer: Peer, name: str) -> None:
        time.sleep(0.05)
        peer.answer(name)

    with serving(slowly) as server:
        for pause, allowed in ((0.02, 1), (0, 9)):
            store = DynamoDBStore("t", endpoint_url=server.url, max_connections=allowed, **STORE)
            await get(store, "warm")
            calls = [asyncio.create_task(get(store, str(number))) for number in range(3)]
            await asyncio.sleep(pause)
            await store.close()
            outcomes = await asyncio.gather(*calls, return_exceptions=True)
            assert {type(outcome) for outcome in outcomes} <= {Closed, OutcomeUnknown}
        await asyncio.to_thread(wait_for, lambda: server.ended == server.opened)


async def test_a_connection_that_the_server_closed_while_the_loop_was_blocked_is_replaced() -> None:
    def once(peer: Peer, name: str) -> None:
        peer.answer(name)
        raise OSError

    with serving(once) as server:
        store = DynamoDBStore("t", endpoint_url=server.url, **STORE)
        assert await get(store, "one") == "one"
        wait_for(lambda: server.ended == 1)  # the application blocks the loop
        assert await get(store, "two") == "two"
        await store.close()
