"""A store that served this process and no longer does: its table is missing, something else answers in its place, it
refuses by an unknown code. An outage; for a process that it never served, a mistake that is named.
"""

import asyncio
import logging
import threading
from collections.abc import Iterator
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from support.core.echoes import PATIENCE
from support.core.transports import CLIENTS
from support.core.worlds import World, take, until
from zae_limiter import (
    Limit,
    Options,
    RateLimiter,
    RateLimiterUnavailable,
    RateLimitExceeded,
    Repository,
    SyncRateLimiter,
    SyncRepository,
    ZAELimiterError,
)
from zae_limiter.clock.system import SystemClock
from zae_limiter.engines.dynamodb.aio.store import DynamoDBStore
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.engines.memory.store import MemoryStore, SyncMemoryStore
from zae_limiter.exceptions import StoreRefusedError
from zae_limiter.operations.errors import TableMissing, Unrecognized
from zae_limiter.operations.values import Operation
from zae_limiter.stores import Store, SyncStore

RPM = Limit.per_hour("rpm", 100)
OPTIONS: dict[str, Any] = {"region": "us-east-1", "connect_timeout": PATIENCE, "read_timeout": PATIENCE}
PAGE = b"<html>blocked by the firewall</html>"


def error(code: str, message: str = "no") -> bytes:
    return b'{"__type":"com.amazonaws.dynamodb.v20120810#%s","message":"%s"}' % (code.encode(), message.encode())


# a missing table


@pytest.mark.parametrize("policy", ["allow", "share", "block"])
async def test_a_table_that_is_missing_later_is_an_outage_until_it_is_back(
    world: World, policy: str, caplog: pytest.LogCaptureFixture
) -> None:
    """As while it is restored: the requests of a process that was never served are in test_repository."""
    process = await world.process(default_limits=[RPM], on_unavailable=policy)
    limiter, wire = process
    await take(limiter, "e", "r", rpm=1)
    wire.break_down(TableMissing("Requested resource not found"))
    wire.sent()
    refused = 0
    for _ in range(20):
        try:
            async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
                assert (policy, lease.degraded) == ("allow", True)
        except RateLimiterUnavailable:
            refused += 1
    assert refused == (0 if policy == "allow" else 20)
    assert wire.sent().count("Update") <= 6  # then probes ask, and calls do not
    stats = process.repository.get_store_stats()
    assert (stats.breaker, stats.denied) == ("open", 0)
    assert len([line for line in caplog.records if "finds no table" in line.getMessage()]) == 1
    wire.repair()
    await until(lambda: process.repository.get_store_stats().breaker == "closed")
    async with limiter.acquire("e", "r", {"rpm": 1}) as lease:
        assert not lease.degraded


async def test_a_share_goes_on_while_the_table_is_missing(world: World) -> None:
    limiter, wire = await world.process(default_limits=[Limit.per_minute("rpm", 60)], on_unavailable="share")
    for _ in range(100):
        await take(limiter, "e", "r", rpm=1)
        world.clock.advance(1)
    wire.break_down(TableMissing("Requested resource not found"))
    async with limiter.acquire("e", "r", {"rpm": 60}) as lease:
        assert lease.degraded
    with pytest.raises(RateLimitExceeded):
        await take(limiter, "e", "r", rpm=1)


# an unknown code


async def test_an_unknown_code_is_an_outage_of_its_call_alone(world: World, caplog: pytest.LogCaptureFixture) -> None:
    """The content of a request may be the cause: the breaker, which is for all, stays closed."""
    process = await world.process(default_limits=[RPM])
    await take(process.limiter, "e", "r", rpm=1)
    process.wire.break_down(Unrecognized("LimitExceededException: x"))
    for _ in range(10):
        async with process.limiter.acquire("e", "r", {"rpm": 1}, on_unavailable="allow") as lease:
            assert lease.degraded
    with pytest.raises(RateLimiterUnavailable, match="LimitExceededException"):
        await take(process.limiter, "e", "r", rpm=1)
    assert process.repository.get_store_stats().breaker == "closed"
    assert len([line for line in caplog.records if "does not know" in line.getMessage()]) == 1
    process.wire.repair()
    assert await process.limiter.available("e", "r") == {"rpm": 99}  # it was certainly not applied


# something else answers


class Something(ThreadingHTTPServer):
    """Answers each request with the ``status``, the ``headers`` and the ``body`` of the moment."""

    daemon_threads = True

    def __init__(self) -> None:
        something = self
        self.status, self.body = 403, PAGE
        self.headers: dict[str, str] = {}

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                self.send_response_only(something.status)
                head = {"Content-Type": "text/html", "Content-Length": str(len(something.body)), **something.headers}
                for name, value in head.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(something.body)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        super().__init__(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"


@pytest.fixture
def something(nothing_of_this_computer: None) -> Iterator[Something]:
    with Something() as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield server
        server.shutdown()


FOREIGN = [  # status, body, headers
    *((status, PAGE, {}) for status in (404, 407, 421, 451)),
    (404, b"", {}),
    (200, b'{"status":"signed in"}', {}),
    (302, b"", {"Location": "http://127.0.0.1:1/login"}),
    (403, b'{"message":"Forbidden"}', {"Content-Type": "application/json"}),
    (403, PAGE, {}),
    (200, b"", {}),
    (200, PAGE, {}),
]
UNKNOWN = [
    (400, error("LimitExceededException"), {"x-amzn-RequestId": "ABC123"}),
    (400, error("SomethingNewException"), {}),
    (400, error("ValidationException", "KMS key is disabled"), {}),
    (418, b"", {"x-amzn-RequestId": "ABC123"}),
]


@pytest.mark.parametrize("client", CLIENTS)
def test_an_answer_that_is_not_the_stores_is_an_outage_of_a_store_that_served(
    client: tuple[str, str], something: Something, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "zae_limiter"), closing(Client(client, something.url)) as asked:
        for status, body, headers in [*FOREIGN, *UNKNOWN]:
            something.status, something.body, something.headers = status, body, headers
            found = asked.policies()
            assert found["allow"] == "degraded", (status, body)
            assert found["block"].startswith("RateLimiterUnavailable"), (status, body)
    lines = [line.getMessage() for line in caplog.records]
    assert any("something else answers in its place" in line and "403" in line for line in lines)
    assert any("a code that this release does not know" in line and "(request ABC123)" in line for line in lines)


@pytest.mark.parametrize("client", CLIENTS)
def test_only_the_dates_of_the_store_correct_the_clock(client: tuple[str, Any], something: Something) -> None:
    date = {"Date": "Tue, 01 Jan 2030 00:00:00 GMT"}
    something.headers = date
    with closing(Client(client, something.url)) as asked:
        for status, body in ((403, PAGE), (502, PAGE), (200, PAGE), (200, b"")):
            something.status, something.body = status, body
            asked.policies()
        assert asked.dates == []
        something.status, something.body = 400, error("ValidationException")
        asked.policies()
    assert {*asked.dates} == {*date.values()}


@pytest.mark.parametrize("client", CLIENTS)
def test_a_process_that_was_never_served_is_told_by_an_error(client: tuple[str, str], something: Something) -> None:
    variant, transport = client
    options = {**OPTIONS, "endpoint_url": something.url, "transport": transport, "on_unavailable": "allow"}
    answers = [(403, PAGE), (400, error("SomethingNewException")), (404, b""), (407, PAGE)]
    for status, body in answers if transport == "http" else answers[:1]:
        something.status, something.body = status, body
        named = "SomethingNew" if status == 400 else f"not DynamoDB's, with the status {status}"
        with pytest.raises(StoreRefusedError, match=named):
            SyncRepository.open(**options) if variant == "sync" else asyncio.run(Repository.open(**options))


@pytest.mark.parametrize("client", CLIENTS)
def test_what_the_content_of_a_request_may_cause_lets_nobody_pass(
    client: tuple[str, str], something: Something
) -> None:
    with closing(Client(client, something.url)) as asked:
        for status, body in (
            (400, error("ValidationException", "an operand has an incorrect type")),
            (400, error("SerializationException")),
            (413, PAGE),
        ):
            something.status, something.body = status, body
            assert {text.split()[0] for text in asked.policies().values()} == {"StoreRefusedError"}


class Noting(SystemClock):
    """Notes the dates that would correct it."""

    def __init__(self, dates: list[str]) -> None:
        super().__init__()
        self._dates = dates

    def on_answer(self, date: str, sent_ms: float, received_ms: float) -> None:
        self._dates.append(date)


class Client:
    """One client; each of its processes was served by another store before."""

    def __init__(self, client: tuple[str, Any], url: str) -> None:
        self._variant, transport = client
        make: Any = DynamoDBStore if self._variant == "async" else SyncDynamoDBStore
        self.dates: list[str] = []
        clock = Noting(self.dates)
        self._store = make("t", endpoint_url=url, transport=transport, clock=clock, **OPTIONS)
        self._runner = asyncio.Runner()

    def policies(self) -> dict[str, str]:
        """What an acquire becomes under each policy."""
        if self._variant == "async":
            return self._runner.run(in_async(self._store))
        store = SyncMoving(self._store)
        with SyncRateLimiter(SyncRepository.over(store, Options()), default_limits=[RPM]) as limiter:
            store.moved = True
            found = {}
            for policy in ("allow", "block"):
                try:
                    with limiter.acquire("e", "r", {"rpm": 1}, on_unavailable=policy) as lease:
                        found[policy] = "degraded" if lease.degraded else "counted"
                except ZAELimiterError as problem:
                    found[policy] = f"{type(problem).__name__} {problem}"
            return found

    def close(self) -> None:
        if self._variant == "async":
            self._runner.run(self._store.close())
        else:
            self._store.close()
        self._runner.close()


async def in_async(other: DynamoDBStore) -> dict[str, str]:
    store = Moving(other)
    async with RateLimiter(await Repository.over(store, Options()), default_limits=[RPM]) as limiter:
        store.moved = True
        found = {}
        for policy in ("allow", "block"):
            try:
                async with limiter.acquire("e", "r", {"rpm": 1}, on_unavailable=policy) as lease:
                    found[policy] = "degraded" if lease.degraded else "counted"
            except ZAELimiterError as problem:
                found[policy] = f"{type(problem).__name__} {problem}"
        return found


class Moving(Store):
    """A store in memory, until it has ``moved``."""

    moved = False

    def __init__(self, other: DynamoDBStore) -> None:
        self._first, self._other = MemoryStore(), other

    async def perform(self, operation: Operation[Any]) -> Any:
        return await (self._other if self.moved else self._first).perform(operation)

    async def close(self) -> None:
        """Leave the client open for the next process."""


class SyncMoving(SyncStore):
    """A store in memory, until it has ``moved``."""

    moved = False

    def __init__(self, other: SyncDynamoDBStore) -> None:
        self._first, self._other = SyncMemoryStore(), other

    def perform(self, operation: Operation[Any]) -> Any:
        return (self._other if self.moved else self._first).perform(operation)

    def close(self) -> None:
        """Leave the client open for the next process."""
