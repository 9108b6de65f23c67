"""A server that closes connections: a request that it certainly did not read is sent again, no other one ever is."""

import asyncio
import random
import sys
import threading
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from support.core.authority import Authority
from support.core.echoes import PATIENCE, STORE, Caller, Peer, get, get_in_task, serving
from zae_limiter.engines.dynamodb.aio.store import DynamoDBStore
from zae_limiter.operations.errors import OutcomeUnknown, StoreError, Unreachable

pytestmark = pytest.mark.usefixtures("nothing_of_this_computer")
linux_only = pytest.mark.skipif(sys.platform != "linux", reason="only there the kernel says what the other side has")


@pytest.fixture(params=["plain", "TLS"])
def by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Authority | None:
    """What the server has its certificate by, if it has one."""
    if request.param == "plain":
        return None
    authority: Authority = request.getfixturevalue("authority")
    monkeypatch.setenv("AWS_CA_BUNDLE", str(authority.bundle))
    return authority


@pytest.fixture
def blind(variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client looks whether a connection is closed just before it is."""
    monkeypatch.setattr(
        f"zae_limiter.engines.dynamodb.{'aio' if variant == 'async' else 'sync'}.connecting.Connection.is_fresh", True
    )


def close_behind_each_answer(peer: Peer, name: str) -> None:
    peer.answer(name)
    raise OSError


@linux_only
@pytest.mark.usefixtures("blind")
def test_a_request_behind_the_close_of_the_server_is_sent_again(
    opening: Callable[..., Caller], by: Authority | None
) -> None:
    with serving(close_behind_each_answer, by) as server:
        caller = opening(server.url)
        for number in range(6):
            assert caller.get(str(number)) == str(number)
            wait(server)
        assert server.asked == [(number, str(number)) for number in range(6)]


def wait(server: Any) -> None:
    """Wait until the server has closed what it opened; the client does not look meanwhile."""
    for _ in range(2000):
        if server.ended == server.opened:
            return
        threading.Event().wait(0.002)
    pytest.fail("the server does not close")


@pytest.mark.parametrize("how", ["closes", "resets"])
def test_a_request_that_the_server_read_is_never_sent_again(
    opening: Callable[..., Caller], by: Authority | None, how: str
) -> None:
    def treat(peer: Peer, name: str) -> None:
        if name == "first":
            return peer.answer(name)
        if how == "resets":
            peer.reset_at_close()
        raise OSError

    with serving(treat, by) as server:
        caller = opening(server.url)
        assert caller.get("first") == "first"
        with pytest.raises(OutcomeUnknown):
            caller.get("second")
        assert server.asked == [(0, "first"), (0, "second")]


@linux_only
@pytest.mark.usefixtures("blind")
def test_a_store_that_is_gone_for_good_is_asked_once_more_and_then_unreachable(opening: Callable[..., Caller]) -> None:
    with serving(close_behind_each_answer) as server:
        caller = opening(server.url)
        assert caller.get("first") == "first"
        wait(server)
        server.stop()
        with pytest.raises(Unreachable):
            caller.get("second")
        assert server.asked == [(0, "first")]


async def test_a_connection_that_is_handed_on_is_looked_at_first() -> None:
    handed_on = threading.Event()

    def treat(peer: Peer, name: str) -> None:
        peer.answer(name)
        if name != "opens":
            handed_on.wait(PATIENCE)
            raise OSError

    with serving(treat) as server:
        store = DynamoDBStore("t", endpoint_url=server.url, max_connections=1, **STORE)
        assert await get(store, "opens") == "opens"  # callers that come while the client opens have no order

        async def earlier() -> None:
            assert await get_in_task(store, "earlier") == "earlier"
            handed_on.set()
            wait(server)  # the application blocks the loop, and the next caller has the connection already

        first, second = asyncio.create_task(earlier()), asyncio.create_task(get_in_task(store, "behind"))
        await first
        assert await second == "behind"
        await store.close()


BEHAVIOURS = ("answers", "answers and closes", "closes", "resets", "half-closes and reads on")


@pytest.mark.slow
def test_whatever_the_server_does_to_connections_it_applies_nothing_twice(
    opening: Callable[..., Caller], by: Authority | None
) -> None:
    chance, lock = random.Random(29), threading.Lock()

    def treat(peer: Peer, name: str) -> None:
        with lock:
            how = chance.choices(BEHAVIOURS, (4, 4, 1, 1, 2))[0]
        if how.startswith(("answers", "half")):
            peer.answer(name)
        if how == "resets":
            peer.reset_at_close()
        if how.startswith("half"):
            peer.read_without_treating()
        if how != "answers":
            raise OSError

    outcomes: dict[str, str] = {}

    def ask(caller: Caller, name: str) -> None:
        try:
            outcomes[name] = "answered" if caller.get(name) == name else "wrong"
        except StoreError as error:
            outcomes[name] = type(error).__name__

    with serving(treat, by) as server:
        caller = opening(server.url, max_connections=3)
        for number in range(500):
            ask(caller, str(number))
        asked = Counter(name for _, name in server.asked)
    assert set(asked.values()) == {1}
    assert {name for name, outcome in outcomes.items() if outcome == "answered"} <= set(asked)
    assert not {name for name, outcome in outcomes.items() if outcome == "Unreachable"} & set(asked)
    assert Counter(outcomes.values())["answered"] > 300
