"""The clients that send requests to DynamoDB, and a count of what they cost."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Protocol

from ....operations.errors import NotApplied, StoreError
from ....operations.values import Operation
from ....runtime.forks import without_forks
from ....runtime.tasks import result_of
from ....runtime.threads import in_thread
from ...meter import Meter
from ..aws.credentials import too_late
from ..aws.mocked import refuse_mocked
from ..aws.opening import Service, log_proxy, open_service
from ..consumed import COUNTED, count_answer, count_refusal
from ..options import OPENING_SECONDS, ClientOptions, transport_of

Send = Callable[[str, Any], Awaitable[Mapping[str, Any]]]


class Client(Protocol):
    """A client of one transport. ``takes_bodies``: a request may also be given as its JSON body."""

    takes_bodies: bool

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """The errors of ``send`` that ``fault_of`` reads; all others are raised on."""

    async def send(self, name: str, request: Any) -> Mapping[str, Any]:
        """Send one request, and return its answer as botocore does."""

    def fault_of(self, operation: Operation[Any], error: Any) -> StoreError | None:
        """Return the store error of an error of ``send``, ``None`` if the operation had nothing to do."""

    async def close(self) -> None:
        """Close the connections."""

    def abandon(self) -> None:
        """Close the connections without the event loop, which may be gone."""

    def leave_to_parent(self) -> None:
        """Leave the connections open in a child process: closing them would end those of the parent."""


class Opener:
    """Opens clients by the same options; the configuration of AWS is read once."""

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self._service: Service | None = None

    async def open(self) -> Client:
        """Return a new client. Raises ``StoreError`` if none can be made."""
        try:
            async with asyncio.timeout(OPENING_SECONDS):
                return await self._open()
        except TimeoutError as error:
            raise too_late(OPENING_SECONDS) from error

    async def _open(self) -> Client:
        if transport_of(self._options.transport) == "sdk":
            return await self._open_sdk()
        if self._service is None:
            self._service = await result_of(in_thread(partial(open_service, self._options)))
        refuse_mocked(self._service.endpoint.url)
        with without_forks():
            from .http import HttpClient, refreshed

        if self._service.proxy is None:
            await refreshed(self._service.credentials)
            self._service = self._service.of_account()
        if self._service.proxy is not None:
            log_proxy(self._service.proxy)
            return await self._open_sdk()
        return HttpClient(self._service, self._options)

    async def _open_sdk(self) -> Client:
        try:
            with without_forks():
                from .sdk import open_sdk
        except ImportError as error:
            from ....runtime.extras import install_command

            why = f"the SDK transport needs aioboto3: {install_command('aioboto3')}"
            if self._service is not None:
                why = f"{why}; or put the host of DynamoDB into NO_PROXY"
            raise NotApplied(f"no client: {why}") from error
        return await open_sdk(self._options)


def counted(send: Send, meter: Meter) -> Send:
    """Return ``send`` with its requests and units counted on ``meter``."""

    async def counted_send(name: str, request: dict[str, Any]) -> Mapping[str, Any]:
        if name in COUNTED:
            request["ReturnConsumedCapacity"] = "INDEXES"
        meter.count_request(name)
        try:
            answer = await send(name, request)
        except Exception as error:
            count_refusal(meter, getattr(error, "response", None) or {})
            raise
        count_answer(meter, name, answer)
        return answer

    return counted_send
