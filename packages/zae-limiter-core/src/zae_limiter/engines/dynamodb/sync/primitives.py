"""What the clients of the two variants do differently: the same names, here for threads, in ``aio`` for asyncio."""

from _thread import allocate_lock
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock
from time import monotonic as now
from typing import Any, Final, Literal, TypeVar

from ....runtime.forks import without_forks
from ...time_left import check_time, time_left
from ..aws.credentials import CredentialSource, too_late
from ..aws.opening import Service
from ..aws.opening import is_mocked as is_for_sdk
from ..aws.opening import open_service as read_service
from ..faults import without_boto3
from ..options import OPENING_SECONDS, ClientOptions
from ..protocol.requests import Credentials

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
Send = Callable[[str, Any], Mapping[str, Any]]

DEADLINES: Final[Literal["driver"]] = "driver"
RECHECK_SECONDS: Final = 0.05  # a thread looks again, in case the one before it was interrupted


def current_loop() -> object:
    """Return ``None``: a thread has no event loop, and may use the client of any other."""
    return None


class StartsCalls:
    """Starts no requests: the thread of a caller waits for its own."""


class Waker:
    """Wakes one thread, again and again."""

    def __init__(self) -> None:
        self._asleep = allocate_lock()  # bare: the exception of a signal handler interrupts it cleanly
        self._asleep.acquire()

    def wait(self, until: float) -> None:
        """Wait until it is woken, or was since the last time; at most until an instant of ``time.monotonic``, and not
        long.
        """
        self._asleep.acquire(timeout=max(0.0, min(until - now(), RECHECK_SECONDS)))

    def wake(self) -> None:
        """Wake the thread."""
        with suppress(RuntimeError):  # it has been woken already
            self._asleep.release()


def time_for(seconds: float) -> float:
    """Return how many of the seconds are left for this operation."""
    return min(time_left(), seconds)


def opening_until() -> float:
    """Return the instant of ``time.monotonic`` by which a client has to be open."""
    return now() + time_for(OPENING_SECONDS)


def run(work: Callable[[], T]) -> T:
    """Return the result of work that blocks."""
    return work()


def refreshed(source: CredentialSource, until: float) -> Credentials:
    """Wait until there are credentials. Raises ``StoreError``."""
    if (credentials := source.current()) is not None:
        return credentials
    seconds = max(0.0, until - now())
    future = source.refreshed()
    try:
        return future.result(seconds)
    except TimeoutError as error:
        if future.done():
            raise
        check_time(error, until)
        raise too_late(seconds) from error


def result_by(future: "Future[T]", until: float) -> T:
    """Return the result of a future by ``until``, an instant of ``time.monotonic``. Raises ``TimeoutError``."""
    return future.result(max(0.0, until - now()))


def open_http(service: Service, options: ClientOptions) -> Any:
    """Return a client over HTTP."""
    with without_forks():
        from .http import SyncHttpClient

    return SyncHttpClient(service, options)


def open_sdk(options: ClientOptions, *, has_proxy: bool) -> Any:  # noqa: ARG001 - boto3 speaks to proxies
    """Return a client of boto3. Raises ``StoreError`` if none can be made."""
    with without_forks():  # it makes TLS contexts
        try:
            from .sdk import open_sdk
        except ImportError as error:
            raise without_boto3(error) from error
        return open_sdk(options)
