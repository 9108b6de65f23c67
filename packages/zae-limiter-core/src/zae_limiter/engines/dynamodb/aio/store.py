# `just variants` writes the blocking variant of this module.
"""The async store over DynamoDB."""

from collections.abc import Callable, Mapping
from typing import Any

from ....clock.system import SystemClock
from ....operations.errors import Closed, StoreError
from ....operations.values import Operation
from ....runtime import forks
from ....runtime.elapsed import elapsed_ms
from ...engine import Capabilities, Store
from ...meter import Meter
from ..aws.identity import CallerIdentity
from ..aws.proxy_password import raise_without_password
from ..faults import is_of_store
from ..options import ClientOptions, Handed, HandedIn, Transport
from ..render import read_answer, read_date, render, render_body
from .primitives import DEADLINES, Lock, Send, StartsCalls, current_loop, opening_until, refreshed, run
from .transport import Client, Opener, counted


class DynamoDBStore(StartsCalls, Store):
    """A DynamoDB table, through one client that the first operation opens: one for an event loop, or for all threads.

    Times are in seconds. ``transport`` is ``http``, or ``sdk`` for aioboto3 or boto3. ``credentials`` are those of
    botocore, or of a session of boto3 or botocore; botocore finds some without. ``meter`` counts requests and units; it
    may be set until the first operation, and costs nothing without one. The date of every answer corrects ``clock``.
    """

    def __init__(
        self,
        table_name: str,
        *,
        region: str | None = None,
        endpoint_url: str | None = None,
        profile: str | None = None,
        credentials: Handed | None = None,
        connect_timeout: float = 1.0,
        read_timeout: float = 2.0,
        max_connections: int = 100,
        transport: Transport | None = None,
        meter: Meter | None = None,
        clock: SystemClock | None = None,
    ) -> None:
        self.table_name: str = table_name
        """The name of the table."""
        self.meter: Meter | None = meter
        """Counts requests and units, if there is one."""
        self.clock = clock or SystemClock()
        """The time, which the store corrects by its answers."""
        options = ClientOptions(
            table_name=table_name,
            transport=transport,
            region=region,
            endpoint_url=endpoint_url,
            profile=profile,
            credentials=None if credentials is None else HandedIn(credentials),
            connect_timeout=connect_timeout,
            read_timeout=read_timeout,
            max_connections=max_connections,
        )
        self._opener = Opener(options)
        self._identity = CallerIdentity(options)
        self._send: Send | None = None
        self._render: Callable[[Operation[Any], str], tuple[str, Any]] = render
        self._client: Client | None = None
        self._loop: object = None  # of the client, if it has one
        self._closed = False
        self._lock = Lock()
        forks.register(self)

    @property
    def capabilities(self) -> Capabilities:
        """What DynamoDB and this client can do."""
        return Capabilities(
            clock=self.clock, meter=self.meter, deadlines=DEADLINES, hot_items=True, expiry=True, lossy=True
        )

    async def perform(self, operation: Operation[Any]) -> Any:
        """Return the answer that ``operation`` promises, or raise a ``StoreError``."""
        name, request = self._render(operation, self.table_name)
        if self._send is None or self._loop is not current_loop():
            await self.connect()
        send, client = self._send, self._client
        if send is None or client is None:
            raise Closed("the store is closed")
        sent_ms = elapsed_ms()
        try:
            answer = await send(name, request)
        except StoreError:
            raise
        except client.errors as error:
            return self._read_error(operation, client, error, sent_ms)
        self._note_date(answer, sent_ms)
        return read_answer(operation, answer)

    def _read_error(self, operation: Operation[Any], client: Client, error: Any, sent_ms: float) -> None:
        """Raise the ``StoreError`` of an error answer, unless the operation had nothing to do."""
        response = getattr(error, "response", None) or {}
        if is_of_store(response):
            self._note_date(response, sent_ms)
        fault = client.fault_of(operation, error)
        if fault is not None:
            raise_without_password(fault, error)

    def _note_date(self, answer: Mapping[str, Any], sent_ms: float) -> None:
        """Correct the clock by the date of an answer of the store, good or bad."""
        date = read_date(answer)
        if date is not None:
            self.clock.on_answer(date, sent_ms, elapsed_ms())

    async def caller(self) -> str | None:
        """Return the ARN of the caller, which STS is asked for once; ``None`` where it cannot be known."""
        return await run(self._identity.arn)

    async def close(self) -> None:
        """Close the client; an operation after it is ``Closed``."""
        self._closed, self._send = True, None
        client, self._client = self._client, None
        if client is not None and self._loop is current_loop():
            await client.close()
        elif client is not None:
            client.abandon()

    def forget(self) -> None:
        """Open another client after a fork, and leave the parent's connections open."""
        if self._client is not None:
            self._client.leave_to_parent()
        self._client = self._send = self._loop = None
        self._lock = Lock()

    def __del__(self) -> None:
        """Abandon an open client, so that the SDK does not complain about a program that ends without closing."""
        if getattr(self, "_client", None) is not None:
            self._client.abandon()  # type: ignore[union-attr]

    async def connect(self) -> None:
        """Open a client if there is none. Raises ``StoreError``."""
        if self._loop is not (loop := current_loop()):
            self._move_to(loop)
        if self._send is not None:
            return
        lock = self._lock
        async with lock:
            self._check_open()
            service = await self._opener.find()
        if service is not None:  # without the lock: each caller waits for as long as it may
            await refreshed(service.credentials, opening_until())
        async with lock:
            self._check_open()
            if self._send is None:
                self._client = client = await self._opener.open(service)
                if self.meter is None:
                    self._render = render_body if client.takes_bodies else render
                    self._send = client.send
                else:
                    self._send = counted(client.send, self.meter)
                if self._closed:  # meanwhile: ``close`` does not wait for the lock, which its thread may hold
                    await self.close()
                    raise Closed("the store is closed")

    def _check_open(self) -> None:
        if self._closed:
            raise Closed("the store is closed")

    def _move_to(self, loop: object) -> None:
        """Drop the client of a loop that no longer runs: a connection cannot change its loop."""
        if self._client is not None:
            self._client.abandon()
        self._client = self._send = None
        self._loop, self._lock = loop, Lock()
