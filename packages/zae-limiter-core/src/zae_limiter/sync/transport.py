"""Requests over boto3: the client, its measurements, and its errors."""

import time
from collections.abc import Callable, Mapping
from typing import Any

from zae_limiter.operations.capacity import COUNTED, Meter
from zae_limiter.operations.checksum import check_crc32
from zae_limiter.operations.client import ClientOptions, OnAnswer
from zae_limiter.operations.errors import OutcomeUnknown, StoreError, Unreachable
from zae_limiter.operations.faults import no_client, read_fault, unsent
from zae_limiter.operations.render import read_date
from zae_limiter.operations.values import Operation

from .connections import connection_errors, keep_time

Send = Callable[[str, dict[str, Any]], Mapping[str, Any]]


class Client:
    """A client of boto3, which threads may share. ``send`` is its ``Send``."""

    def __init__(self, sdk: Any) -> None:
        self._sdk = sdk
        self._calls = {api: getattr(sdk, method) for method, api in sdk.meta.method_to_api_mapping.items()}

    def send(self, name: str, request: dict[str, Any]) -> Mapping[str, Any]:
        """Send one request. Raises what the SDK raises."""
        answer: Mapping[str, Any] = self._calls[name](**request)
        return answer

    def close(self) -> None:
        """Close the connections."""
        self._sdk.close()


def open_client(options: ClientOptions) -> Client:
    """Return a new client. Raises ``StoreError`` if none can be made."""
    import boto3
    from botocore.config import Config

    try:
        session = boto3.Session(**options.session())
        config = Config(**options.config())
        sdk = session.client("dynamodb", endpoint_url=options.endpoint_url, config=config)
    except Exception as error:
        raise no_client(error) from error
    sdk.meta.events.register("response-received.dynamodb", check_crc32)
    keep_time(sdk)
    return Client(sdk)


def counted(send: Send, meter: Meter) -> Send:
    """Return ``send`` with its requests and units counted on ``meter``."""

    def counted_send(name: str, request: dict[str, Any]) -> Mapping[str, Any]:
        if name in COUNTED:
            request["ReturnConsumedCapacity"] = "INDEXES"
        meter.count_request(name)
        try:
            answer = send(name, request)
        except Exception as error:
            meter.count_refusal(getattr(error, "response", None) or {})
            raise
        meter.count_answer(name, answer)
        return answer

    return counted_send


def timed(send: Send, on_answer: OnAnswer) -> Send:
    """Return ``send`` with a call of ``on_answer`` for the date of every answer, good or bad."""

    def timed_send(name: str, request: dict[str, Any]) -> Mapping[str, Any]:
        sent = time.monotonic()
        answer: Mapping[str, Any] = {}
        try:
            answer = send(name, request)
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
    """Return the store error of an error of ``Send``, ``None`` if the operation had nothing to do.

    Raises the error itself if it is not one of the SDK or of a connection: a fault, or the exception of a signal
    handler.
    """
    from botocore import exceptions as sdk

    if isinstance(error, sdk.ClientError):
        return read_fault(operation, error.response)
    inner = getattr(error, "kwargs", {}).get("error", error) if type(error) is sdk.HTTPClientError else error
    if not isinstance(inner, (sdk.BotoCoreError, *connection_errors())):
        raise inner
    never_left = (sdk.EndpointConnectionError, sdk.ConnectTimeoutError, sdk.ProxyConnectionError)
    return unsent(error) or (
        Unreachable(str(error)) if isinstance(error, never_left) else OutcomeUnknown(str(error) or type(error).__name__)
    )
