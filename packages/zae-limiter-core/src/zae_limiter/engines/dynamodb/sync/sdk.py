"""Requests over boto3: the client, and its errors. Only a process that uses it imports this module."""

from collections.abc import Mapping
from traceback import walk_tb
from typing import Any

import boto3
from botocore import exceptions as errors
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError

from ....operations.errors import StoreError
from ....operations.values import Operation
from ..aws.endpoint import open_session
from ..aws.sdk import OfSdk, client_of, prepare
from ..faults import no_client
from ..options import ClientOptions
from .connections import connection_errors, keep_time


class SdkClient(OfSdk):
    """A client of boto3, which threads may share. ``send`` is its ``Send``."""

    def send(self, name: str, request: dict[str, Any]) -> Mapping[str, Any]:
        """Send one request. Raises what the SDK raises."""
        answer: Mapping[str, Any] = self._calls[name](**request)
        return answer

    def fault_of(self, operation: Operation[Any], error: Exception) -> StoreError | None:
        """Return the store error of an error of ``send``, ``None`` if the operation had nothing to do.

        Raises the error itself if it comes neither from the SDK nor from a connection: a fault, or the exception of a
        signal handler.
        """
        inner = getattr(error, "kwargs", {}).get("error", error) if type(error) is errors.HTTPClientError else error
        of_sdk = (errors.ClientError, errors.BotoCoreError, *connection_errors())
        if not isinstance(inner, of_sdk) and not _is_of_botocore(inner):
            raise inner
        return super().fault_of(operation, error)

    def close(self) -> None:
        """Close the connections."""
        self._sdk.close()

    def abandon(self) -> None:
        """Do nothing: the connections of garbage close alone."""

    leave_to_parent = abandon


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
        client = client_of(session, options)
    except Exception as error:
        raise no_client(error) from error
    prepare(client)
    keep_time(client)
    return SdkClient(client, _never_left)
