"""What the clients of the two variants do differently: the same names, here for asyncio, in ``sync`` for threads."""

import asyncio
from asyncio import get_running_loop as current_loop
from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from typing import Any, Final, Literal, TypeVar

from ....operations.errors import NotApplied
from ....operations.values import Operation
from ....runtime.elapsed import elapsed_ms
from ....runtime.forks import without_forks
from ....runtime.tasks import result_of
from ....runtime.threads import in_thread
from ...meter import Meter
from ..aws.credentials import CredentialSource, too_late
from ..aws.opening import Service, open_service, refuse_mocked
from ..options import OPENING_SECONDS, ClientOptions
from ..protocol.requests import Credentials
from ..render import read_answer

__all__ = [
    "DEADLINES",
    "Lock",
    "Send",
    "StartsCalls",
    "Waker",
    "current_loop",
    "is_for_sdk",
    "now",
    "open_http",
    "open_sdk",
    "opening_until",
    "read_service",
    "refreshed",
    "result_by",
    "run",
    "time_for",
]

T = TypeVar("T")
Send = Callable[[str, Any], Awaitable[Mapping[str, Any]]]

DEADLINES: Final[Literal["engine"]] = "engine"  # no time-out of a driver cuts off an opening that other tasks wait for


class Lock(asyncio.Lock):
    """A lock of one event loop, which may be closed when the lock is released: then there are no waiters."""

    def release(self) -> None:
        """Release the lock, and wake the first task that waits for it."""
        with suppress(RuntimeError):
            super().release()


class Waker:
    """Wakes one task, again and again. Its loop may be closed meanwhile."""

    def __init__(self) -> None:
        self._woken = current_loop().create_future()

    async def wait(self, until: float) -> None:
        """Wait until it is woken, or was since the last time; at most until an instant of the loop."""
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout_at(until):
                    await self._woken
        finally:
            self._woken = self._woken.get_loop().create_future()

    def wake(self) -> None:
        """Wake the task."""
        if not self._woken.done():
            with suppress(RuntimeError):  # the loop is closed
                self._woken.set_result(None)


class StartsCalls:
    """Starts a request without a task, if its client can (``starting``). The rest is that of ``DynamoDBStore``."""

    table_name: str
    meter: Meter | None
    _client: Any
    _loop: object
    _render: Callable[[Operation[Any], str], tuple[str, Any]]
    _note_date: Callable[[Mapping[str, Any], float], None]
    _read_error: Callable[[Operation[Any], Any, Any, float], None]

    def start(self, operation: Operation[Any], done: Callable[[Any, Exception | None], None]) -> bool:
        """Send an operation and return ``True``, if nothing has to be waited for; see ``Store.start``."""
        if self.meter is not None or self._loop is not current_loop():
            return False
        call = getattr(self._client, "ready_call", _not_ready)()
        if call is None:
            return False
        try:
            name, request = self._render(operation, self.table_name)
        except BaseException:
            call.give_up()
            raise
        call.start(name, request, partial(self._answered, operation, self._client, elapsed_ms(), done))
        return True

    def _answered(
        self,
        operation: Operation[Any],
        client: Any,
        sent_ms: float,
        done: Callable[[Any, Exception | None], None],
        answer: Mapping[str, Any] | None,
        error: Exception | None,
    ) -> None:
        try:
            if answer is not None:
                self._note_date(answer, sent_ms)
                found = read_answer(operation, answer)
            elif isinstance(error, client.errors):
                self._read_error(operation, client, error, sent_ms)
                found = None
            else:
                return done(None, error)
        except Exception as problem:  # noqa: BLE001 - the waiting caller gets it, whatever it is
            return done(None, problem)
        return done(found, None)


def _not_ready() -> None:
    """Return no call: the SDK starts none."""


def now() -> float:
    """Return the instant of the loop."""
    return current_loop().time()


def time_for(seconds: float) -> float:
    """Return how many of the seconds are left for this operation: all, as the driver's time-outs cancel its task."""
    return seconds


def opening_until() -> float:
    """Return the instant of the loop by which a client has to be open."""
    return now() + OPENING_SECONDS


async def run(work: Callable[[], T]) -> T:
    """Return the result of work that blocks; the event loop goes on."""
    return await asyncio.to_thread(work)


async def read_service(options: ClientOptions) -> Service:
    """Read the configuration of AWS, in a thread. Raises ``StoreError``."""
    return await _in_time(result_of(in_thread(partial(open_service, options))), opening_until())


def is_for_sdk(url: str) -> bool:
    """Return ``False``. Raises ``NotApplied`` where a mock answers for AWS: it serves boto3 alone."""
    refuse_mocked(url)
    return False


async def refreshed(source: CredentialSource, until: float | None = None) -> Credentials:
    """Wait until there are credentials. Raises ``StoreError``."""
    if (credentials := source.current()) is not None:
        return credentials
    refresh = result_of(source.refreshed())
    return await (refresh if until is None else _in_time(refresh, until))


async def result_by(future: "Future[T]", until: float) -> T:
    """Return the result of a future of a thread by ``until``, an instant of the loop. Raises ``TimeoutError``."""
    async with asyncio.timeout_at(until):
        return await result_of(future)


def open_http(service: Service, options: ClientOptions) -> Any:
    """Return a client over HTTP."""
    with without_forks():
        from .starting import StartingClient

    return StartingClient(service, options)


async def open_sdk(options: ClientOptions, *, has_proxy: bool) -> Any:
    """Return a client of aioboto3. Raises ``StoreError`` if none can be made."""
    try:
        with without_forks():
            from .sdk import open_sdk
    except ImportError as error:
        from ....runtime.extras import install_command

        why = f"the SDK transport needs aioboto3: {install_command('aioboto3')}"
        if has_proxy:
            why = f"{why}; or put the host of DynamoDB into NO_PROXY"
        raise NotApplied(f"cannot create a client: {why}") from error
    return await _in_time(open_sdk(options), opening_until())


async def _in_time(opening: Awaitable[T], until: float) -> T:
    seconds = until - now()
    try:
        async with asyncio.timeout_at(until):
            return await opening
    except TimeoutError as error:
        raise too_late(max(0.0, seconds)) from error
