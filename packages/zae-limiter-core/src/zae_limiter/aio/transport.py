"""Requests over aioboto3: the client, its measurements, and its errors."""

import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

from zae_limiter.operations.capacity import COUNTED, Meter
from zae_limiter.operations.checksum import check_crc32
from zae_limiter.operations.client import ClientOptions, OnAnswer
from zae_limiter.operations.errors import OutcomeUnknown, StoreError, Unreachable
from zae_limiter.operations.faults import no_client, read_fault, unsent
from zae_limiter.operations.render import read_date
from zae_limiter.operations.values import Operation

Send = Callable[[str, dict[str, Any]], Awaitable[Mapping[str, Any]]]


class Client:
    """A client of aioboto3, for one event loop. ``send`` is its ``Send``."""

    def __init__(self, sdk: Any, closing: AsyncExitStack) -> None:
        self._sdk = sdk
        self._closing = closing
        self._calls = {api: getattr(sdk, method) for method, api in sdk.meta.method_to_api_mapping.items()}

    async def send(self, name: str, request: dict[str, Any]) -> Mapping[str, Any]:
        """Send one request. Raises what the SDK raises."""
        answer: Mapping[str, Any] = await self._calls[name](**request)
        return answer

    async def close(self) -> None:
        """Close the connections."""
        await self._closing.aclose()

    def abandon(self) -> None:
        """Close the connections without the event loop, which may be gone."""
        for session in self._sessions():
            if session.connector is not None:
                _complete(session.connector.close())
            session.detach()

    def leave_to_parent(self) -> None:
        """Leave the connections open in a child process: closing them would end those of the parent."""
        for session in self._sessions():
            if session.connector is not None:
                session.connector._closed = True  # so that nothing closes it when this process ends
            session.detach()
        _inherited.append(self)

    def _sessions(self) -> list[Any]:
        """The aiohttp sessions of the SDK's client, which has no public name for them."""
        http = getattr(getattr(self._sdk, "_endpoint", None), "http_session", None)
        sessions = getattr(http, "_sessions", None)
        return list(sessions.values()) if isinstance(sessions, dict) else []


_inherited: list[Client] = []


def _complete(closing: Awaitable[None]) -> None:
    """Finish an awaitable that has done its work already, or never can."""
    steps = closing.__await__()
    try:
        next(steps)
    except (StopIteration, RuntimeError):  # RuntimeError: no event loop runs
        return
    if hasattr(steps, "close"):
        steps.close()


async def open_client(options: ClientOptions) -> Client:
    """Return a new client. Raises ``StoreError`` if none can be made."""
    import aioboto3
    from botocore.config import Config

    closing = AsyncExitStack()
    try:
        session = aioboto3.Session(**options.session())
        config = Config(**options.config())
        sdk = await closing.enter_async_context(
            session.client("dynamodb", endpoint_url=options.endpoint_url, config=config)
        )
    except Exception as error:
        raise no_client(error) from error
    sdk.meta.events.register("response-received.dynamodb", check_crc32)
    _call_without_context(sdk)
    return Client(sdk, closing)


def _call_without_context(sdk: Any) -> None:
    """Take aiobotocore's context off the calls of a client.

    The context only collects features for the user agent. It is an asynchronous generator, which prints an error when
    an event loop ends during a call: the loop closes it in another context than its own.
    """
    call = getattr(type(sdk)._make_api_call, "__wrapped__", None)
    if call is not None:  # older versions have no context
        sdk._make_api_call = partial(call, sdk)


def counted(send: Send, meter: Meter) -> Send:
    """Return ``send`` with its requests and units counted on ``meter``."""

    async def counted_send(name: str, request: dict[str, Any]) -> Mapping[str, Any]:
        if name in COUNTED:
            request["ReturnConsumedCapacity"] = "INDEXES"
        meter.count_request(name)
        try:
            answer = await send(name, request)
        except Exception as error:
            meter.count_refusal(getattr(error, "response", None) or {})
            raise
        meter.count_answer(name, answer)
        return answer

    return counted_send


def timed(send: Send, on_answer: OnAnswer) -> Send:
    """Return ``send`` with a call of ``on_answer`` for the date of every answer, good or bad."""

    async def timed_send(name: str, request: dict[str, Any]) -> Mapping[str, Any]:
        sent = time.monotonic()
        answer: Mapping[str, Any] = {}
        try:
            answer = await send(name, request)
            return answer
        except Exception as error:
            answer = getattr(error, "response", None) or {}
            raise
        finally:
            date = read_date(answer)
            if date is not None:
                on_answer(date, sent * 1000, time.monotonic() * 1000)

    return timed_send


def fault_of(operation: Operation[Any], error: Exception) -> StoreError | None:
    """Return the store error of an error of ``Send``, ``None`` if the operation had nothing to do."""
    from botocore import exceptions as sdk

    if isinstance(error, sdk.ClientError):
        return read_fault(operation, error.response)
    return unsent(error) or (
        Unreachable(str(error)) if _never_left(error) else OutcomeUnknown(str(error) or type(error).__name__)
    )


def _never_left(error: Exception) -> bool:
    import socket

    import aiohttp
    from botocore import exceptions as sdk

    if isinstance(error, sdk.ConnectTimeoutError):
        return True
    # aiobotocore also raises these for a connection that broke during a request: the inner error decides.
    if isinstance(error, (sdk.EndpointConnectionError, sdk.SSLError, sdk.ProxyConnectionError)):
        return isinstance(error.kwargs.get("error"), (aiohttp.ClientConnectorError, socket.gaierror))
    return False
