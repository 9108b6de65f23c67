"""Translate DynamoDB's error answers, and errors before anything is sent, into store errors.

Errors of connections differ in each client, and are read there.
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.Errors.html
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from ...operations.errors import (
    ConditionFailed,
    Conflict,
    Denied,
    Invalid,
    NotApplied,
    OutcomeUnknown,
    Reason,
    ServerFault,
    StoreError,
    TableExists,
    TableMissing,
    Throttled,
    TransactionCancelled,
    Unreadable,
    Unrecognized,
)
from ...operations.values import Check, CreateTable, Delete, EnableTtl, Item, Key, Operation, Put, Transact, Update
from ...runtime.extras import install_command
from ...runtime.printing import printable
from ...schema.attributes import PK, SK
from ...schema.record import UNREADABLE
from .marshal import read_one

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
# Refused for the keys of a signature, which an operator may have exchanged since they were read, or for a clock that is
# too far off (``InvalidSignatureException``).
_OF_KEYS: Final = frozenset(
    (
        "ExpiredToken", "ExpiredTokenException", "InvalidAccessKeyId", "InvalidClientTokenId",
        "InvalidSignatureException", "InvalidToken", "SignatureDoesNotMatch", "UnrecognizedClientException",
    )
)  # fmt: skip
_DENIED: Final = _OF_KEYS | {
    "AccessDenied", "AccessDeniedException", "IncompleteSignature", "IncompleteSignatureException",
    "InvalidSecurity", "MissingAuthenticationToken", "MissingAuthenticationTokenException", "NotAuthorized",
    "OptInRequired", "RequestExpired", "RequestInTheFuture", "RequestTimeTooSkewed",
}  # fmt: skip
# Refused for what a request holds: an outage by these would let callers pass who choose what it holds.
_OF_THE_REQUEST: Final = frozenset(
    (
        "413",  # too large, for a proxy too
        "IdempotentParameterMismatchException",
        "ItemCollectionSizeLimitExceededException",
        "RequestEntityTooLarge",
        "SerializationException",
    )
)
REQUEST_ID: Final = "x-amzn-requestid"  # a header of every answer of AWS
_LONGEST_ID: Final = 64
_LONGEST_PAGE: Final = 200  # characters of an answer that is not the store's
_CLOCK_IS_OFF: Final = frozenset(("RequestExpired", "RequestInTheFuture", "RequestTimeTooSkewed"))
_CLOCK_MESSAGES: Final = ("Signature expired", "Signature not yet current")
_NO_CREDENTIALS: Final = frozenset(
    ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError", "TokenRetrievalError", "SSOError")
)
_UNUSABLE: Final = frozenset(("NoRegionError", "InvalidRegionError", "ProfileNotFound", "ParamValidationError"))
_WITHOUT_AWS: Final = (
    "without AWS, use Repository.in_memory(), Repository.sqlite('limits.db'), or `zae-limiter local up` and `local env`"
)
_HINTS: Final = {
    "NoRegionError": f"pass region=, or set AWS_REGION; {_WITHOUT_AWS}",
    "NoCredentialsError": (
        f"set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or run with a role; {_WITHOUT_AWS}"
    ),
}
_CONFLICT_REASON: Final = "TransactionConflict"
_UNKNOWN_REASON: Final = "Unknown"
_THROTTLED_REASONS: Final = frozenset((_CONFLICT_REASON, "ThrottlingError", "ProvisionedThroughputExceeded"))

Response = Mapping[str, Any]


def read_fault(operation: Operation[Any], response: Response) -> StoreError | None:
    """Return the store error of an error ``response``, ``None`` if the operation had nothing to do.

    Its text has the id of the request at AWS, if the answer has one.
    """
    code, message = _code(response), str(response.get("Error", {}).get("Message") or "")
    try:
        return _known(operation, response, code, message)
    except Unreadable as error:
        return error
    except (OutcomeUnknown, *UNREADABLE) as error:  # its code is certain, its details are damaged
        return _of_status(response, f"{code}: {message}; its details cannot be read: {error}", certain=True)


def _known(operation: Operation[Any], response: Response, code: str, message: str) -> StoreError | None:
    if code == "ConditionalCheckFailedException":
        return ConditionFailed(_item(operation, response))
    shown = f"{message}{request_id(headers_of(response))}"
    match code:
        case "TransactionCanceledException" if isinstance(operation, Transact):
            return _cancelled(operation, response, shown)
        case "ResourceNotFoundException":
            return TableMissing(shown)
        case "ResourceInUseException" if isinstance(operation, CreateTable):
            return TableExists(shown)
        case "ValidationException" if isinstance(operation, EnableTtl) and "already enabled" in message:
            return None
        case "ValidationException" if not message.startswith("KMS"):  # the table's key is not a matter of the request
            return Invalid(f"{code}: {shown}")
        case _ if code in _CLOCK_IS_OFF or (code in _DENIED and message.startswith(_CLOCK_MESSAGES)):
            why = "this machine's clock is too far off: the store refuses its signatures; set the clock"
            return Denied(f"{why}: {code}: {shown}")
    if code not in _THROTTLED:
        return _of_status(response, f"{code}: {shown}")
    # The three exceptions spell their reasons in two ways:
    # https://docs.aws.amazon.com/amazondynamodb/latest/APIReference/API_ThrottlingReason.html
    all_given = response.get("ThrottlingReasons") or response.get("throttlingReasons") or ()
    reasons = tuple(dict.fromkeys(str(given["reason"]) for given in all_given))
    return Throttled(f"{code}: {shown} ({', '.join(reasons)})" if reasons else f"{code}: {shown}", reasons)


def headers_of(response: Response) -> Mapping[str, str]:
    """Return the header fields of an answer, good or bad."""
    headers: Mapping[str, str] = response.get("ResponseMetadata", {}).get("HTTPHeaders", {})
    return headers


def request_id(headers: Mapping[str, str]) -> str:
    """Return the id that AWS gave a request, as the end of a message; no text if there is none."""
    found = headers.get(REQUEST_ID, "")
    is_one = len(found) <= _LONGEST_ID and found.isascii() and found.replace("-", "").isalnum()
    return f" (request {found})" if is_one else ""


def is_of_store(response: Response) -> bool:
    """Return whether an error ``response`` is DynamoDB's: it has the id of a request, or the code of the protocol."""
    return bool(request_id(headers_of(response))) or not _code(response).isdigit()


def is_of_credentials(response: Response) -> bool:
    """Return whether the store refused the keys of the request's signature: other ones may be good."""
    return _code(response) in _OF_KEYS


def _of_status(response: Response, problem: str, *, certain: bool = False) -> StoreError:
    """Return the error of an answer by its code, else by its status. ``certain``: the store itself refused."""
    code = _code(response)
    for codes, fault in ((_THROTTLED, Throttled), (_CONFLICTS, Conflict), (_DENIED, Denied)):
        if code in codes:
            return fault(problem)
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode", 500)
    if status == HTTPStatus.TOO_MANY_REQUESTS:  # without a code it comes from something before DynamoDB, as the next
        return Throttled(problem)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return ServerFault(problem)
    if status < 400 or status == HTTPStatus.REQUEST_TIMEOUT:
        return OutcomeUnknown(problem)
    if certain or code in _OF_THE_REQUEST:
        return NotApplied(problem)
    if not is_of_store(response):
        page = printable(problem.partition(": ")[2][:_LONGEST_PAGE])
        of = printable(headers_of(response).get("content-type", "no type"))
        return Unrecognized(f"an answer that is not DynamoDB's, with the status {status} ({of}): {page}", foreign=True)
    return Unrecognized(problem)


def _cancelled(transact: Transact, response: Response, message: str) -> StoreError:
    """Return the error of a cancelled transaction, with a reason for each write, whatever the store says."""
    given = response.get("CancellationReasons", ())
    if len(given) != len(transact.writes):
        return TransactionCancelled((Reason(_UNKNOWN_REASON),) * len(transact.writes))
    for reason in given:
        if not isinstance(reason.get("Code"), str | None):
            raise TypeError("a reason is not a string")
    reasons = tuple(
        Reason(None) if reason.get("Code") in {None, "None"} else Reason(reason["Code"], _item(write, reason))
        for write, reason in zip(transact.writes, given, strict=True)
    )
    codes = {reason.code for reason in reasons} - {None}
    # No condition of the caller failed: the same transaction may pass later.
    if codes and codes <= _THROTTLED_REASONS:
        return (Conflict if codes == {_CONFLICT_REASON} else Throttled)(message)
    return TransactionCancelled(reasons)


def _item(write: Operation[Any] | Check, holder: Response) -> Item | None:
    """Return the stored item in an answer to a write. Raises ``OutcomeUnknown`` for another item, ``Unreadable``."""
    if not holder.get("Item") or not isinstance(write, Put | Update | Delete | Check):
        return None
    return read_one(Key(write.item[PK], write.item[SK]) if isinstance(write, Put) else write.key, holder["Item"])


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
    return type(fault)(f"cannot create a client: {fault}")


def without_boto3(error: ImportError) -> StoreError:
    """Return the error for a client that cannot be made, because the libraries of AWS are not installed."""
    needed = f"DynamoDB needs boto3: {install_command('dynamodb')}; a file of SQLite and memory do not"
    return no_client(NotApplied(needed)) if isinstance(error, ModuleNotFoundError) else no_client(error)
