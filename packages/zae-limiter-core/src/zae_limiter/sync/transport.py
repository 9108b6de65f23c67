"""Requests over boto3.

Lives here: the client, what watches its requests, what its errors say. Never: what is requested (operations).
"""

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from zae_limiter.operations.capacity import COUNTED, Meter
from zae_limiter.operations.client import ClientOptions, OnAnswer
from zae_limiter.operations.errors import NotApplied, OutcomeUnknown, StoreError
from zae_limiter.operations.faults import read_fault
from zae_limiter.operations.render import read_date
from zae_limiter.operations.values import Operation

Send = Callable[[str, dict[str, Any]], Mapping[str, Any]]


def open_client(options: ClientOptions, closing: ExitStack) -> Send:
    """Return a ``Send`` over a new client, which ``closing`` closes."""
    import boto3
    from botocore.config import Config

    session = boto3.Session(**options.session())
    config = Config(**options.config())
    client = session.client("dynamodb", endpoint_url=options.endpoint_url, config=config)
    closing.callback(client.close)
    calls = {api: getattr(client, method) for method, api in client.meta.method_to_api_mapping.items()}

    def send(name: str, request: dict[str, Any]) -> Mapping[str, Any]:
        answer: Mapping[str, Any] = calls[name](**request)
        return answer

    return send


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
    """Return ``send`` with the date of every answer, good or bad, shown to ``on_answer``."""

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


def fault_of(operation: Operation, error: Exception) -> StoreError | None:
    """Return what the error of a ``Send`` says of the outcome; ``None`` where nothing was to be done."""
    from botocore import exceptions as sdk

    if isinstance(error, sdk.ClientError):
        return read_fault(operation, error.response)
    return NotApplied(str(error)) if _never_left(error) else OutcomeUnknown(str(error) or type(error).__name__)


def _never_left(error: Exception) -> bool:
    from botocore import exceptions as sdk

    before_connected = (
        sdk.EndpointConnectionError,
        sdk.ConnectTimeoutError,
        sdk.ProxyConnectionError,
        sdk.NoCredentialsError,
        sdk.PartialCredentialsError,
        sdk.CredentialRetrievalError,
        sdk.TokenRetrievalError,
        sdk.NoRegionError,
        sdk.ProfileNotFound,
        sdk.ParamValidationError,
    )
    return isinstance(error, before_connected)
