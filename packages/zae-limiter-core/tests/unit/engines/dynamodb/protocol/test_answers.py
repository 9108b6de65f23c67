"""Responses as answers, against botocore's parser."""

import json
import zlib
from typing import Any

import botocore.model
import botocore.parsers
import pytest

from zae_limiter.engines.dynamodb.protocol.answers import ErrorAnswer, read_response
from zae_limiter.engines.dynamodb.protocol.responses import Response
from zae_limiter.operations.errors import OutcomeUnknown


def respond(status: int, body: bytes | dict[str, Any], **headers: str) -> Response:
    return Response(status, headers, body if isinstance(body, bytes) else json.dumps(body).encode(), True)


def error_of(response: Response) -> dict[str, Any]:
    with pytest.raises(ErrorAnswer) as caught:
        read_response(response)
    return caught.value.response


def error_of_botocore(response: Response) -> dict[str, Any]:
    parser = botocore.parsers.create_parser("json")
    shape = botocore.model.StructureShape("Output", {"type": "structure", "members": {}})
    parsed = parser.parse({"status_code": response.status, "headers": {}, "body": response.body}, shape)
    error: dict[str, Any] = parsed["Error"]
    return error


FAILED = {"__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException", "message": "no"}


@pytest.mark.parametrize(
    "response",
    [
        respond(400, FAILED),
        respond(400, {"__type": "ValidationException", "Message": "with a capital"}),
        respond(400, {"message": "no type"}),
        respond(400, {}),
        respond(400, b""),
        respond(403, b"<html>a proxy says no</html>"),
        respond(500, {"__type": "InternalServerError"}),
        respond(500, b""),
        respond(503, b"<html>try later</html>"),
        respond(599, b"what"),
    ],
    ids=lambda response: f"{response.status} {response.body.decode()[:30]}",
)
def test_an_error_has_the_code_and_the_message_of_botocore(response: Response) -> None:
    error, theirs = error_of(response)["Error"], error_of_botocore(response)
    assert error["Code"] == theirs["Code"]
    if theirs["Message"]:
        assert error["Message"] == theirs["Message"] or response.body.decode() == error["Message"]


def test_an_error_keeps_what_else_came() -> None:
    response = error_of(respond(400, {**FAILED, "Item": {"PK": {"S": "p"}}}, date="now"))
    assert response["Item"] == {"PK": {"S": "p"}}
    assert response["ResponseMetadata"] == {"HTTPStatusCode": 400, "HTTPHeaders": {"date": "now"}}


def test_an_answer_has_its_headers() -> None:
    answer = read_response(respond(200, {"Item": {}}, date="now"))
    assert answer == {"Item": {}, "ResponseMetadata": {"HTTPStatusCode": 200, "HTTPHeaders": {"date": "now"}}}


@pytest.mark.parametrize("body", [b"what?", b"[]", b"\xff\xfe", b"[" * 200_000, b"null"])
@pytest.mark.parametrize("status", [200, 400, 500])
def test_a_body_that_is_no_object_is_no_answer(body: bytes, status: int) -> None:
    with pytest.raises(OutcomeUnknown if status == 200 else ErrorAnswer):
        read_response(respond(status, body))


@pytest.mark.parametrize("status", [200, 400])
def test_a_damaged_body_is_refused(status: int) -> None:
    with pytest.raises(OutcomeUnknown, match="CRC32"):
        read_response(respond(status, FAILED, **{"x-amz-crc32": "1"}))
    assert zlib.crc32(b"{}") != 1
    read_response(respond(200, b"{}", **{"x-amz-crc32": str(zlib.crc32(b"{}"))}))
