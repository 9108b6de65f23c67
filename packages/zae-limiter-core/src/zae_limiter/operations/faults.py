"""DynamoDB's error answers, and errors before anything is sent, as store errors.

Never: errors of connections, which are different in each client.
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from .errors import (
    ConditionFailed,
    Conflict,
    Denied,
    NotApplied,
    OutcomeUnknown,
    Reason,
    StoreError,
    TableExists,
    TableMissing,
    Throttled,
    TransactionCancelled,
)
from .marshal import read_item
from .values import CreateTable, EnableTtl, Item, Operation

_THROTTLED: Final = frozenset(
    ("ProvisionedThroughputExceededException", "ThrottlingException", "Throttling", "RequestLimitExceeded")
)
_CONFLICTS: Final = frozenset(
    (
        "ResourceInUseException",  # a table that is being changed
        "TransactionConflictException",
        "TransactionInProgressException",
        "ReplicatedWriteConflictException",
    )
)
_DENIED: Final = frozenset(
    (
        "AccessDenied",
        "AccessDeniedException",
        "ExpiredToken",
        "ExpiredTokenException",
        "IncompleteSignature",
        "IncompleteSignatureException",
        "InvalidAccessKeyId",
        "InvalidClientTokenId",
        "InvalidSecurity",
        "InvalidSignatureException",  # also for a clock that is too far off
        "InvalidToken",
        "MissingAuthenticationToken",
        "MissingAuthenticationTokenException",
        "NotAuthorized",
        "OptInRequired",
        "RequestExpired",
        "RequestInTheFuture",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
        "UnrecognizedClientException",
    )
)
_CLOCK_IS_OFF: Final = frozenset(("RequestExpired", "RequestInTheFuture", "RequestTimeTooSkewed"))
_CLOCK_MESSAGES: Final = ("Signature expired", "Signature not yet current")
_NO_CREDENTIALS: Final = frozenset(
    ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "TokenRetrievalError", "SSOError")
)
_UNUSABLE: Final = frozenset(("NoRegionError", "InvalidRegionError", "ProfileNotFound", "ParamValidationError"))
_HINTS: Final = {
    "NoRegionError": "pass region=, or set AWS_REGION",
    "NoCredentialsError": "set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run with a role",
}
_CONFLICT_REASON: Final = "TransactionConflict"
_THROTTLED_REASONS: Final = frozenset((_CONFLICT_REASON, "ThrottlingError", "ProvisionedThroughputExceeded"))

Response = Mapping[str, Any]


def read_fault(operation: Operation[Any], response: Response) -> StoreError | None:
    """Return the store error of an error ``response``, ``None`` if the operation had nothing to do."""
    code, message = _code(response), response.get("Error", {}).get("Message", "")
    try:
        return _known(operation, response, code, message)
    except (AttributeError, KeyError, TypeError, ValueError) as error:  # its code is certain, its details are damaged
        return _of_status(response)(f"{code}: {message}; its details cannot be read: {error}")


def _known(operation: Operation[Any], response: Response, code: str, message: str) -> StoreError | None:
    match code:
        case "ConditionalCheckFailedException":
            return ConditionFailed(_item(response))
        case "TransactionCanceledException":
            return _cancelled(response, message)
        case "ResourceNotFoundException":
            return TableMissing(message)
        case "ResourceInUseException" if isinstance(operation, CreateTable):
            return TableExists(message)
        case "ValidationException" if isinstance(operation, EnableTtl) and "already enabled" in message:
            return None
        case _ if _is_of_the_clock(code, message):
            why = "this machine's clock is too far off for the store, which refuses what it signs; set the clock"
            return Denied(f"{why}: {code}: {message}")
    return _of_status(response)(f"{code}: {message}")


def _is_of_the_clock(code: str, message: str) -> bool:
    return code in _CLOCK_IS_OFF or (code in _DENIED and message.startswith(_CLOCK_MESSAGES))


def is_invalid(error: StoreError) -> bool:
    """Whether the store calls the request itself invalid, or impossible with the stored item: no repeat can succeed."""
    return type(error) is NotApplied and str(error).startswith("ValidationException:")


def _of_status(response: Response) -> type[StoreError]:
    if _code(response) in _THROTTLED:
        return Throttled
    if _code(response) in _CONFLICTS:
        return Conflict
    if _code(response) in _DENIED:
        return Denied
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
    if status == HTTPStatus.TOO_MANY_REQUESTS:  # without a code it comes from something before DynamoDB, as the next
        return Throttled
    return NotApplied if 400 <= status < 500 and status != HTTPStatus.REQUEST_TIMEOUT else OutcomeUnknown


def _cancelled(response: Response, message: str) -> StoreError:
    reasons = tuple(_reason(reason) for reason in response.get("CancellationReasons", ()))
    codes = {reason.code for reason in reasons} - {None}
    # No condition of the caller failed: the same transaction may pass later.
    if codes and codes <= _THROTTLED_REASONS:
        return (Conflict if codes == {_CONFLICT_REASON} else Throttled)(message)
    return TransactionCancelled(reasons)


def _reason(reason: Response) -> Reason:
    code = reason.get("Code")
    return Reason(None if code == "None" else code, _item(reason))


def _item(holder: Response) -> Item | None:
    return read_item(holder["Item"]) if holder.get("Item") else None


def _code(response: Response) -> str:
    code: str = response.get("Error", {}).get("Code", "")
    return code


def unsent(error: Exception) -> StoreError | None:
    """Return the store error of an SDK error that comes before anything is sent, ``None`` for any other error."""
    names = {cls.__name__ for cls in type(error).__mro__}  # by name, without an import of the SDK
    hint = next((f"; {_HINTS[name]}" for name in _HINTS if name in names), "")
    if names & _NO_CREDENTIALS:
        return Denied(f"{error}{hint}")
    return NotApplied(f"{error}{hint}") if names & _UNUSABLE else None


def no_client(error: Exception) -> StoreError:
    """Return the error for a client that cannot be made, because of credentials, region, profile or endpoint."""
    fault = unsent(error) or NotApplied(str(error))
    return type(fault)(f"no client: {fault}")
