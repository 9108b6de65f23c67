"""The check of an answer by DynamoDB's ``x-amz-crc32``, which the SDK's standard mode leaves out."""

import zlib
from collections.abc import Mapping
from typing import Any

from .errors import OutcomeUnknown


def check_crc32(response_dict: Mapping[str, Any] | None = None, **_: object) -> None:
    """Raise ``OutcomeUnknown`` if the body does not match its checksum; a handler of ``response-received``."""
    if response_dict is None:  # there was no answer
        return
    expected, body = response_dict["headers"].get("x-amz-crc32"), response_dict["body"]
    if expected is not None and isinstance(body, bytes) and str(zlib.crc32(body)) != expected.strip():
        raise OutcomeUnknown("the answer was damaged on its way: its CRC32 is wrong")
