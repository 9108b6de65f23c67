"""Both variants of store over HTTP servers that answer, refuse, fall silent and break off."""

import asyncio
import json
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from support.core.transports import CLIENTS
from zae_limiter.clock.system import SystemClock
from zae_limiter.engines.dynamodb.aio.store import DynamoDBStore
from zae_limiter.engines.dynamodb.sync.store import SyncDynamoDBStore
from zae_limiter.engines.memory.store import MemoryStore, SyncMemoryStore
from zae_limiter.engines.meter import Meter
from zae_limiter.operations.errors import (
    Closed,
    ConditionFailed,
    Denied,
    NotApplied,
    OutcomeUnknown,
    StoreError,
    Throttled,
    Unreachable,
)
from zae_limiter.operations.values import Conditions, EnableTtl, Get, Key, Operation, Put, Update

KEY = Key("p", "s")
DAY_NS = 24 * 3600 * 10**9
UPDATE = Update(KEY, add={"n": 1}, when=Conditions(exists=("PK",)))
Reply = tuple[int, dict[str, Any]]
Perform = Callable[..., list[Any]]


def perform_async(url: str, operations: list[Operation[Any]], **options: Any) -> list[Any]:
    async def run() -> list[Any]:
        store = DynamoDBStore("table-of-tests", region="us-east-1", endpoint_url=url, **options)
        try:
            return await asyncio.gather(*map(store.perform, operations), return_exceptions=True)
        finally:
            await store.close()

    return asyncio.run(run())


def perform_sync(url: str, operations: list[Operation[Any]], **options: Any) -> list[Any]:
    store = SyncDynamoDBStore("table-of-tests", region="us-east-1", endpoint_url=url, **options)

    def outcome(operation: Operation[Any]) -> Any:
        try:
            return store.perform(operation)
        except StoreError as error:
            return error

    try:
        with ThreadPoolExecutor(8) as threads:
            return list(threads.map(outcome, operations))
    finally:
        store.close()


@pytest.fixture(params=CLIENTS)
def perform(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Perform:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "none")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "none")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    variant, transport = request.param
    return partial(perform_sync if variant == "sync" else perform_async, transport=transport)


class _Server(ThreadingHTTPServer):
    request_queue_size = 128  # many first requests at once must not wait for a second SYN


@contextmanager
def server(reply: Callable[[str, dict[str, Any]], Reply]) -> Iterator[str]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            status, body = reply(self.headers["X-Amz-Target"].split(".")[1], request)
            content = json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            """Say nothing."""

    http = _Server(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield f"http://127.0.0.1:{http.server_port}"
    finally:
        http.shutdown()
        thread.join()
        http.server_close()


@contextmanager
def raw_server(treat: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that reads a request whole and then treats its connection as told."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def run() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.recv(65_536)
                treat(connection)

        thread = threading.Thread(target=run)
        thread.start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        thread.join()


def reset(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def be_silent(connection: socket.socket) -> None:
    connection.recv(1)  # until the client gives up


def talk_nonsense(connection: socket.socket) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwhat?")
    connection.recv(1)


def refusal(code: str, status: int = 400, **more: Any) -> Reply:
    return status, {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "why", **more}


ITEM = {"PK": {"S": "p"}, "SK": {"S": "s"}, "n": {"N": "1"}}


def test_an_answer_comes_back_read(perform: Perform) -> None:
    with server(lambda name, request: (200, {"Attributes": ITEM})) as url:
        assert perform(url, [UPDATE]) == [{"PK": "p", "SK": "s", "n": 1}]


def test_many_first_operations_share_one_client(perform: Perform) -> None:
    with server(lambda name, request: (200, {"Item": ITEM})) as url:
        assert perform(url, [Get(KEY)] * 30) == [{"PK": "p", "SK": "s", "n": 1}] * 30


def test_a_refusal_is_translated_and_not_repeated(perform: Perform) -> None:
    asked: list[str] = []

    def reply(name: str, request: dict[str, Any]) -> Reply:
        asked.append(name)
        return refusal("ProvisionedThroughputExceededException")

    with server(reply) as url:
        assert [type(outcome) for outcome in perform(url, [UPDATE])] == [Throttled]
    assert asked == ["UpdateItem"]


@pytest.mark.parametrize(
    ("code", "member"),
    [
        ("ProvisionedThroughputExceededException", "ThrottlingReasons"),
        ("RequestLimitExceeded", "ThrottlingReasons"),
        ("ThrottlingException", "throttlingReasons"),  # DynamoDB's model spells it so
    ],
)
def test_a_throttled_request_has_its_reasons(perform: Perform, code: str, member: str) -> None:
    table = "arn:aws:dynamodb:us-east-1:123456789012:table/t"
    given: dict[str, Any] = {member: [{"reason": "TableWriteKeyRangeThroughputExceeded", "resource": table}]}
    with server(lambda name, request: refusal(code, **given)) as url:
        [fault] = perform(url, [UPDATE])
    assert isinstance(fault, Throttled)
    assert fault.shows_hot_key
    assert str(fault) == f"{code}: why (TableWriteKeyRangeThroughputExceeded)"


def test_a_failed_condition_shows_the_item(perform: Perform) -> None:
    with server(lambda name, request: refusal("ConditionalCheckFailedException", Item=ITEM)) as url:
        [fault] = perform(url, [UPDATE])
    assert isinstance(fault, ConditionFailed)
    assert fault.item == {"PK": "p", "SK": "s", "n": 1}


def test_expiry_that_is_on_is_no_error(perform: Perform) -> None:
    twice = 400, {"__type": "x#ValidationException", "message": "TimeToLive is already enabled"}
    with server(lambda name, request: twice) as url:
        assert perform(url, [EnableTtl()]) == [None]


def test_a_server_error_leaves_the_outcome_unknown_and_is_not_repeated(perform: Perform) -> None:
    asked: list[str] = []

    def reply(name: str, request: dict[str, Any]) -> Reply:
        asked.append(name)
        return refusal("InternalServerError", 500)

    with server(reply) as url:
        assert [isinstance(outcome, OutcomeUnknown) for outcome in perform(url, [UPDATE])] == [True]
    assert asked == ["UpdateItem"]


@pytest.mark.parametrize("treat", [reset, be_silent, talk_nonsense, socket.socket.close])
def test_a_lost_answer_leaves_the_outcome_unknown(perform: Perform, treat: Callable[[socket.socket], None]) -> None:
    with raw_server(treat) as url:
        [fault] = perform(url, [UPDATE], read_timeout=0.3)
    assert type(fault) is OutcomeUnknown
    assert str(fault)


def test_what_nobody_listens_to_was_not_applied(perform: Perform) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    assert [type(fault) for fault in perform(url, [UPDATE])] == [Unreachable]


def test_a_name_that_is_unknown_was_not_applied(perform: Perform) -> None:
    assert [type(fault) for fault in perform("http://nowhere.invalid:1", [UPDATE])] == [Unreachable]


def test_without_credentials_nothing_was_applied(perform: Perform, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
    with server(lambda name, request: (200, {})) as url:
        assert [type(fault) for fault in perform(url, [UPDATE])] == [Denied]


def test_a_client_that_cannot_be_made_applied_nothing(perform: Perform) -> None:
    assert [type(fault) for fault in perform("no address", [UPDATE])] == [NotApplied]


def test_a_meter_asks_for_capacity_and_counts_it(perform: Perform) -> None:
    seen: list[dict[str, Any]] = []

    def reply(name: str, request: dict[str, Any]) -> Reply:
        seen.append(request)
        consumed = {"CapacityUnits": 2.0, "GlobalSecondaryIndexes": {"GSI1": {"CapacityUnits": 1.0}}}
        return 200, {"Attributes": ITEM, "ConsumedCapacity": consumed}

    meter = Meter()
    with server(reply) as url:
        perform(url, [UPDATE], meter=meter)
    assert [request["ReturnConsumedCapacity"] for request in seen] == ["INDEXES"]
    assert (meter.requests, meter.write_units, meter.index_units) == ({"UpdateItem": 1}, 1.0, 1.0)


@pytest.mark.parametrize("reply", [(200, {"Attributes": ITEM}), refusal("ThrottlingException")])
def test_the_date_of_good_and_bad_answers_corrects_the_clock(perform: Perform, reply: Reply) -> None:
    behind_ns = DAY_NS
    clock = SystemClock(wall_ns=lambda: time.time_ns() - behind_ns)
    assert abs(clock.now_ms() - time.time_ns() // 10**6) > 80_000_000
    behind_ns = 0  # somebody has set the wall clock, so that it agrees with the first answer
    with server(lambda name, request: reply) as url:
        perform(url, [UPDATE], clock=clock)
    assert abs(clock.now_ms() - time.time_ns() // 10**6) < 10_000


def test_without_an_answer_the_clock_stays(perform: Perform) -> None:
    clock = SystemClock(wall_ns=lambda: time.time_ns() - DAY_NS)
    (error,) = perform("http://127.0.0.1:1", [UPDATE], clock=clock)
    assert isinstance(error, Unreachable)
    assert abs(clock.now_ms() - time.time_ns() // 10**6) > 80_000_000


async def test_a_closed_store_applies_nothing() -> None:
    store = DynamoDBStore("t", region="us-east-1")
    await store.close()
    with pytest.raises(Closed):
        await store.perform(Get(KEY))


def test_a_closed_sync_store_applies_nothing() -> None:
    store = SyncDynamoDBStore("t", region="us-east-1")
    store.close()
    with pytest.raises(Closed):
        store.perform(Get(KEY))


async def test_stores_over_one_memory_see_the_same_items() -> None:
    one = MemoryStore()
    other = SyncMemoryStore(one.table)
    await one.perform(Put({"PK": "p", "SK": "s"}))
    assert other.perform(Get(KEY)) == {"PK": "p", "SK": "s"}
    await one.close()
    other.close()


def test_an_answer_that_did_not_come_says_what_is_certain_though_it_has_no_date(perform: Perform) -> None:
    (fault,) = perform("http://127.0.0.1:1", [Get(KEY)], meter=Meter())
    assert type(fault) is Unreachable
