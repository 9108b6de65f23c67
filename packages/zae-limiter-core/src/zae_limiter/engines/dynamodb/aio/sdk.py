"""Requests over aioboto3: the client, and its errors. Only a process that uses it imports this module."""

import socket
from collections.abc import Awaitable, Mapping
from contextlib import AsyncExitStack
from functools import partial
from typing import Any

import aioboto3
import aiohttp
from aiobotocore.credentials import AioCredentials
from aiobotocore.session import AioSession
from botocore import exceptions as errors
from botocore.credentials import ReadOnlyCredentials
from botocore.httpsession import get_cert_path

from ....operations.errors import NotApplied
from ....runtime.callables import is_awaited
from ...in_time import in_time
from ..aws.credentials import CredentialSource
from ..aws.endpoint import open_session
from ..aws.opening import refuse_mocked, tls_context
from ..aws.sdk import OfSdk, client_of, prepare
from ..faults import no_client
from ..options import ClientOptions
from .primitives import refreshed


class SdkClient(OfSdk):
    """A client of aioboto3, for one event loop. ``send`` is its ``Send``."""

    def __init__(self, sdk: Any, closing: AsyncExitStack, operation_timeout: float) -> None:
        super().__init__(sdk, _never_left)
        self._closing = closing
        self._operation_timeout = operation_timeout

    async def send(self, name: str, request: dict[str, Any]) -> Mapping[str, Any]:
        """Send one request. Raises what the SDK raises, and ``OutcomeUnknown`` if the answer does not come in time."""
        answer: Mapping[str, Any] = await in_time(self._calls[name](**request), self._operation_timeout)
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
        """Leave the connections open in a forked child: closing them would close those of the parent."""
        for session in self._sessions():
            if session.connector is not None:
                session.connector._closed = True  # so that nothing closes it when this process ends
            session.detach()
        _inherited.append(self)

    def _sessions(self) -> list[Any]:
        """Return the aiohttp sessions of the SDK's client, which has no public name for them."""
        http = getattr(getattr(self._sdk, "_endpoint", None), "http_session", None)
        sessions = getattr(http, "_sessions", None)
        return list(sessions.values()) if isinstance(sessions, dict) else []


_inherited: list[SdkClient] = []


def _complete(closing: Awaitable[None]) -> None:
    """Finish an awaitable that has done its work already, or never can."""
    steps = closing.__await__()
    try:
        next(steps)
    except (StopIteration, RuntimeError):  # RuntimeError: no event loop runs
        return
    if hasattr(steps, "close"):
        steps.close()


async def open_sdk(options: ClientOptions) -> SdkClient:
    """Return a new client. Raises ``StoreError`` if none can be made."""
    closing = AsyncExitStack()
    handed = None if options.credentials is None else await _with_credentials(open_session(options))
    try:
        session = aioboto3.Session(botocore_session=handed) if handed else aioboto3.Session(**options.session())
        client = await closing.enter_async_context(client_of(session, options))
    except Exception as error:
        raise no_client(error) from error
    try:
        _verify_hosts(client._endpoint.http_session)
        prepare(client)
        refuse_mocked(client.meta.endpoint_url)
    except NotApplied:
        await closing.aclose()
        raise
    _call_without_context(client)
    return SdkClient(client, closing, options.operation_timeout)


async def _with_credentials(session: Any) -> AioSession:
    """Return a session of aiobotocore with the settings and the credentials of one of botocore."""
    source = CredentialSource(session)
    first = await refreshed(source)

    class Found(AioCredentials):  # type: ignore[misc]  # which has no types
        async def get_frozen_credentials(self) -> ReadOnlyCredentials:
            """Return the credentials of now, renewed as those of the HTTP transport are. Raises ``StoreError``."""
            found = await refreshed(source)
            return ReadOnlyCredentials(*found[: len(ReadOnlyCredentials._fields)])  # older ones have no account

    class Provider:
        async def load_credentials(self) -> AioCredentials:
            found = Found(first.access_key, first.secret_key, first.token)
            found.account_id = first.account
            return found

    found = AioSession()
    for name, value in session.instance_variables().items():
        found.set_config_variable(name, value)
    found.register_component("credential_provider", Provider())
    return found


def _verify_hosts(http: Any) -> None:
    """Make an older aiobotocore verify certificates as boto3 does: for their host, and behind a proxy, too.

    Its own TLS context checks no host, because botocore leaves that to urllib3; behind a proxy it verifies nothing.
    Versions whose connectors are created asynchronously do both.
    """
    create = http._create_connector
    if is_awaited(create):
        return
    context = tls_context(get_cert_path(http._verify))

    def create_verifying(proxy_url: str | None) -> aiohttp.TCPConnector:
        connector: aiohttp.TCPConnector = create(proxy_url)
        connector._ssl = context
        return connector

    http._create_connector = create_verifying


def _call_without_context(sdk: Any) -> None:
    """Take aiobotocore's context off the calls of a client.

    The context only collects features for the user agent. It is an asynchronous generator, which prints an error when
    an event loop ends during a call: the loop closes it in another context than its own.
    """
    call = getattr(type(sdk)._make_api_call, "__wrapped__", None)
    if call is not None:  # older versions have no context
        sdk._make_api_call = partial(call, sdk)


def _never_left(error: Exception) -> bool:
    if isinstance(error, errors.ConnectTimeoutError):
        return True
    # aiobotocore also raises these for a connection that broke during a request: the inner error decides.
    if isinstance(error, (errors.EndpointConnectionError, errors.SSLError, errors.ProxyConnectionError)):
        return isinstance(error.kwargs.get("error"), (aiohttp.ClientConnectorError, socket.gaierror))
    return False
