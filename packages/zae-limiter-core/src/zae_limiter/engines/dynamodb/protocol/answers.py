"""Read responses of DynamoDB as answers, in the shape that botocore gives them.

https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Programming.LowLevelAPI.html
"""

from http import HTTPStatus
from typing import Any, Final

from ....operations.errors import OutcomeUnknown
from ....runtime.printing import printable
from ..checksum import check_body
from .body import read_body
from .responses import Response

Answer = dict[str, Any]


NOT_READ: Final = "the store closed the connection before it had the request"


class ErrorAnswer(Exception):
    """An answer that is an error. ``response`` has ``Error`` with ``Code`` and ``Message``, and what else came."""

    def __init__(self, response: Answer) -> None:
        error = response["Error"]
        super().__init__(printable(f"{error['Code']}: {error['Message']}"))
        self.response = response


def read_response(response: Response) -> Answer:
    """Return the answer. Raises ``ErrorAnswer``, and ``OutcomeUnknown`` for a damaged one."""
    check_body(response.headers, response.body)
    metadata = {"HTTPStatusCode": response.status, "HTTPHeaders": response.headers}
    if response.status != 200:
        raise ErrorAnswer(_error(response, metadata))
    answer = read_body(response.body)
    if answer is None:
        raise OutcomeUnknown("the answer is not a JSON object")
    answer["ResponseMetadata"] = metadata
    return answer


def _error(response: Response, metadata: Answer) -> Answer:
    answer = read_body(response.body)
    if answer is None:
        answer = {"message": response.body.decode("utf-8", "replace")}
    kind = str(answer.pop("__type", "")) or str(response.status)
    code = kind.partition(":")[0].rpartition("#")[2]
    message = answer.pop("message", None) or answer.pop("Message", None) or _phrase(response.status)
    return {**answer, "Error": {"Code": code, "Message": str(message)}, "ResponseMetadata": metadata}


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return ""
