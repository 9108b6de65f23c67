"""What the clients of boto3 and aioboto3 have in common. Only a process that uses one of them imports this module."""

from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

from botocore import exceptions as errors
from botocore.config import Config

from ....operations.errors import OutcomeUnknown, StoreError, Unreachable
from ....operations.values import Operation
from ..faults import read_fault, unsent
from ..options import ClientOptions
from ..protocol.answers import check_answer
from .endpoint import refuse_credentials
from .opening import log_retries
from .trust import untrusted


class OfSdk:
    """A client over that of an SDK. ``never_left`` returns whether an error proves that the request was not sent."""

    takes_bodies = False
    errors = (Exception,)

    def __init__(self, sdk: Any, never_left: Callable[[Exception], bool]) -> None:
        self._sdk = sdk
        self._never_left = never_left
        self._host = urlsplit(sdk.meta.endpoint_url).netloc
        self._calls = {api: getattr(sdk, method) for method, api in sdk.meta.method_to_api_mapping.items()}

    def fault_of(self, operation: Operation[Any], error: Exception) -> StoreError | None:
        """Return the store error of an error of ``send``, ``None`` if the operation had nothing to do."""
        if isinstance(error, errors.ClientError):
            return read_fault(operation, error.response)
        why = str(error)
        shown = Unreachable(why) if self._never_left(error) else OutcomeUnknown(why or type(error).__name__)
        return unsent(error) or untrusted(error, self._host) or shown


def client_of(session: Any, options: ClientOptions) -> Any:
    """Return a client of a session of boto3 or aioboto3; the latter's still has to be entered."""
    log_retries(session._session)
    return session.client("dynamodb", endpoint_url=options.endpoint_url, config=Config(**options.config()))


def prepare(sdk: Any) -> None:
    """Check the endpoint of a client, and have its answers checked. Raises ``NotApplied``."""
    refuse_credentials("endpoint_url", sdk.meta.endpoint_url)
    sdk.meta.events.register("response-received.dynamodb", check_answer)
