"""Requests over boto3: the client, and its errors. Only a process that uses it imports this module."""

from collections.abc import Mapping
from traceback import walk_tb
from typing import Any
from urllib.parse import urlsplit

import boto3
from botocore import exceptions as errors
from botocore.config import Config
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

from ....operations.errors import OutcomeUnknown, StoreError, Unreachable
from ....operations.values import Operation
from ..aws.endpoint import open_session, refuse_credentials
from ..aws.opening import log_retries
from ..aws.trust import untrusted
from ..faults import no_client, read_fault, unsent
from ..options import ClientOptions
from ..protocol.answers import check_answer
from .connections import connection_errors, keep_time


class SdkClient:
    """A client of boto3, which threads may share. ``send`` is its ``Send``."""

    takes_bodies = False
    errors = (Exception,)

    def __init__(self, sdk: Any) -> None:
        self._sdk = sdk
        self._host = urlsplit(sdk.meta.endpoint_url).netloc
        self._calls = {api: getattr(sdk, method) for method, api in sdk.meta.method_to_api_mapping.items()}

    def send(self, name: str, request: dict[str, Any]) -> Mapping[str, Any]:
        """Send one request. Raises what the SDK raises."""
        answer: Mapping[str, Any] = self._calls[name](**request)
        return answer

    def fault_of(self, operation: Operation[Any], error: Exception) -> StoreError | None:
        """Return the store error of an error of ``send``, ``None`` if the operation had nothing to do.

        Raises the error itself if it comes neither from the SDK nor from a connection: a fault, or the exception of a
        signal handler.
        """
        if isinstance(error, errors.ClientError):
            return read_fault(operation, error.response)
        inner = getattr(error, "kwargs", {}).get("error", error) if type(error) is errors.HTTPClientError else error
        if not isinstance(inner, (errors.BotoCoreError, *connection_errors())) and not _is_of_botocore(inner):
            raise inner
        return (
            unsent(error)
            or untrusted(error, self._host)
            or (Unreachable(str(error)) if _never_left(error) else OutcomeUnknown(str(error) or type(error).__name__))
        )

    def close(self) -> None:
        """Close the connections."""
        self._sdk.close()


def _never_left(error: Exception) -> bool:
    if isinstance(error, errors.ProxyConnectionError):
        # urllib3 says so as well where a connection through a proxy broke after the request: the inner error decides.
        cause = getattr(error.kwargs.get("error"), "original_error", None)
        return type(cause) is OSError or isinstance(cause, (NewConnectionError, ConnectTimeoutError))
    return isinstance(error, (errors.EndpointConnectionError, errors.ConnectTimeoutError))


def _is_of_botocore(error: BaseException) -> bool:
    """Return whether botocore itself raised the error: its credentials raise ``RuntimeError`` and ``KeyError``."""
    frames = [frame for frame, _ in walk_tb(error.__traceback__)]
    return str(frames[-1].f_globals.get("__name__")).startswith("botocore.")


def open_sdk(options: ClientOptions) -> SdkClient:
    """Return a new client. Raises ``StoreError`` if none can be made."""
    handed = None if options.credentials is None else open_session(options)
    try:
        session = boto3.Session(botocore_session=handed) if handed else boto3.Session(**options.session())
        log_retries(session._session)
        config = Config(**options.config())
        client = session.client("dynamodb", endpoint_url=options.endpoint_url, config=config)
    except Exception as error:
        raise no_client(error) from error
    refuse_credentials("endpoint_url", client.meta.endpoint_url)
    client.meta.events.register("response-received.dynamodb", check_answer)
    keep_time(client)
    return SdkClient(client)
