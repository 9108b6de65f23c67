"""What the clients of the two variants do differently: the same names, here for threads, in ``aio`` for asyncio."""

import time
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, Final, Literal, TypeVar

from ....runtime.forks import without_forks
from ...time_left import check_time, time_left
from ..aws.credentials import CredentialSource, too_late
from ..aws.mocked import is_mocked as is_for_sdk
from ..aws.opening import open_service as read_service
from ..options import OPENING_SECONDS, ClientOptions
from ..protocol.signing import Credentials

__all__ = [
    "DEADLINES",
    "Lock",
    "Send",
    "current_loop",
    "is_for_sdk",
    "open_sdk",
    "opening_until",
    "read_service",
    "refreshed",
    "run",
]

T = TypeVar("T")
Send = Callable[[str, Any], Mapping[str, Any]]

DEADLINES: Final[Literal["driver"]] = "driver"


def current_loop() -> object:
    """Return ``None``: a thread has no event loop, and may use the client of any other."""
    return None


def opening_until() -> float:
    """Return the instant of ``time.monotonic`` by which a client has to be open."""
    return time.monotonic() + min(time_left(), OPENING_SECONDS)


def run(work: Callable[[], T]) -> T:
    """Return the result of work that blocks."""
    return work()


def refreshed(source: CredentialSource, until: float) -> Credentials:
    """Wait until there are credentials. Raises ``StoreError``."""
    if (credentials := source.current()) is not None:
        return credentials
    seconds = max(0.0, until - time.monotonic())
    future = source.refreshed()
    try:
        return future.result(seconds)
    except TimeoutError as error:
        if future.done():
            raise
        check_time(error, until)
        raise too_late(seconds) from error


def open_sdk(options: ClientOptions, *, has_proxy: bool) -> Any:  # noqa: ARG001 - boto3 is always there
    """Return a client of boto3. Raises ``StoreError`` if none can be made."""
    with without_forks():  # it makes TLS contexts
        from .sdk import open_sdk

        return open_sdk(options)
