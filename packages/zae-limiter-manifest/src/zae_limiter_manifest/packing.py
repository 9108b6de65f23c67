"""Compress requests and answers that exceed a Lambda's limit, and split answers into pages if that is not enough."""

import base64
import binascii
import hashlib
import json
import zlib
from collections.abc import Iterable, Mapping
from typing import Any, Final

from .formats import FormatError

LARGEST: Final = 5_000_000
"""The largest request or answer in bytes; a Lambda's limit is 6 MB."""

LARGEST_REQUEST: Final = 3 * LARGEST
"""The largest request in bytes before compression: parsed, its values need up to 25 times as much memory."""

LARGEST_UNPACKED: Final = 200_000_000
"""The same for an answer, which a trusted function sends to a larger machine."""

MOST_VALUES: Final = 2_000_000
"""The most keys and values of a packed request: parsed, an empty map in three bytes needs 72 bytes of memory."""

_PACKED: Final = "packed"
_NEXT: Final = "next"


def pack(plain: Mapping[str, Any], *, largest: int = LARGEST) -> dict[str, Any]:
    """Return a request within the size limit, compressed if necessary; raises `FormatError` if even that is too
    large.
    """
    text = _text(plain)
    if len(text) <= largest:
        return dict(plain)
    if len(text) > LARGEST_REQUEST:
        raise FormatError(f"the request is too large: {len(text)} bytes, at most {LARGEST_REQUEST} are allowed")
    packed = _compress(text)
    if len(packed) > largest:
        raise FormatError(f"the request is too large: {len(packed)} bytes compressed, at most {largest} are allowed")
    return {_PACKED: packed}


def page(plain: Mapping[str, Any], after: str | None = None, *, largest: int = LARGEST) -> dict[str, Any]:
    """Return the first page of an answer, or the page after the one whose `next` was `after`.

    Raises `FormatError` if the answer has changed since the first page.
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
    """Return what to send as `next` to get the page after this one; None for the last page."""
    after = raw.get(_NEXT) if _PACKED in raw else None
    return after if isinstance(after, str) else None


def unpack(pages: Iterable[Mapping[str, Any]], *, largest: int | None = None) -> Mapping[str, Any]:
    """Return the plain values of a request or of all pages of an answer; raises `FormatError`.

    `largest` bounds their size in bytes before compression, and `MOST_VALUES` the number of values. No more than that
    is ever decompressed, or parsed. Without `largest`, the pages are an answer of a trusted function.
    """
    parts = list(pages)
    if not all(isinstance(part, Mapping) for part in parts):
        raise FormatError("cannot be unpacked: it is not a map")
    if len(parts) == 1 and _PACKED not in parts[0]:
        return parts[0]
    if not all(isinstance(part.get(_PACKED), str) for part in parts):
        raise FormatError(f"cannot be unpacked: `{_PACKED}` must be text")
    try:
        text = _decompress("".join(part[_PACKED] for part in parts), largest or LARGEST_UNPACKED)
        if largest:
            check_values(text, MOST_VALUES)
        plain = json.loads(text)
    except FormatError:
        raise
    except (ValueError, RecursionError, zlib.error) as error:
        raise FormatError(f"cannot be unpacked: {error}") from error
    if not isinstance(plain, dict):
        raise FormatError("cannot be unpacked: the content is not a map")
    return plain


def check_values(text: bytes, most: int) -> None:
    """Raise `FormatError` for a JSON text with too many keys and values, before it is parsed.

    This counts punctuation, in strings as well, so `most` is about twice what a sound text has.
    """
    if sum(map(text.count, (b",", b":", b"[", b"{"))) > most:
        raise FormatError(f"cannot be read: it has more than {most} keys and values")


def _text(plain: Mapping[str, Any]) -> str:
    return json.dumps(plain, separators=(",", ":"))


def _compress(text: str) -> str:
    return base64.b64encode(zlib.compress(text.encode())).decode()


def _decompress(packed: str, largest: int) -> bytes:
    try:
        data = base64.b64decode(packed, validate=True)
    except binascii.Error as error:
        raise FormatError(f"cannot be unpacked: {error}") from error
    reader = zlib.decompressobj()
    plain = reader.decompress(data, largest)
    if not reader.eof:
        raise FormatError(f"cannot be unpacked: it is cut short, or larger than {largest} bytes")
    return plain


def _start(after: str, digest: str, size: int) -> int:
    known, _, start = after.partition(":")
    if known != digest or not start.isdecimal() or int(start) >= size:
        raise FormatError("the answer has changed since its first page: request it again")
    return int(start)
