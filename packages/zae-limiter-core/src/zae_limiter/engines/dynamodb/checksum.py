"""Check an answer by DynamoDB's ``x-amz-crc32``, which the SDK's standard mode leaves out."""

import zlib
from collections.abc import Mapping

from ...operations.errors import OutcomeUnknown
from .faults import request_id


def check_body(headers: Mapping[str, str], body: bytes) -> None:
    """Raise ``OutcomeUnknown`` if the body does not match its checksum, if there is one."""
    expected = headers.get("x-amz-crc32")
    if expected is not None and str(zlib.crc32(body)) != expected.strip():
        raise OutcomeUnknown(f"the answer was damaged on its way: its CRC32 is wrong{request_id(headers)}")
