"""A store whose certificate does not verify: a mistake of the deployment, or an outage once the store has served."""

import asyncio
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import pytest

from support.core.authority import Authority
from support.core.echoes import PATIENCE, AsyncCaller, SyncCaller, serving
from support.core.transports import CLIENTS, needs_aioboto3
from zae_limiter import Limit, Options, RateLimiter, RateLimiterUnavailable, Repository, SyncRateLimiter, SyncRepository
from zae_limiter.engines.dynamodb.aio.store import DynamoDBStore
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.engines.memory.store import MemoryStore, SyncMemoryStore
from zae_limiter.exceptions import CertificateError
from zae_limiter.operations.values import Operation
from zae_limiter.stores import Store, SyncStore

pytestmark = pytest.mark.usefixtures("nothing_of_this_computer")
RPM = Limit.per_hour("rpm", 100)
OPTIONS: dict[str, Any] = {"region": "us-east-1", "connect_timeout": PATIENCE, "read_timeout": PATIENCE}


WRONG = {
    "unknown": "AWS_CA_BUNDLE",
    "expired": "certificate has expired",
    "of another name": r"'127\.0\.0\.1'.*endpoint_url",
}


@pytest.fixture(params=WRONG)
def wrong(request: pytest.FixtureRequest, authority: Authority, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A server whose certificate does not verify, its URL, its host and the reason."""
    if request.param != "unknown":
        monkeypatch.setenv("AWS_CA_BUNDLE", str(authority.bundle))
    shown = authority.with_expired() if request.param == "expired" else authority
    host = "127.0.0.1" if request.param == "of another name" else "localhost"
    with serving(authority=shown) as server:
        yield server, f"https://{host}:{server.port}", f"{host}:{server.port}", WRONG[request.param]


@pytest.mark.parametrize("client", CLIENTS)
def test_a_process_that_was_never_served_is_told_whatever_its_policy(client: tuple[str, str], wrong: Any) -> None:
    server, url, host, reason = wrong
    with pytest.raises(CertificateError, match=reason) as caught:
        opening(client, url)
    assert caught.value.host == host
    assert host in str(caught.value)
    assert server.asked == []


def opening(client: tuple[str, str], url: str) -> None:
    variant, transport = client
    options = {**OPTIONS, "endpoint_url": url, "transport": transport, "on_unavailable": "allow"}
    if variant == "sync":
        SyncRepository.open(**options).close()
    else:
        asyncio.run(Repository.open(**options))


@pytest.mark.parametrize("variant", ["sync", pytest.param("async", marks=needs_aioboto3)])
def test_a_proxy_changes_nothing(
    variant: str, wrong: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    server, url, host, reason = wrong
    with tunnels() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        monkeypatch.setenv("NO_PROXY", "")
        with pytest.raises(CertificateError, match=reason) as caught:
            opening((variant, "http"), url)
    assert caught.value.host == host
    assert "requests go through the SDK" in caplog.text
    assert server.asked == []


@pytest.mark.parametrize("variant", ["sync", pytest.param("async", marks=needs_aioboto3)])
def test_a_certificate_that_verifies_is_trusted_behind_a_proxy_too(
    variant: str, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(authority.bundle))
    monkeypatch.setenv("NO_PROXY", "")
    with serving(authority=authority) as server, tunnels() as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy)
        caller = AsyncCaller(server.url) if variant == "async" else SyncCaller(server.url)
        assert caller.get("name") == "name"
        caller.close()


@contextmanager
def tunnels() -> Iterator[str]:
    """The address of a proxy, which connects its clients to where they want."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=tunnel, args=(listener.accept()[0],), daemon=True).start()

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def tunnel(client: socket.socket) -> None:
    head = client.recv(65536)
    host, _, port = head.split()[1].partition(b":")
    with client, socket.create_connection((host.decode(), int(port))) as target:
        client.sendall(b"HTTP/1.1 200 OK\r\n\r\n")
        there = threading.Thread(target=pump, args=(client, target), daemon=True)
        there.start()
        pump(target, client)
        there.join()


def pump(source: socket.socket, sink: socket.socket) -> None:
    with suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    for end in (source, sink):
        with suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("client", CLIENTS)
def test_a_store_that_served_is_away_while_its_certificate_does_not_verify(
    client: tuple[str, str], wrong: Any, caplog: pytest.LogCaptureFixture
) -> None:
    _, url, host, reason = wrong
    variant, transport = client
    run = in_sync if variant == "sync" else in_async
    with caplog.at_level(logging.ERROR, "zae_limiter.operations.health"):
        stats = run(url, transport, reason)
    assert (stats.untrusted, stats.opened, stats.denied) == (stats.unanswered, 1, 0)
    assert stats.unanswered in {3, 4}, "the breaker may probe before the figures are read"
    lines = [record.getMessage() for record in caplog.records if "certificate" in record.getMessage()]
    assert "served this process before" in lines[0]
    assert host in lines[0]


def in_sync(url: str, transport: Any, reason: str) -> Any:
    store = SyncMoving(SyncDynamoDBStore("t", endpoint_url=url, transport=transport, **OPTIONS))
    with SyncRateLimiter(SyncRepository.over(store, Options()), default_limits=[RPM]) as limiter:
        store.moved = True
        for _ in range(2):
            with limiter.acquire("e", "r", {"rpm": 1}, on_unavailable="allow") as lease:
                assert lease.degraded
        with (
            pytest.raises(RateLimiterUnavailable, match=reason),
            limiter.acquire("e", "r", {"rpm": 1}),
        ):
            pytest.fail("the block ran")
        return limiter.repository.get_store_stats()


def in_async(url: str, transport: Any, reason: str) -> Any:
    async def life() -> Any:
        store = Moving(DynamoDBStore("t", endpoint_url=url, transport=transport, **OPTIONS))
        async with RateLimiter(await Repository.over(store, Options()), default_limits=[RPM]) as limiter:
            store.moved = True
            for _ in range(2):
                async with limiter.acquire("e", "r", {"rpm": 1}, on_unavailable="allow") as lease:
                    assert lease.degraded
            with pytest.raises(RateLimiterUnavailable, match=reason):
                async with limiter.acquire("e", "r", {"rpm": 1}):
                    pytest.fail("the block ran")
            return limiter.repository.get_store_stats()

    return asyncio.run(life())


class Moving(Store):
    """A store in memory, until it has ``moved``."""

    moved = False

    def __init__(self, other: DynamoDBStore) -> None:
        self._first, self._other = MemoryStore(), other

    async def perform(self, operation: Operation[Any]) -> Any:
        return await (self._other if self.moved else self._first).perform(operation)

    async def close(self) -> None:
        await self._other.close()


class SyncMoving(SyncStore):
    """A store in memory, until it has ``moved``."""

    moved = False

    def __init__(self, other: SyncDynamoDBStore) -> None:
        self._first, self._other = SyncMemoryStore(), other

    def perform(self, operation: Operation[Any]) -> Any:
        return (self._other if self.moved else self._first).perform(operation)

    def close(self) -> None:
        self._other.close()
