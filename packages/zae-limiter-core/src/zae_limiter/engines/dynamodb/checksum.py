"""Check an answer by DynamoDB's ``x-amz-crc32``, which the SDK's standard mode leaves out."""

import zlib
from collections.abc import Mapping
from typing import Any

from ...operations.errors import OutcomeUnknown


def check_body(headers: Mapping[str, str], body: bytes) -> None:
    """Raise ``OutcomeUnknown`` if the body does not match its checksum, if there is one."""
    expected = headers.get("x-amz-crc32")
    if expected is not None and str(zlib.crc32(body)) != expected.strip():
        raise OutcomeUnknown("the answer was damaged on its way: its CRC32 is wrong")


def check_crc32(response_dict: Mapping[str, Any] | None = None, **_: object) -> None:
    """Call ``check_body`` as a handler of botocore's ``response-received``."""
    if response_dict is not None and isinstance(response_dict["body"], bytes):  # else there was no answer
        check_body(response_dict["headers"], response_dict["body"])
