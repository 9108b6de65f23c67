"""What is larger than a Lambda takes or gives: compressed, and in pages where that is not enough.
Never sends anything, and never knows what is packed."""

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from .formats import FormatError

LARGEST: Final = 5_000_000
"""Bytes of a request or of an answer; a Lambda takes and gives 6 MB."""

LARGEST_UNPACKED: Final = 200_000_000

_PACKED: Final = "packed"
_NEXT: Final = "next"


def pack(plain: Mapping[str, Any], *, largest: int = LARGEST) -> dict[str, Any]:
    """A request that may be sent: as it is, or compressed; raises `FormatError` where even that is too large."""
    text = _text(plain)
    if len(text) <= largest:
        return dict(plain)
    packed = _compress(text)
    if len(packed) > largest:
        raise FormatError(f"the request is too large: {len(packed)} bytes compressed, of {largest} that may be sent")
    return {_PACKED: packed}


def page(plain: Mapping[str, Any], after: str | None = None, *, largest: int = LARGEST) -> dict[str, Any]:
    """An answer, or the part of it that follows what `after`, the `next` of the page before, was the end of.

    Raises `FormatError` where the answer is another one by now.
    """
    text = _text(plain)
    if after is None and len(text) <= largest:
        return dict(plain)
    packed = _compress(text)
    digest = hashlib.sha256(packed.encode()).hexdigest()[:16]
    start = 0 if after is None else _start(after, digest, len(packed))
    end = start + largest
    return {_PACKED: packed[start:end], **({_NEXT: f"{digest}:{end}"} if end < len(packed) else {})}


def next_page(raw: Mapping[str, Any]) -> str | None:
    """What to ask for the page after this one with; None where it is the last."""
    after = raw.get(_NEXT) if _PACKED in raw else None
    return after if isinstance(after, str) else None


def unpack(pages: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """The plain values of a request or of all pages of an answer; raises `FormatError`."""
    parts = list(pages)
    if len(parts) == 1 and _PACKED not in parts[0]:
        return parts[0]
    try:
        plain = json.loads(_decompress("".join(part[_PACKED] for part in parts)))
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise FormatError(f"cannot be unpacked: {error}") from error
    if not isinstance(plain, dict):
        raise FormatError("cannot be unpacked: no map is in it")
    return plain


def _text(plain: Mapping[str, Any]) -> str:
    return json.dumps(plain, separators=(",", ":"))


def _compress(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode())).decode()


def _decompress(packed: str) -> bytes:
    try:
        data = base64.b64decode(packed, validate=True)
    except binascii.Error as error:
        raise FormatError(f"cannot be unpacked: {error}") from error
    reader = zlib.decompressobj()
    plain = reader.decompress(data, LARGEST_UNPACKED)
    if not reader.eof:
        raise FormatError(f"cannot be unpacked: it is cut short, or larger than {LARGEST_UNPACKED} bytes")
    return plain


def _start(after: str, digest: str, size: int) -> int:
    known, _, start = after.partition(":")
    if known != digest or not start.isdecimal() or int(start) >= size:
        raise FormatError("the answer has changed since its first page: ask for it again")
    return int(start)
