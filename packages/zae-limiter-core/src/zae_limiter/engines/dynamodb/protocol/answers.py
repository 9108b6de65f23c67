"""Read responses of DynamoDB as answers, in the shape that botocore gives them.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.LowLevelAPI.html
"""

import zlib
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from ....operations.errors import OutcomeUnknown
from ....runtime.printing import printable
from ..faults import REQUEST_ID, request_id
from .requests import read_body
from .responses import Response

Answer = dict[str, Any]


# Of the answers to our operations: an object with others, and without the id of a request, is something else's.
KEYS: Final = frozenset(
    (
        "Attributes", "ConsumedCapacity", "Count", "Item", "ItemCollectionMetrics", "Items", "LastEvaluatedKey",
        "Responses", "ScannedCount", "Table", "TableDescription", "TimeToLiveSpecification", "UnprocessedItems",
        "UnprocessedKeys",
    )
)  # fmt: skip
_STATUSES: Final = frozenset(HTTPStatus)
NOT_READ: Final = "the store closed the connection before it had the request"


class ErrorAnswer(Exception):
    """An answer that is an error. ``response`` has ``Error`` with ``Code`` and ``Message``, and what else came."""

    def __init__(self, response: Answer) -> None:
        error = response["Error"]
        super().__init__(printable(f"{error['Code']}: {error['Message']}"))
        self.response = response


def read_response(response: Response) -> Answer:
    """Return the answer. Raises ``ErrorAnswer``, and ``OutcomeUnknown`` for a damaged one."""
    _check_body(response.headers, response.body)
    metadata = {"HTTPStatusCode": response.status, "HTTPHeaders": response.headers}
    if response.status != 200:
        raise ErrorAnswer(_error(response, metadata))
    answer = _object(response.headers, response.body)
    answer["ResponseMetadata"] = metadata
    return answer


def check_answer(response_dict: Mapping[str, Any] | None = None, **_: object) -> None:
    """Check an answer as a handler of botocore's ``response-received``. Raises ``OutcomeUnknown``.

    Botocore reads any page with the status 200 as an answer without content: as if an item did not exist.
    """
    if response_dict is None or not isinstance(response_dict["body"], bytes):  # there was no answer
        return
    headers, body = response_dict["headers"], response_dict["body"]
    _check_body(headers, body)
    if response_dict["status_code"] == 200 and REQUEST_ID not in headers:
        _object(headers, body)


def _check_body(headers: Mapping[str, str], body: bytes) -> None:
    """Raise ``OutcomeUnknown`` for a body that does not match its ``x-amz-crc32``, which the SDK does not check."""
    expected = headers.get("x-amz-crc32")
    if expected is not None and str(zlib.crc32(body)) != expected.strip():
        raise OutcomeUnknown(f"the answer was damaged on its way: its CRC32 is wrong{request_id(headers)}")


def _object(headers: Mapping[str, str], body: bytes) -> Answer:
    """Return the object of a body. Raises ``OutcomeUnknown`` if it is not DynamoDB's."""
    answer = read_body(body) if body else None
    if answer is None:
        raise OutcomeUnknown(f"the answer is not DynamoDB's: it is not a JSON object{request_id(headers)}")
    if REQUEST_ID not in headers and not KEYS.issuperset(answer):
        raise OutcomeUnknown("the answer is not DynamoDB's: it is another JSON object")
    return answer


def _error(response: Response, metadata: Answer) -> Answer:
    answer = read_body(response.body)
    if answer is None:
        answer = {"message": response.body.decode("utf-8", "replace")}
    kind = str(answer.pop("__type", "")) or str(response.status)
    code = kind.partition(":")[0].rpartition("#")[2]
    phrase = HTTPStatus(response.status).phrase if response.status in _STATUSES else ""
    message = answer.pop("message", None) or answer.pop("Message", None) or phrase
    return {**answer, "Error": {"Code": code, "Message": str(message)}, "ResponseMetadata": metadata}
