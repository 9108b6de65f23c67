"""Requests as they are packed, and packed input that is much larger unpacked."""

import base64
import json
import zlib
from functools import cache
from typing import Any

from hypothesis import strategies as st


def packed(plain: Any) -> dict[str, Any]:
    """A plain value, packed whatever its size."""
    return {"packed": pack_text(json.dumps(plain).encode())}


@cache
def _bomb(opening: bytes, size: int) -> str:
    return pack_text(opening * size)


def pack_text(text: bytes) -> str:
    """Return a text as it is packed."""
    return base64.b64encode(zlib.compress(text)).decode()


unpack_bombs = st.builds(
    lambda opening, size: {"packed": _bomb(opening, size)},
    st.sampled_from([b"[", b'{"a":', b" ", b"9"]),
    st.sampled_from([1_000, 100_000, 40_000_000]),
)
