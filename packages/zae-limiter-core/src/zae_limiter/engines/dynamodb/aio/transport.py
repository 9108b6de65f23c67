# `just variants` writes the blocking variant of this module.
"""The clients that send requests to DynamoDB, and a count of what they cost."""

from collections.abc import Mapping
from typing import Any, Protocol

from ....operations.errors import StoreError
from ....operations.values import Operation
from ...meter import Meter
from ..aws.opening import Service, log_proxy
from ..consumed import COUNTED, count_answer, count_refusal
from ..options import ClientOptions, transport_of
from .primitives import Send, is_for_sdk, open_http, open_sdk, read_service


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
        """Leave the connections open in a forked child: closing them would close those of the parent."""


class Opener:
    """Opens clients by the same options; the configuration of AWS is read once."""

    def __init__(self, options: ClientOptions) -> None:
        self._options = options
        self._service: Service | None = None

    async def find(self) -> Service | None:
        """Return what the HTTP transport needs, ``None`` if the SDK serves. Raises ``StoreError`` for a bad setting."""
        if transport_of(self._options.transport) == "sdk":
            return None
        if self._service is None:
            self._service = await read_service(self._options)
        if is_for_sdk(self._service.endpoint.url) or self._service.proxy is not None:
            return None
        return self._service

    async def open(self, service: Service | None) -> Client:
        """Return a new client by what ``find`` returned. Raises ``StoreError`` if none can be made."""
        if service is not None:
            self._service = service = service.of_account()
        if has_proxy := self._service is not None and self._service.proxy is not None:
            log_proxy(self._service.proxy)
        client: Client
        if service is None or has_proxy:
            client = await open_sdk(self._options, has_proxy=has_proxy)
        else:
            client = open_http(service, self._options)
        return client


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
