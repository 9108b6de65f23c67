"""Whether an answer came as it was sent.

Lives here: the check of DynamoDB's ``x-amz-crc32``, which the SDK's standard mode leaves out. Never: what comes of it.
"""

import zlib
from collections.abc import Mapping
from typing import Any

from .errors import OutcomeUnknown


def check_crc32(response_dict: Mapping[str, Any] | None = None, **_: object) -> None:
    """Raise ``OutcomeUnknown`` where the body is not what its checksum says; a handler of ``response-received``."""
    if response_dict is None:  # there was no answer
        return
    told, body = response_dict["headers"].get("x-amz-crc32"), response_dict["body"]
    if told is not None and isinstance(body, bytes) and str(zlib.crc32(body)) != told.strip():
        raise OutcomeUnknown("the answer was damaged on its way: its CRC32 is wrong")
